"""Write the exported programs beside this file, with what PyTorch computes: `python .../torch_programs/make.py`.

Needs PyTorch 2.9 or later and NumPy; run by hand where operators are added.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

HERE = Path(__file__).parent


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *operands: Tensor) -> object:
        return self.function(*operands)


def elementwise(x: Tensor, y: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, ...]:
    p = x.abs() + 0.5
    made = [
        torch.relu(x), torch.sigmoid(x), torch.tanh(x), torch.exp(x), torch.log(p), torch.sqrt(p), -x, torch.erf(x),
        torch.floor(x), torch.ceil(x), torch.round(x), torch.sin(x), torch.cos(x), torch.reciprocal(p), torch.rsqrt(p),
        torch.sign(x), F.softplus(x), F.hardswish(x), F.mish(x), F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh"),
        F.leaky_relu(x, 0.2), F.elu(x, 0.7), F.hardsigmoid(x), F.hardtanh(x, -0.3, 0.4), F.relu6(x * 5), torch.log1p(p),
        torch.expm1(x), torch.add(x, y, alpha=2), torch.sub(x, y, alpha=3), x * y, x / p, x + 3, 3 - x, x * 2.5,
        torch.div(x, p, rounding_mode="floor"), torch.div(x * 9, p, rounding_mode="trunc"), n // m, n % m, x % p, p**2,
        p**y, 2.0**x, torch.maximum(x, y), torch.minimum(x, y), torch.clamp(x, -0.2, 0.3), torch.clamp(x, min=0.1),
        n / m, n + x, torch.div(n, m, rounding_mode="trunc"), x.to(torch.float16).to(torch.float32),
        n.to(torch.float32), torch.where(x > 0, x, y), x.masked_fill(y > 0.5, -1e9), torch.where(n == 2, n, m),
    ]  # fmt: skip
    both = (x > 0) & (y > 0), ~(x > 0), torch.logical_or(x, y > 0)
    truth = [x == y, x != y, x < y, x <= 0.1, n > 1, n >= m, *both, n < 1.5]
    return (*made, *truth)


def reductions(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    best, where = x.max(1)
    least, place = x.min(-1, keepdim=True)
    values, places = x.topk(3, 2)
    return (
        x.sum(), x.sum(1), x.sum((0, 2), keepdim=True), x.mean(), x.mean(-1), x.amax(1), x.amin((0, 1)), x.prod(1),
        x.argmax(1), x.argmin(-1, keepdim=True), x.argmax(), (x > 0).any(1), (x > -1).all(2), (x > 0).any(), x.var(1),
        x.std(-1, unbiased=False, keepdim=True), x.max(), best, where, least, place, values, places, n.sum(0), n.max(),
        F.softmax(x, 1), F.log_softmax(x, -1), x.cumsum(1), torch.linalg.vector_norm(x, dim=2), n.float().mean(0),
    )  # fmt: skip


def shapes(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    a, b, c = x.chunk(3, 1)
    d, e = x.split([4, 2], 1)
    f, g = x[:2].unbind(0)
    return (
        x.view(2, -1), x.reshape(8, 3, 2), x.permute(2, 0, 1), x.transpose(0, -1), x[0].t(), x.unsqueeze(1), a, b, c,
        d, e, f + g, x.flatten(1), x.unsqueeze(0).squeeze(0), x[:, :1].expand(-1, 5, -1), x[:, 1:5:2], x[..., -1], x[1],
        torch.cat([x, x * 2], 1), torch.stack([a, b], 2), x.narrow(1, 1, 3), x[:, i], x[i, i], x.index_select(2, i),
        torch.gather(x, 1, i.view(1, 3, 1).expand(2, 3, 4)), x.repeat(2, 1, 3), F.pad(x, (1, 2, 0, 1), value=3.0),
        F.pad(x, (1, 1), mode="reflect"), torch.tril(x), torch.triu(x, 1), torch.zeros_like(x) + x,
        torch.arange(5) + i[0], torch.full((2, 3), 7.0) * x[0, :2, :3], x.new_ones(4) + x[0, 0],
        x.clone().contiguous(), x[:, None, :, 0],
        torch.scatter_add(x, 1, i.view(1, 3, 1).expand(2, 3, 4), torch.ones(2, 3, 4)), x.unflatten(1, (2, 3)),
    )  # fmt: skip


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    one = F.scaled_dot_product_attention
    return (
        one(q, k, v), one(q, k, v, is_causal=True), one(q, k, v, attn_mask=mask), one(q, k, v, attn_mask=mask > 0),
        one(q, k[:, :2], v[:, :2], enable_gqa=True, scale=0.3), torch.einsum("bhqd,bhkd->bhqk", q, k),
    )  # fmt: skip


def in_place(x: Tensor) -> Tensor:
    y = x * 2
    y.relu_()
    y.add_(1)
    return y * y


class Layers(nn.Module):
    """Convolutions, norms, pools and products with weights."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(6, 8, 3, stride=2, padding=1, groups=2)
        self.same = nn.Conv2d(8, 8, 3, padding="same", dilation=2, bias=False)
        self.back = nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1)
        self.line = nn.Conv1d(6, 4, 5, padding=2)
        self.batch, self.group = nn.BatchNorm2d(8), nn.GroupNorm(4, 8)
        self.layer, self.root = nn.LayerNorm((8, 8)), nn.RMSNorm(8)
        self.dense, self.plain = nn.Linear(8, 5), nn.Linear(5, 3, bias=False)
        self.words, self.shuffle = nn.Embedding(11, 8), nn.PixelShuffle(2)
        self.register_buffer("scale", torch.linspace(1, 2, 3))
        self.turned = nn.Parameter(torch.randn(4, 3).t())

    def forward(self, x: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        y = self.batch(self.wide(x))
        z = self.layer(self.group(F.relu(y, inplace=True))) + self.same(y)
        pooled = F.max_pool2d(z, 3, 2, 1), F.avg_pool2d(z, 2), F.avg_pool2d(z, 3, 2, 1, count_include_pad=False)
        sized = F.adaptive_avg_pool2d(z, 1), F.adaptive_avg_pool2d(z, (4, 2))
        scaled = F.interpolate(z, scale_factor=2.0), F.interpolate(z, size=(12, 10), mode="bilinear")
        rows = self.root(self.words(ids))
        dense = self.plain(self.dense(rows)) * self.scale
        wide = torch.addmm(rows[0, :4, :3], rows[0, :4], rows[0].t()[:, :3], beta=0.5, alpha=2.0)
        products = torch.bmm(rows, rows.transpose(1, 2)), wide, dense @ self.turned
        return (y, z, self.back(z), self.line(x[:, :, 0]), self.shuffle(z), *pooled, *sized, *scaled, dense, *products)


class Sized(nn.Module):
    """A batch that stays open."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 12)

    def forward(self, x: Tensor) -> Tensor:
        batch, rows, _ = x.shape
        made = self.inner(x).view(batch, rows, 3, 4).transpose(1, 2).reshape(batch * 3, rows, 4)
        return torch.softmax(made, -1)


def main() -> None:
    """Export each program and write it without its example, which PyTorch pickles."""
    torch.manual_seed(3)
    integers = torch.randint(-7, 8, (4, 5)), torch.randint(1, 4, (4, 5))
    heads = [torch.randn(2, 4, 6, 8) for _ in range(3)]
    batch = {0: torch.export.Dim("batch", min=2, max=64)}
    programs: dict[str, tuple[nn.Module, tuple[Tensor, ...], object]] = {
        "elementwise": (Function(elementwise), (torch.randn(4, 5), torch.randn(4, 5), *integers), None),
        "reductions": (Function(reductions), (torch.randn(3, 4, 5), torch.randint(0, 9, (3, 4))), None),
        "shapes": (Function(shapes), (torch.randn(2, 6, 4), torch.tensor([0, 1, 1])), None),
        "attention": (Function(attention), (*heads, torch.randn(6, 6)), None),
        "in_place": (Function(in_place), (torch.randn(3, 4),), None),
        "layers": (Layers(), (torch.randn(2, 6, 16, 16), torch.randint(0, 11, (2, 7))), None),
        "sized": (Sized(), (torch.randn(4, 5, 8),), (batch,)),
    }
    for name, (module, given, open_sizes) in programs.items():
        module = module.eval()
        for suffix, is_core in (("", False), ("_core", True)):
            program = torch.export.export(module, given, dynamic_shapes={"x": batch} if open_sizes else None)
            program = program.run_decompositions() if is_core else program
            write(program, HERE / f"{name}{suffix}.pt2")
        with torch.no_grad():
            results = module(*given)
        results = results if isinstance(results, tuple) else (results,)
        sides = {f"in{at}": one for at, one in enumerate(given)} | {f"out{at}": one for at, one in enumerate(results)}
        np.savez_compressed(HERE / f"{name}.npz", **{key: value.numpy() for key, value in sides.items()})


def write(program: torch.export.ExportedProgram, path: Path) -> None:
    """Save, and leave out what is no part of the program."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / path.name
        torch.export.save(program, whole)
        with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            for member in old.infolist():
                if "sample_inputs" not in member.filename:
                    new.writestr(zipfile.ZipInfo(member.filename), old.read(member), zipfile.ZIP_DEFLATED)
    shutil.copymode(__file__, path)


if __name__ == "__main__":
    main()
