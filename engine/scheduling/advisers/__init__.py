"""Analyses that write recipe entries.

`vectorize`, `mapping`, `tensorize` and `pipeline` are authors, each with one public function.  They look at `access`
(how accesses move), `score` (which loop they want innermost), `warp` (what a warp would request) and `plans` (loop
orders and vectors, ranked).
"""
