"""Run the kernel of a model's first group on arrays of your own: run_on_own_arrays.py MODEL"""

import sys

import engine

plan = engine.fuse(engine.load(sys.argv[1]))
kernel = engine.compile(plan.groups[0])
arrays = engine.inputs(kernel, seed=1)  # any arrays of these names, shapes and types
arrays = {name: value * 2 if value.dtype.kind == "f" else value for name, value in arrays.items()}
results = engine.run(kernel, arrays)
for name, value in results.items():
    print(f"{name}: {value.dtype}{list(value.shape)}, mean {value.mean():.4g}, {results.origin}")
