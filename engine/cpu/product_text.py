"""C++ of a product: a tile of registers with what follows its sums, and the loops of threads over tiles."""

from __future__ import annotations

import math
from contextlib import ExitStack

from engine.cpu.epilogue import EpilogueText
from engine.cpu.panels import SideText
from engine.cpu.product import row_places
from engine.cpu.tiles import DIRECT, PACKED, PREPARED, STAGED, direct_position, flat_step
from engine.tensor.index import Atom, Index, delinearize
from engine.tensor.nodes import accesses
from engine.tile.nodes.expressions import index_text


class ProductText(EpilogueText):
    """Writes the text of one product."""

    def constants(self) -> None:
        """Named sizes, before all functions."""
        add, config, product = self.text.add, self.config, self.product
        step = product.instruction.depth
        add(f"constexpr i64 M = {product.rows.count}, N = {product.columns.count};  // rows and columns")
        add(f"constexpr i64 WORDS = {product.words};  // of a row's or column's depth, {step} in each")
        add(f"constexpr i64 UNITS = {self.units}, UNIT_WORDS = {self.each};  // what blocks divide the depth into")
        add(f"constexpr int ROWS = {config.rows}, VECTORS = {config.vectors}, COLUMNS = VECTORS * LANES;  // of a tile")
        add("constexpr i64 TILES = (M + ROWS - 1) / ROWS, PANELS = (N + COLUMNS - 1) / COLUMNS;")
        add(f"constexpr i64 ROW_BLOCK = {config.row_block}, COLUMN_BLOCK = {config.column_block};  // tiles, panels")
        if self._fetches_ahead:
            add("constexpr i64 AHEAD = (COLUMNS + ROW_BLOCK - 1) / ROW_BLOCK;  // words that a tile fetches for each")
        if self.is_blocked:
            add(f"constexpr i64 DEPTH_BLOCK = {config.depth_block};  // units")
        if self.copies_rows:
            lines = -(-config.depth_block * self.each // self.machine.lanes) | 1
            add(f"constexpr i64 ROW_WORDS = {lines} * LANES;  // of a packed row: not a whole number of pages")
        add(f"constexpr auto row_place = [](int row) -> i64 {{ return {self._row_place()}; }};  // from a tile's first")
        add("")

    # A tile

    def tile_functions(self) -> None:
        """All depths of a tile; then the statements that use its sums."""
        self._multiply_function()
        arguments = [*self.kernel.parameters(), *(f"i64 {i.name}" for i in self.product.batch), "i64 m0", "i64 n0"]
        if self.fetched:
            self.extents |= {"m0": self.product.rows.size, "n0": self.product.columns.count}
            self.fetch_function(arguments)
        arguments += ["const int* __restrict__ row_sums"] * self.shifts
        arguments += [f"const {self.sum_type}* __restrict__ found"]
        self.finish_function(arguments)

    def _multiply_function(self) -> None:
        """A function of its own: what follows the sums would take registers from them."""
        text = self.text
        text.add("// Sums of HEIGHT rows and WIDTH vectors of columns over some depths, added to those found so far.")
        text.add("// IN_PLACE: columns lie in their array, not in a panel.")
        text.add("template <int HEIGHT, int WIDTH, bool IN_PLACE>")
        arguments = ["const u32* __restrict__ rows", "const u32* __restrict__ columns", "i64 unit", "i64 units"]
        arguments += ["const u32* ahead"] * self._fetches_ahead
        arguments.append(f"{self.sum_type}* __restrict__ found")
        with text.block(f"static NOT_INLINE void multiply({', '.join(arguments)})", self.link):
            text.add(f"Tile<{self.product.instruction.struct}, HEIGHT, WIDTH> sums;", self.link)
            if self.is_blocked:
                text.add("if (unit > 0) sums.read(found, COLUMNS);", self.link)
                text.add("else sums.clear();", self.link)
            else:
                text.add("sums.clear();", self.link)
            self._main_loop()
            text.add("sums.write(found, COLUMNS);", self.link)
        text.add("")

    def _main_loop(self) -> None:
        """One step for each word of the depth."""
        text = self.text
        if self.columns.mode != DIRECT:
            self._steps(in_place=self.columns.mode == STAGED)
            return
        with text.block("if constexpr (IN_PLACE)", self.link):
            self._steps(in_place=True)
        with text.block("else", self.link):
            self._steps(in_place=False)

    def _steps(self, in_place: bool) -> None:
        """in_place: whether columns are read where the array has them."""
        if self.rows.mode not in (DIRECT, STAGED) and not in_place:
            head = "for (i64 word = 0; word < (units - unit) * UNIT_WORDS; ++word)"
            with self.text.block(head, self.link):
                if self._fetches_ahead:
                    self.text.add("__builtin_prefetch(ahead + word * AHEAD, 0, 2);", self.link)
                rows = "rows + word" if self.copies_rows else "rows + word * ROWS"
                self.text.add(f"sums.add({rows}, row_place, columns + word * COLUMNS);", self.link)
            return
        with self.depth_loops() as (word, _):
            if self._fetches_ahead:
                self.text.add(f"__builtin_prefetch(ahead + ({word}) * AHEAD, 0, 2);", self.link)
            rows = self._place(self.rows, word, self.rows.mode in (DIRECT, STAGED))
            columns = self._place(self.columns, word, in_place)
            self.text.add(f"sums.add(rows + {rows}, row_place, columns + {columns});", self.link)

    @property
    def _fetches_ahead(self) -> bool:
        """Whether tiles fetch the next panel of columns into the second cache, each its part: weights that no kernel
        before has read come from memory."""
        return self.columns.mode == PREPARED

    def _place(self, side: SideText, word: str, is_direct: bool) -> str:
        """The place of a depth's word, from the first row or column on."""
        if not is_direct:
            return word if side is self.rows and self.copies_rows else f"({word}) * {side.width}"
        names = {i.name for i in self.product.depth}
        position = self._position(side)
        return index_text(Index.sum((a, c) for a, c in position.terms if _names(a) & names))

    def _position(self, side: SideText) -> Index:
        """Where a side's words lie, as its array or its staged copy has them."""
        if side.mode == STAGED:
            assert side.side.staging is not None
            return side.side.staging.position(self.extents)
        position = direct_position(self.product, side.side)
        assert position is not None
        return position

    def _row_place(self) -> str:
        """Words from a tile's first row to another one."""
        if self.rows.mode not in (DIRECT, STAGED):
            return "row * ROW_WORDS" if self.copies_rows else "row"
        places = row_places(self.product.rows, self._position(self.rows), self.config.rows)
        assert places is not None
        if not places.jump:
            return f"row * {places.step}"
        return f"row / {places.run} * {places.jump} + row % {places.run} * {places.step}"

    def _start(self, side: SideText) -> str:
        """The address of a side's first row or column where the array or its staged copy has it."""
        position, loops = self._position(side), side.side.loops
        names = {i.name for i in (*self.product.depth, *loops)}
        rest = Index.sum(((a, c) for a, c in position.terms if not _names(a) & names), position.constant)
        step = 1 if side is self.columns and side.mode == STAGED else flat_step(side.side, position)
        if step is None:
            self.extents[side.first] = side.side.size
            indices = delinearize(Index.of(side.first), tuple(loop.extent for loop in loops), self.extents)
            for loop, index in zip(loops, indices, strict=True):
                rest = rest + index * position.coefficient(loop.name)
        else:
            rest = rest + Index.of(side.first) * step
        if side.mode == STAGED:
            return f"staged + {index_text(rest)}"
        return f"reinterpret_cast<const u32*>({accesses(side.side.factor)[0].array} + {index_text(rest)})"

    # Threads

    @property
    def tasks(self) -> int:
        """Blocks of tiles that threads share."""
        config, product = self.config, self.product
        tiles, panels = -(-product.rows.count // config.rows), -(-product.columns.count // self.width)
        batches = math.prod(i.extent for i in product.batch)
        return batches * -(-tiles // config.row_block) * -(-panels // config.column_block)

    def loops(self) -> None:
        """Tasks of row blocks and column blocks, for each batch."""
        text, product = self.text, self.product
        loops = [f"for (i64 {i.name} = 0; {i.name} < {i.extent}; ++{i.name})" for i in product.batch]
        loops.append("for (i64 tile_block = 0; tile_block < TILES; tile_block += ROW_BLOCK)")
        loops.append("for (i64 panel_block = 0; panel_block < PANELS; panel_block += COLUMN_BLOCK)")
        for side in (self.rows, self.columns):
            if side.mode == STAGED:
                self.stage(side)
        if self.tasks > 1:
            text.pragma(f"omp parallel for collapse({len(loops)}) schedule(guided)", self.link)
        with ExitStack() as inside:
            for head in loops:
                inside.enter_context(text.block(head, self.link))
            self._scratch()
            text.add("const i64 tiles = tile_block + ROW_BLOCK < TILES ? tile_block + ROW_BLOCK : TILES;", self.link)
            text.add("const i64 panels = panel_block + COLUMN_BLOCK < PANELS ? panel_block + COLUMN_BLOCK : PANELS;")
            if self.is_blocked:
                head = "for (i64 unit = 0; unit < UNITS; unit += DEPTH_BLOCK)"
                inside.enter_context(text.block(head, self.link))
                text.add("const i64 units = unit + DEPTH_BLOCK < UNITS ? unit + DEPTH_BLOCK : UNITS;", self.link)
            else:
                text.add("constexpr i64 unit = 0, units = UNITS;")
            if self.rows.mode == PACKED:
                self._pack_rows()
            with text.block("for (i64 panel = panel_block; panel < panels; ++panel)", self.link):
                text.add("const i64 n0 = panel * COLUMNS;", self.link)
                self._find_columns()
                with text.block("for (i64 number = tile_block; number < tiles; ++number)", self.link):
                    text.add("const i64 m0 = number * ROWS;", self.link)
                    self._find_rows()
                    self._call_tiles()

    @property
    def _block_words(self) -> str:
        return "DEPTH_BLOCK * UNIT_WORDS" if self.is_blocked else "WORDS"

    @property
    def _tile_words(self) -> str:
        """Of the packed rows of a tile."""
        return "ROW_WORDS * ROWS" if self.copies_rows else f"{self._block_words} * ROWS"

    def _scratch(self) -> None:
        """Memory of each thread: what it packs, and sums that wait for the next depths."""
        add, words = self.text.add, self._block_words
        if self.rows.mode == PACKED:
            add(f"static thread_local Scratch<u32> row_panels(ROW_BLOCK * {self._tile_words});", self.link)
            if self.shifts:
                add("static thread_local Scratch<int> sums_of_rows(ROW_BLOCK * ROWS + LANES);", self.link)
        if self.columns.mode == PACKED or (self.columns.mode == DIRECT and self.columns.is_ragged):
            add(f"static thread_local Scratch<u32> column_panel({words} * COLUMNS);", self.link)
        if self.is_blocked:
            size = "ROW_BLOCK * ROWS * COLUMN_BLOCK * COLUMNS + LANES"
            add(f"static thread_local Scratch<{self.sum_type}> waiting({size});", self.link)

    def _pack_rows(self) -> None:
        text, batch = self.text, [i.name for i in self.product.batch]
        with text.block("for (i64 number = tile_block; number < tiles; ++number)", self.link):
            place = f"(number - tile_block) * {self._tile_words}"
            text.add(f"u32* const panel = row_panels.data + {place};", self.link)
            text.add(self.call(self.rows, "number * ROWS", ("unit", "units"), "panel", batch), self.link)
            if self.shifts:
                sums = "sums_of_rows.data + (number - tile_block) * ROWS"
                text.add(f"sum_rows(panel, (units - unit) * UNIT_WORDS, unit == 0, {sums});", self.link)

    def _find_columns(self) -> None:
        """Where the present panel's columns are."""
        text, side = self.text, self.columns
        if side.mode == PREPARED:
            place = f"({self.number(side, 'panel')} * WORDS + unit * UNIT_WORDS) * COLUMNS"
            text.add(f"const u32* const columns = prepared_columns + {place};", self.link)
            text.add("const u32* const next = columns + (panel + 1 < PANELS ? WORDS * COLUMNS : 0);", self.link)
            return
        pack = self.call(side, "n0", ("unit", "units"), "column_panel.data", [i.name for i in self.product.batch])
        if side.mode == PACKED:
            text.add(pack, self.link)
            text.add("const u32* const columns = column_panel.data;", self.link)
        elif side.mode == STAGED or not side.is_ragged:
            text.add(f"const u32* const columns = {self._start(side)};", self.link)
        else:
            text.add("const bool is_whole = n0 + COLUMNS <= N;", self.link)
            text.add(f"if (!is_whole) {pack}", self.link)
            text.add(f"const u32* const columns = is_whole ? {self._start(side)} : column_panel.data;", self.link)

    def _find_rows(self) -> None:
        """Where the present tile's rows are."""
        text, side = self.text, self.rows
        sums = ""
        if side.mode == PREPARED:
            number = self.number(side, "number")
            place = f"({number} * WORDS + unit * UNIT_WORDS) * ROWS"
            text.add(f"const u32* const rows = prepared_rows + {place};", self.link)
            sums = f"prepared_sums + {number} * ROWS"
        elif side.mode == PACKED:
            place = f"(number - tile_block) * {self._tile_words}"
            text.add(f"const u32* const rows = row_panels.data + {place};", self.link)
            sums = "sums_of_rows.data + (number - tile_block) * ROWS"
        else:
            text.add(f"const u32* const rows = {self._start(side)};", self.link)
        if self._fetches_ahead:
            part = "(number - tile_block) * AHEAD * (units - unit) * UNIT_WORDS"
            text.add(f"const u32* const ahead = next + {part};", self.link)
        if self.shifts:
            text.add(f"const int* const row_sums = {sums};", self.link)
        if self.is_blocked:
            place = "((panel - panel_block) * ROW_BLOCK + number - tile_block) * ROWS * COLUMNS"
            text.add(f"{self.sum_type}* const found = waiting.data + {place};", self.link)
        else:
            text.add(f"alignas(64) {self.sum_type} found[ROWS * COLUMNS + LANES];", self.link)

    def _call_tiles(self) -> None:
        """The whole tile, or what is left of it at the edges."""
        text, config, product = self.text, self.config, self.product
        m, n = product.rows.count, product.columns.count
        rest_vectors = -(-(n % self.width) // self.machine.lanes)
        names = [*self.kernel.names_of(), *(i.name for i in product.batch), "m0", "n0"]
        place = ", ".join(names)
        arguments = ", ".join([*names, *["row_sums"] * self.shifts, "found"])
        in_place = "true" if self.columns.mode in (DIRECT, STAGED) else "false"
        rest_in_place = "true" if self.columns.mode == STAGED else "false"

        def call(height: int, width: int, is_in_place: str) -> None:
            condition = "if (units == UNITS) " if self.is_blocked else ""
            if self.fetched:
                text.add(f"{condition}fetch<{height}, {width}>({place});", self.link)
            ahead = "ahead, " if self._fetches_ahead else ""
            sums = f"rows, columns, unit, units, {ahead}found"
            text.add(f"multiply<{height}, {width}, {is_in_place}>({sums});", self.link)
            text.add(f"{condition}finish<{height}, {width}>({arguments});", self.link)

        def widths(height: int) -> None:
            if n >= self.width and rest_vectors:
                with text.block("if (n0 + COLUMNS <= N)", self.link):
                    call(height, config.vectors, in_place)
                with text.block("else", self.link):
                    call(height, rest_vectors, rest_in_place)
            elif n >= self.width:
                call(height, config.vectors, in_place)
            else:
                call(height, rest_vectors, rest_in_place)

        if m < config.rows or m % config.rows == 0:
            widths(min(m, config.rows))
            return
        with text.block("if (m0 + ROWS <= M)", self.link):
            widths(config.rows)
        with text.block("else", self.link):
            widths(m % config.rows)


def _names(atom: Atom) -> set[str]:
    return set(Index.of(atom).iterators())
