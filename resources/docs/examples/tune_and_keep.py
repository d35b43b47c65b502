"""Search faster recipes for the groups of a model, and keep the best: tune_and_keep.py MODEL RECORDS RECIPE"""

import sys

import engine

model, records, place = sys.argv[1:]
plan = engine.fuse(engine.load(model), target="h100")
with engine.tune(plan, trials=8, records=records) as run:
    for attempt in run:
        print(f"{run.spent} of {run.budget}: {attempt.group} {attempt.microseconds or attempt.failure}")
    engine.write_recipe(run.best, place)
    print(run.report())
