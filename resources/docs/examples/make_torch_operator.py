"""A PyTorch module as one operator of fused kernels, compared with PyTorch itself: make_torch_operator.py"""

import torch

import engine

model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128)).eval()
x = torch.randn(32, 64)
plan = engine.fuse(engine.from_torch(torch.export.export(model, (x,))))
op = engine.torch_op(plan, engine.default_recipe(plan))
with torch.no_grad():
    print(f"{len(plan.launches)} kernels, largest difference {(op(x) - model(x)).abs().max():.1e}")
