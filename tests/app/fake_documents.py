"""Made-up documents in the shape of a BERT encoder, for the window's tests.

Figures are plausible, not computed; every time sample that a GPU would have given has the origin "synthetic".
"""

from __future__ import annotations

from dataclasses import replace

from app.session.advice_spans import outline
from engine.documents.exploration import ConflictDoc
from engine.documents.model import (
    Check,
    CompiledDoc,
    EdgeDoc,
    EntryDoc,
    GroupDoc,
    KernelDoc,
    LaunchDoc,
    LineDoc,
    ModelDoc,
    NodeDoc,
    OperatorDoc,
    RepairDoc,
    ScenarioDoc,
    ScheduleDoc,
    StatementDoc,
    TermDoc,
    Time,
)

LAYERS = 12
KINDS = {
    "embeddings": "Gather", "matmul": "MatMul", "softmax": "Softmax", "layernorm": "LayerNormalization", "pooler": "Tanh",
}  # fmt: skip
"""First word of a group's name -> the type of its operator."""
BANDWIDTH = 4.3e6
"""Bytes in a microsecond."""

GROUPS = (
    # name, title, kind, shape, instances, time, bound, bytes, flops
    ("embeddings_0", "embeddings + layernorm", "row reduction", "4096 x 768 float16", 1, 9.8, "memory", 38_000_000, 25_000_000),
    ("matmul_0", "QKV projection + bias", "contraction", "4096 x 2304 x 768 float16", 12, 34.2, "compute", 28_000_000, 14_500_000_000),
    ("matmul_1", "QKᵀ matmul + scale + mask", "contraction", "96 x 512 x 512 x 64 float16", 12, 14.1, "memory", 63_000_000, 3_200_000_000),
    ("softmax_0", "softmax", "row reduction", "96 x 512 x 512 float16", 12, 25.6, "memory", 100_663_296, 126_000_000),
    ("matmul_2", "attention · V matmul", "contraction", "96 x 512 x 64 x 512 float16", 12, 14.8, "memory", 63_000_000, 3_200_000_000),
    ("matmul_3", "output projection + bias", "contraction", "4096 x 768 x 768 float16", 12, 11.9, "compute", 13_800_000, 4_800_000_000),
    ("layernorm_0", "residual + layernorm", "row reduction", "4096 x 768 float16", 24, 5.4, "memory", 18_900_000, 31_000_000),
    ("matmul_4", "FFN up + bias + GELU", "contraction", "4096 x 3072 x 768 float16", 12, 42.3, "compute", 36_000_000, 19_300_000_000),
    ("matmul_5", "FFN down + bias", "contraction", "4096 x 768 x 3072 float16", 12, 47.6, "compute", 36_000_000, 19_300_000_000),
    ("pooler_0", "pooler", "contraction", "8 x 768 x 768 float16", 1, 4.1, "latency", 1_200_000, 9_400_000),
)  # fmt: skip

LAYER = (
    "matmul_0",
    "matmul_1",
    "softmax_0",
    "matmul_2",
    "matmul_3",
    "layernorm_0",
    "matmul_4",
    "matmul_5",
    "layernorm_0",
)
SCOPES = ("attention.self",) * 4 + ("attention.output", "", "intermediate.dense", "output.dense", "")
INNER_EDGES = ((0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5), (5, 6), (6, 7), (5, 8), (7, 8))


def model(layers: int = LAYERS) -> ModelDoc:
    """An encoder of `layers` equal layers between its embeddings and its pooler."""
    titles = {row[0]: row[1] for row in GROUPS}
    shapes = {row[0]: row[3] for row in GROUPS}
    counts: dict[str, int] = {}
    nodes: list[NodeDoc] = []

    def launch(group: str, scope: str) -> str:
        instance = counts.get(group, 0)
        counts[group] = instance + 1
        name = f"{group}#{instance}"
        nodes.append(NodeDoc(name, group, instance, titles[group], shapes[group], (f"{scope}/{group}",), scope))
        return name

    def edge(source: str, target: str) -> EdgeDoc:
        return EdgeDoc(
            source,
            target,
            f"{source}.out",
            "4096 x 768 float16",
            6_291_456,
            "each reads more than one row of the other",
        )

    edges: list[EdgeDoc] = []
    last = launch("embeddings_0", "embeddings")
    for layer in range(layers):
        scopes = (f"encoder.layer.{layer}.{scope}".rstrip(".") for scope in SCOPES)
        names = [launch(group, scope) for group, scope in zip(LAYER, scopes, strict=True)]
        edges += [edge(last, names[0]), edge(last, names[5])]
        edges += [edge(names[a], names[b]) for a, b in INNER_EDGES]
        last = names[-1]
    edges.append(edge(last, launch("pooler_0", "pooler")))
    groups = tuple(_group(row, counts.get(row[0], 0)) for row in GROUPS)
    total = sum(group.time.microseconds * group.instances for group in groups if group.time)
    groups = tuple(
        replace(group, share=group.time.microseconds * group.instances / total) for group in groups if group.time
    )
    operators = tuple(
        OperatorDoc(node.operators[0], KINDS[node.group.partition("_")[0]], (), (f"{node.id}.out",), node.shape, node.scope)
        for node in nodes
    )  # fmt: skip
    return ModelDoc(
        "bert_base_b8_s512", "bert_base_b8_s512.onnx", "h200", operators, tuple(nodes), tuple(edges), groups, (),
        Time(total, "predicted", "uncalibrated"), (("load", 0.3), ("fuse", 0.3)),
    )  # fmt: skip


def _group(row: tuple[str, str, str, str, int, float, str, int, int], instances: int) -> GroupDoc:
    name, title, kind, shape, _, time, bound, size, flops = row
    because = "Row max, exponent, row sum and divide share the row i. One warp holds a row, so both reductions pass through shuffle and nothing returns to memory."
    boundaries = (
        "QKᵀ matmul + scale + mask: a matmul tile covers 128 of the 512 columns; the row max needs all 512.",
        "attention · V matmul: it reads every column of a row for each of its outputs.",
    )
    statements = (
        "S0: m[i] max= x[i, j]",
        "S1: e[i, j] = exp(x[i, j] - m[i])",
        "S2: s[i] += e[i, j]",
        "S3: y[i, j] = e[i, j] / s[i]",
    )
    return GroupDoc(
        name, title, kind, shape, "float16", instances, statements, because, boundaries, size, flops, bound,
        size / BANDWIDTH, Time(time, "predicted", "uncalibrated"), 0.0, kind in ("contraction", "attention"),
    )  # fmt: skip


ADVICE = """\
advice stitch
  all @ outermost: pin i              # because every statement shares the row
advice map
  all @ i: mark block 8               # because rows are independent
  all @ innermost: mark lane 32       # because one warp holds a row
advice vectorize
  S1, S3 @ innermost: mark vector 8   # because j is innermost and contiguous
advice pipeline
  S0 @ k: mark stages 2               # because copies of K can run ahead
"""

CUDA = """\
// softmax   96 x 512 x 512 float16
// recipe 4f1c-e09   predicted 25.6 us
#include "loom.cuh"
constexpr int ROWS = 49152, COLS = 512;
constexpr int WARPS = 8, VECTOR = 8;
static_assert(COLS % (32 * VECTOR) == 0);

extern "C" __global__ void __launch_bounds__(256)
softmax_0(const half* __restrict__ x, half* __restrict__ y)
{
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // band i: one warp per row
  const int i = blockIdx.x * WARPS + warp;
  float v[16];
  // S0: row max
  float m = -INFINITY;
  for (int j = 0; j < 2; ++j) {
    load8(x, i * COLS + (j * 32 + lane) * VECTOR, v + j * 8);
    for (int u = 0; u < 8; ++u) m = fmaxf(m, v[j * 8 + u]);
  }
  m = warp_max(m);
  // S1: exponent
  for (int u = 0; u < 16; ++u) v[u] = __expf(v[u] - m);
  // S2: row sum
  float s = 0.0f;
  for (int u = 0; u < 16; ++u) s += v[u];
  s = warp_sum(s);
  // S3: divide, 16-byte stores
  const float r = 1.0f / s;
  for (int j = 0; j < 2; ++j) {
    store8(y, i * COLS + (j * 32 + lane) * VECTOR, v + j * 8, r);
  }
}
"""

LINKS = {
    13: "",
    16: "S0",
    17: "S0",
    18: "S0",
    19: "S0",
    21: "S0",
    23: "S1",
    25: "S2",
    26: "S2",
    27: "S2",
    29: "S3",
    30: "S3",
    31: "S3",
}
"""Line of CUDA -> its statement; "" for a line that belongs to the band i alone."""

STATEMENTS = (
    StatementDoc("S0", "m[i] = max(m[i], x[i, j])", "ReduceMax", ("i", "j"), "shuffle over 32 lanes: all lanes of one warp contribute"),
    StatementDoc("S1", "e[i, j] = exp(x[i, j] - m[i])", "Exp", ("i", "j"), "16 registers a lane: producer and consumer are the same thread"),
    StatementDoc("S2", "s[i] = s[i] + e[i, j]", "ReduceSum", ("i", "j"), "shuffle over 32 lanes: all lanes of one warp contribute"),
    StatementDoc("S3", "y[i, j] = e[i, j] / s[i]", "Div", ("i", "j"), "global: read by attention · V matmul"),
)  # fmt: skip


def schedule() -> ScheduleDoc:
    """Four statements under one band of rows."""
    names = tuple(statement.name for statement in STATEMENTS)
    chips = {
        "S0": ("lane 32", "reduce max"),
        "S1": ("lane 32", "vector 8"),
        "S2": ("lane 32", "reduce sum"),
        "S3": ("lane 32", "vector 8"),
    }
    inner = tuple(
        ScheduleDoc("band", "j = 0 … 511", (each.name,), "j", False, chips[each.name], (
            ScheduleDoc("statement", f"{each.name}: {each.text}", (each.name,), "", False, (), ()),))
        for each in STATEMENTS
    )  # fmt: skip
    sequence = ScheduleDoc("sequence", "S0 → S1 → S2 → S3", names, "", False, (), inner)
    band = ScheduleDoc("band", "i = 0 … 49,151", names, "i", True, ("block 6,144", "warp 8"), (sequence,))
    return ScheduleDoc("domain", "S0, S1, S2, S3", names, "", False, (), (band,))


def kernel(group: str, recipe: str | None = None) -> KernelDoc:
    """The compiled group; "parallel true" for S2 at j is illegal, as a sum is carried there.

    With the remark "# hard" its smallest conflict and the repairs are another question's answer.
    """
    text = ADVICE if recipe is None else recipe
    entries = tuple(_entries(text))
    legal = all(entry.outcome != "infeasible" for entry in entries)
    time = next((row[5] for row in GROUPS if row[0] == group), 10.0)
    stages = 3 if "stages 3" in text else 2 if "stages 2" in text else 1
    lines = tuple(
        LineDoc(line, (name,) if name else (), ("i", "j") if name else ("i",)) for line, name in LINKS.items()
    )  # fmt: skip
    terms = (
        TermDoc("DRAM traffic", time * 0.92, "µs", "101 MB at 4.3 TB/s"),
        TermDoc("arithmetic", time * 0.3, "µs", "126 MFLOP at 60 TFLOP/s"),
        TermDoc("launch", 1.9, "µs", "one launch"),
        TermDoc("occupancy", 0.75, "", "48 of 64 warps an SM, limited by registers"),
    )
    found = KernelDoc(
        group, text, legal, 6, schedule(), entries, STATEMENTS, CUDA.replace("softmax_0", group), lines,
        (LaunchDoc("softmax_0", 6144, 256, 0),), stages, Time(time - 0.4 * (stages - 2), "predicted", "uncalibrated"), terms,
        (CompiledDoc("sm_80", 38, 0), CompiledDoc("sm_90a", 40, 0)), 8.2,
        "Row max, exponent, row sum and divide share the row i.",
        tuple(entry.path for entry in entries if entry.outcome == "infeasible"), _repairs(text, entries), _scenarios(text),
    )  # fmt: skip
    return replace(found, repairs=(), complete=False) if "# hard" in text else found


def conflict(group: str, recipe: str) -> ConflictDoc:
    """What `kernel` leaves open."""
    found = kernel(group, recipe.replace("# hard", ""))
    repairs = tuple(replace(each, recipe=each.recipe + "# hard") for each in found.repairs)
    return ConflictDoc(group, recipe, kernel(group, recipe).entries, found.conflicting, repairs, complete=True)


def _repairs(text: str, entries: tuple[EntryDoc, ...]) -> tuple[RepairDoc, ...]:
    """For what is infeasible: soft, off, or another sum."""
    found: list[RepairDoc] = []
    for entry in entries:
        if entry.outcome == "infeasible":
            wish = entry.text.removeprefix("required ")
            soft, off = text.replace(entry.text, wish), text.replace(entry.text, f"off {entry.text}")
            found += [
                RepairDoc("rewrite", (), "let S2 add the terms of s in any order", f"{text}  rewrite associative S2\n", True),
                RepairDoc("relax", entry.path, f"make “{wish}” optional", soft, True),
                RepairDoc("switch off", entry.path, f"switch off “{entry.text}”", off, True),
            ]
    return tuple(found)


def _entries(text: str) -> list[EntryDoc]:
    """Entries with the paths of the real documents; of alternatives only the first is reached."""
    read = outline(text)
    return [
        _entry(read.lines[line].strip(), read.author(path), path)
        for path, line in sorted(read.entries.items(), key=lambda item: item[1])
    ]


def _scenarios(text: str) -> tuple[ScenarioDoc, ...]:
    read = outline(text)
    return tuple(
        ScenarioDoc(path, read.author(path), _label(read.lines[line]), "not reached" if any(path[1:]) else "taken")
        for path, line in sorted(read.heads.items(), key=lambda item: item[1])
        if len(path) > 1
    )


def _label(line: str) -> str:
    return line.strip().partition(" ")[2].strip('"')


def _entry(line: str, author: str, path: tuple[int, ...]) -> EntryDoc:
    wish, _, because = line.partition("# because ")
    wish = wish.strip()
    enabled, required = "off " not in f"{wish} ", "required " in wish
    names = wish.replace("required ", "").replace("off ", "").partition("@")[0].strip()
    dimension = wish.partition("@")[2].partition(":")[0].strip()
    statements = () if names == "all" else tuple(name.strip() for name in names.split(","))
    outcome, verdict, witness = "honoured", "the schedule does so", ""
    if not enabled:
        outcome, verdict = "disabled", "switched off"
    elif any(path[1:-1]):
        outcome, verdict = "not reached", "an alternative before it holds"
    elif dimension == "k":
        outcome, verdict = "matches nothing", "no dimension k in this group"
    elif "S2" in statements and "parallel true" in wish and not required:
        outcome, verdict = "relaxed", "it would break the flow of s"
    elif "S2" in statements and "parallel true" in wish:
        outcome, verdict = "infeasible", "Required, cannot hold: collides with the flow of s"
        witness = "S2(i=2, j=3) → S2(i=2, j=4)"
    return EntryDoc(path, author, statements, dimension, wish, because, required, enabled, outcome, verdict, witness)


def check(group: str) -> Check:
    """A passed check of some blocks."""
    return Check(
        group, "pass", 3.1e-4, 1e-3, "float16 inputs, float32 sums of 512 terms", 48, 6144, 196_608,
        ("late copies", "early copies"), (), "48 of 6,144 blocks compared", levels={"source": "pass", "ptx": "pass"},
    )  # fmt: skip
