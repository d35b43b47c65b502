"""Run the kernel of a model's first group on arrays of your own: run_on_own_arrays.py MODEL"""

import sys

import numpy

import engine

kernel = engine.compile(engine.fuse(engine.load(sys.argv[1])).groups[0])
values = numpy.random.default_rng(0)
shapes = {name: (value.shape, value.dtype) for name, value in engine.inputs(kernel).items()}
arrays = {name: values.integers(0, 2, shape).astype(dtype) for name, (shape, dtype) in shapes.items()}
results = engine.run(kernel, arrays)
for name, value in results.items():
    print(f"{name}: {value.dtype}{list(value.shape)}, mean {value.mean():.4g}, {results.origin}")
