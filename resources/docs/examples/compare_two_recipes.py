"""What two recipes make of each group of a model, by the model of time: compare_two_recipes.py MODEL RECIPE RECIPE"""

import sys

import engine

model, *files = sys.argv[1:]
plan = engine.fuse(engine.load(model), target="h100")
a, b = (engine.complete_recipe(engine.read_recipe(file), plan) for file in files)
for group in plan.groups:
    one, other = (engine.predict(engine.compile(group, recipe)) for recipe in (a, b))
    ratio = one.microseconds / other.microseconds
    print(f"{group.name}: {one.microseconds:.2f} and {other.microseconds:.2f} us {one.origin}, {ratio:.2f} times")
