"""The style sheet of reports: the tokens of the window's themes, light or dark as the reader's system says, light on
paper."""

from __future__ import annotations

import json
from pathlib import Path

COLOUR_MAP = "viridis"
"""Of the map's colours the cheapest kernel has the first."""
THEMES = Path(__file__).resolve().parents[2] / "resources" / "themes"

RULES = """
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 32px 24px 64px; max-width: 1180px; background: var(--panel); color: var(--text);
  font: 13px/1.5 Inter, system-ui, "Segoe UI", Roboto, sans-serif; font-variant-numeric: tabular-nums; }
h1 { font-size: 22px; margin: 0 0 2px; } h2 { font-size: 16px; margin: 36px 0 10px; padding-bottom: 4px;
  border-bottom: 1px solid var(--line); } h3 { font-size: 13px; margin: 18px 0 6px; }
p { margin: 4px 0; max-width: 80ch; overflow-wrap: anywhere; } .dim { color: var(--text-2); } .small { font-size: 12px; }
a { color: inherit; text-decoration: underline; text-decoration-color: var(--edge); text-underline-offset: 2px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 12px 0 0; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 20px 0 0; }
.figures div { border-top: 2px solid var(--line); padding-top: 6px; }
.figures b { display: block; font-size: 19px; font-weight: 600; } .figures span { color: var(--text-2); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 6px 0; }
th { text-align: left; font-weight: 500; color: var(--text-2); border-bottom: 1px solid var(--edge); white-space: nowrap; }
td, th { padding: 3px 14px 3px 0; vertical-align: top; } td { border-bottom: 1px solid var(--line); overflow-wrap: break-word; } td code { overflow-wrap: anywhere; }
.n { text-align: right; white-space: nowrap; } td.w { white-space: nowrap; }
.better { color: var(--better); } .worse { color: var(--worse); } .wrong { color: var(--wrong); }
details { margin: 8px 0; border: 1px solid var(--line); border-radius: 4px; padding: 0 12px; }
details[open] { padding-bottom: 10px; } summary { cursor: pointer; padding: 6px 0; font-weight: 600; }
summary .dim { font-weight: 400; } summary::marker { color: var(--text-2); }
:target { scroll-margin-top: 12px; } details:target > summary, tr:target { background: var(--accent-bg); }
ul.tree, ul.tree ul { list-style: none; margin: 0; padding: 0 0 0 18px; border-left: 1px solid var(--line); }
ul.tree { padding-left: 0; border: 0; } ul.tree li { padding: 1px 0; }
.kind { display: inline-block; min-width: 68px; padding: 0 6px; border-radius: 3px; background: var(--raised);
  color: var(--text-2); font-size: 11px; text-align: center; margin-right: 8px; }
.chip { border: 1px solid var(--edge); border-radius: 3px; padding: 0 5px; font-size: 11px; margin-left: 6px; white-space: nowrap; }
code, pre, .code { font: 11.5px/1.5 "JetBrains Mono", ui-monospace, Menlo, Consolas, monospace; }
pre { margin: 6px 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.code { border: 1px solid var(--line); border-radius: 4px; overflow-x: auto; margin: 6px 0; }
.cost-0 { stroke: var(--cost-0); } .cost-1 { stroke: var(--cost-1); } .cost-2 { stroke: var(--cost-2); } .cost-3 { stroke: var(--cost-3); }
.cost-4 { stroke: var(--cost-4); } .cost-5 { stroke: var(--cost-5); } .cost-6 { stroke: var(--cost-6); }
.code table { margin: 0; width: auto; min-width: 100%; } .code td { border: 0; padding: 0 12px 0 0; white-space: pre; }
.code td.no, .code td.by { color: var(--text-3); text-align: right; user-select: none; } .code td.no { padding-left: 10px; }
.code td.by { text-align: left; max-width: 160px; overflow: hidden; text-overflow: ellipsis; }
.keyword { color: var(--keyword); } .type { color: var(--type); } .number { color: var(--number); } .text-3 { color: var(--text-3); }
.text-2 { color: var(--text-2); }
svg { display: block; max-width: 100%; height: auto; margin: 8px 0; } svg.graph { margin: 8px auto; }
svg text { font: 11px Inter, system-ui, sans-serif; fill: var(--text); } svg text.dim { fill: var(--text-2); font-size: 10.5px; }
svg text.small { paint-order: stroke; stroke: var(--panel); stroke-width: 3px; } svg .name { font-weight: 600; } svg .end { text-anchor: end; } svg .middle { text-anchor: middle; } svg a { text-decoration: none; }
.box { fill: var(--chrome); stroke: var(--edge); } .frame { fill: none; stroke: var(--edge); } .shadow { fill: var(--panel); stroke: var(--line); }
a:hover .box { stroke: var(--accent); } .rule, .grid { stroke: var(--line); } .track { fill: var(--raised); }
.edge { fill: none; stroke: var(--edge); stroke-width: 1.2; } .roof { fill: none; stroke: var(--text-2); stroke-width: 1.4; }
.dot { fill: var(--panel); stroke: var(--accent); stroke-width: 1.4; } .dot.filled { fill: var(--accent); }
.best { fill: none; stroke: var(--accent); stroke-width: 2; } .bar { fill: none; stroke-width: 1.4; } .plots { display: flex; flex-wrap: wrap; gap: 12px 24px; }
.plots figure { margin: 0; flex: 1 1 420px; max-width: 560px; } figcaption { color: var(--text-2); }
@media print { body { max-width: none; padding: 0; font-size: 10.5px; } nav { display: none; } h2 { break-after: avoid; }
  tr, svg.plot, figure, .figures { break-inside: avoid; } thead { display: table-header-group; } svg.graph { max-height: 245mm; }
  .code, .scroll { overflow: visible; } .code td { white-space: pre-wrap; } details { border: 0; padding: 0; } details::details-content { content-visibility: visible; block-size: auto; } }
@page { margin: 14mm; }
"""


def report_style() -> str:
    """The whole style sheet."""
    light, dark = (_variables(name) for name in ("light", "dark"))
    # A system without a preference, and paper, are light.
    return (
        f":root {{ color-scheme: light dark; {light} }}\n@media screen and (prefers-color-scheme: dark) "
        f"{{ :root {{ {dark} }} }}{RULES}"
    )


def _variables(theme: str) -> str:
    stored = json.loads((THEMES / f"{theme}.json").read_text(encoding="utf-8"))
    colours = " ".join(f"--{name}: {value};" for name, value in stored["colours"].items())
    return colours + " " + " ".join(f"--cost-{number}: {value};" for number, value in enumerate(stored["cost"][COLOUR_MAP]))
