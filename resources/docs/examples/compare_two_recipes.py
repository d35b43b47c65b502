"""What two recipes make of each group of a model, by the model of time: compare_two_recipes.py MODEL RECIPE RECIPE"""

import sys

import engine

model, *files = sys.argv[1:]
plan = engine.fuse(engine.load(model), target="h100")
a, b = (engine.complete_recipe(engine.read_recipe(file), plan) for file in files)
for group in plan.groups:
    one, other = (engine.compile(group, recipe) for recipe in (a, b))
    times = (engine.predict(kernel).microseconds for kernel in (one, other))
    print(f"{group.name}: {' and '.join(f'{time:.2f}' for time in times)} µs predicted")
    print(engine.compare(one, other))
