"""Multi-stage, multi-level pipelines after ALCOP (Huang et al., MLSys 2023), as a pass over tile programs.

The lowering emits loops that copy, wait and use in turn, and notes which buffers somebody wants ahead of their use.
`detect` decides from the program itself which of them may be; `transform` rewrites the loop: buffers of several stages,
shifted and wrapped indices, a prologue, non-blocking copies, one synchronisation for all buffers of a scope, a drain.

What an entry of author `pipeline` (or a user's) says of a contraction, on its innermost reduced dimension unless said
otherwise; the names are stable:

    mark stages 3               tiles in shared memory at once, 1..6; 1 is not pipelined
    mark register_stages 2      fragments in registers at once, 1, 2 or 4; 1 is not pipelined
    mark tile 64                depths of one tile: register stages need as many steps of the instruction in it
    mark slices 4               split-K inside a block: warps of a slice multiply a part of every tile's depths
    mark raster 8               on a row dimension: rows of tiles that blocks walk down before the next column of tiles
    mark block 128, warp 64     on a row or column dimension: the block's and a warp's part of it

Of a row-wise kernel, on a dimension of its rows:

    mark turns 4                groups of rows that a block takes one after the other
    mark stages 2               groups of rows in shared memory at once
"""
