// The checks of one access: alignment, bounds, initialisation, and happens-before.
//
// Two accesses of one block are ordered if one thread made both, if a barrier completed in between, or if both threads
// are of one warp and a warp_sync completed in between.  No other ordering exists within a block.  Between blocks there
// is none but that of teams: the last to come to a counter sees what the others stored before they came (teams.cpp).
// Accesses of two launches are ordered, and those before and after a meeting of all blocks (grid.cpp).
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <vector>

#include "counts.hpp"
#include "memory.hpp"
#include "report.hpp"

namespace loom {

unsigned char* arena = nullptr;

namespace {

Cell* shared_cells = nullptr;
long long arena_bytes = 0;
int shared_shift = 2;  // at most 4 bytes
std::vector<SharedMemory> shared_memories;  // of the launch: of all blocks, or of each that waits for the others

int warp_of(int thread) { return thread / WARP; }

bool ordered(u32 barrier, u32 warp_sync, int thread) {
    if (barrier < machine.barrier_epoch || thread == machine.current) return true;
    return warp_of(thread) == warp_of(machine.current) && warp_sync < machine.warp_epoch[warp_of(thread)];
}

bool readers_ordered(const Cell& cell) {
    if (cell.readers == Cell::ONE) return ordered(cell.read_barrier, cell.read_warp, cell.reader);
    if (cell.read_barrier < machine.barrier_epoch) return true;
    const int warp = warp_of(cell.reader);
    return cell.readers == Cell::SEVERAL_OF_A_WARP && warp == warp_of(machine.current) &&
           cell.read_warp < machine.warp_epoch[warp];
}

void remember_reader(Cell& cell, int line) {
    const bool fresh = cell.read_barrier < machine.barrier_epoch;
    if (fresh) {
        cell.readers = Cell::ONE;
    } else if (cell.reader != machine.current) {
        if (warp_of(cell.reader) != warp_of(machine.current)) cell.readers = Cell::SEVERAL_OF_THE_BLOCK;
        else if (cell.readers == Cell::ONE) cell.readers = Cell::SEVERAL_OF_A_WARP;
    }
    cell.reader = static_cast<short>(machine.current);
    cell.read_barrier = machine.barrier_epoch;
    cell.read_warp = machine.warp_epoch[warp_of(machine.current)];
    cell.read_line = line;
}

void remember_writer(Cell& cell, int line, bool pending) {
    cell.writer = static_cast<short>(machine.current);
    cell.write_barrier = machine.barrier_epoch;
    cell.write_warp = machine.warp_epoch[warp_of(machine.current)];
    cell.write_line = line;
    cell.pending = pending;
}

// What an access touches, in the user's words.
struct Place {
    char text[192];
    Place(const char* where, const Access& access) {
        std::snprintf(text, sizeof text, "block %lld, thread %d: element %lld of %s", machine.block, machine.current,
                      access.index, where);
    }
};

const unsigned char* first_byte(const Access& access) {
    return static_cast<const unsigned char*>(access.base) + access.index * access.element_bytes;
}

// The accessor's own bounds, and those of the memory it lies in.
bool inside(const Access& access, const unsigned char* memory, long long memory_bytes, const char* name) {
    const unsigned char* first = first_byte(access);
    if (access.index < 0 || access.index + access.count > access.elements) {
        report("out of bounds", access.line, 0, "%s, which has %lld elements%s", Place(name, access).text,
               access.elements, access.count > 1 ? " (a vector access)" : "");
        return false;
    }
    if (first < memory || first + access.element_bytes * access.count > memory + memory_bytes) {
        report("out of bounds", access.line, 0, "%s leaves the %lld bytes that are allocated", Place(name, access).text,
               memory_bytes);
        return false;
    }
    return true;
}

// Accesses move a power of two of bytes, from an address on that is a multiple of it.  alignment: of the memory's start.
bool aligned(const Access& access, int bytes, const char* name, int alignment) {
    if ((reinterpret_cast<unsigned long long>(first_byte(access)) & static_cast<unsigned long long>(bytes - 1)) == 0)
        return true;
    report("misaligned", access.line, 0,
           "%s: the address is not a multiple of the %d bytes accessed; the memory begins at a multiple of %d",
           Place(name, access).text, bytes, alignment);
    return false;
}

struct Cells {
    Cell* begin;
    Cell* end;
};

// Granules have a power of two of bytes; `shift` is its logarithm.
Cells cells_of(const Access& access, Cell* cells, const unsigned char* memory, int shift) {
    const long long first = first_byte(access) - memory;
    const long long last = first + access.element_bytes * access.count - 1;
    return {cells + (first >> shift), cells + (last >> shift) + 1};
}

Cells shared_cells_of(const Access& access) { return cells_of(access, shared_cells, arena, shared_shift); }

constexpr const char* SHARED = "a shared array";

// The arena begins at a multiple of it and of no larger power of two, as LOOM_SHARED declares it.
constexpr int SHARED_ALIGNMENT = 16;
constexpr long long ARENA_MARGIN = 4096;  // bytes mapped besides those of the launch

bool fits_shared(const Access& access, int bytes) {
    return inside(access, arena, arena_bytes, SHARED) && aligned(access, bytes, SHARED, SHARED_ALIGNMENT);
}

bool fits_global(const Access& access, int bytes, const Buffer& buffer) {
    return inside(access, buffer.data, buffer.bytes, buffer.name) &&
           aligned(access, bytes, buffer.name, buffer.alignment);
}

Buffer* buffer_of(const Access& access) {
    const auto* base = static_cast<const unsigned char*>(access.base);
    for (int i = 0; i < buffer_count; ++i)
        if (base >= buffers[i].data && base < buffers[i].data + (buffers[i].bytes ? buffers[i].bytes : 1))
            return &buffers[i];
    report("out of bounds", access.line, 0, "block %lld, thread %d: the accessor does not begin inside any buffer",
           machine.block, machine.current);
    return nullptr;
}

// A shared granule that was written in this block, whose write is complete and visible to the running thread.
void check_shared_read(const Cell& cell, const Access& access) {
    if (cell.write_barrier < machine.shared_epoch) {
        report("uninitialised", access.line, 0, "%s is read before this block writes it", Place(SHARED, access).text);
    } else if (cell.pending) {
        report("unfinished copy", access.line, cell.write_line,
               "%s is read while the copy that thread %d issued at line %d may still be under way",
               Place(SHARED, access).text, cell.writer, cell.write_line);
    } else if (!ordered(cell.write_barrier, cell.write_warp, cell.writer)) {
        report("race", access.line, cell.write_line,
               "%s is read, but thread %d writes it at line %d and no barrier stands between", Place(SHARED, access).text,
               cell.writer, cell.write_line);
    }
}

void check_shared_write(const Cell& cell, const Access& access) {
    if (cell.write_barrier >= machine.shared_epoch) {
        if (cell.pending)
            report("race", access.line, cell.write_line,
                   "%s is written while the copy that thread %d issued at line %d may still be under way",
                   Place(SHARED, access).text, cell.writer, cell.write_line);
        else if (!ordered(cell.write_barrier, cell.write_warp, cell.writer))
            report("race", access.line, cell.write_line,
                   "%s is written, and so it is by thread %d at line %d with no barrier between",
                   Place(SHARED, access).text, cell.writer, cell.write_line);
    }
    if (cell.read_barrier >= machine.shared_epoch && !readers_ordered(cell))
        report("race", access.line, cell.read_line,
               "%s is overwritten, but thread %d reads it at line %d and no barrier stands between",
               Place(SHARED, access).text, cell.reader, cell.read_line);
}

void check_global_read(const Cell& cell, const Buffer& buffer, const Access& access) {
    if (cell.write_barrier == 0) {
        if (!buffer.read)
            report("uninitialised", access.line, 0, "%s is read before it is written", Place(buffer.name, access).text);
    } else if (cell.write_barrier < machine.block_epoch) {
        if (cell.write_barrier < machine.launch_epoch || was_handed_over(cell.write_barrier)) return;
        report("race", access.line, cell.write_line,
               "%s is read, but another block writes it at line %d and blocks have no order",
               Place(buffer.name, access).text, cell.write_line);
    } else if (!ordered(cell.write_barrier, cell.write_warp, cell.writer)) {
        report("race", access.line, cell.write_line,
               "%s is read, but thread %d writes it at line %d and no barrier stands between",
               Place(buffer.name, access).text, cell.writer, cell.write_line);
    }
}

void check_global_write(const Cell& cell, const Buffer& buffer, const Access& access) {
    if (cell.write_barrier >= machine.launch_epoch &&
        (cell.write_barrier < machine.block_epoch || cell.writer != machine.current))
        report("written twice", access.line, cell.write_line, "%s was already written by thread %d of %s block at line %d",
               Place(buffer.name, access).text, cell.writer,
               cell.write_barrier < machine.block_epoch ? "another" : "this", cell.write_line);
    if (cell.read_barrier < machine.launch_epoch) return;
    if (cell.read_barrier < machine.block_epoch)
        report("race", access.line, cell.read_line,
               "%s is written, but another block reads it at line %d and blocks have no order",
               Place(buffer.name, access).text, cell.read_line);
    else if (!readers_ordered(cell))
        report("race", access.line, cell.read_line,
               "%s is overwritten, but thread %d reads it at line %d and no barrier stands between",
               Place(buffer.name, access).text, cell.reader, cell.read_line);
}

long long bytes_of_cells() { return ((arena_bytes >> shared_shift) + 1) * static_cast<long long>(sizeof(Cell)); }

// A load from global memory: everything but the count.  `aligned_bytes` is the width of the instruction.  Gives the
// buffer; null for a load that must not happen.
const Buffer* check_global_load(const Access& access, int aligned_bytes) {
    status->line = access.line;
    Buffer* buffer = buffer_of(access);
    if (!buffer || !fits_global(access, aligned_bytes, *buffer)) return nullptr;
    if (!buffer->cells) return buffer;
    const Cells cells = cells_of(access, buffer->cells, buffer->data, buffer->shift);
    for (Cell* cell = cells.begin; cell != cells.end; ++cell) {
        check_global_read(*cell, *buffer, access);
        remember_reader(*cell, access.line);
    }
    return buffer;
}

// A copy that reads nothing: its instruction is given the start of the buffer.  Gives the buffer, or null.
const Buffer* may_name_start(const Access& access, int aligned_bytes) {
    const Buffer* buffer = buffer_of(access);
    const Access start{access.base, access.elements, 0, access.element_bytes, 1, access.line};
    return buffer && aligned(start, aligned_bytes, buffer->name, buffer->alignment) ? buffer : nullptr;
}

int width_of(const Access& access) { return access.element_bytes * access.count; }

unsigned long long address_in(const Access& access, const unsigned char* origin) {
    return static_cast<unsigned long long>(first_byte(access) - origin);
}

// Transactions are counted as in a buffer that begins at a page, as allocators place them: counts of one kernel are the
// same whatever its alignment.
unsigned long long counted_address(const Access& access, const Buffer& buffer) {
    return reinterpret_cast<unsigned long long>(first_byte(access) - buffer.alignment);
}

}  // namespace

bool note_shared_element(int bytes) {
    shared_shift = std::min(shared_shift, __builtin_ctz(static_cast<unsigned>(bytes)));
    return true;
}

void set_up_shared(long long bytes) {
    for (const SharedMemory& memory : shared_memories) {
        ::munmap(memory.arena - SHARED_ALIGNMENT, static_cast<std::size_t>(arena_bytes + ARENA_MARGIN));
        if (memory.cells) ::munmap(memory.cells, static_cast<std::size_t>(bytes_of_cells()));
    }
    shared_memories.clear();
    arena_bytes = bytes;
    add_shared();
}

void add_shared() {
    auto* memory = static_cast<unsigned char*>(map_zeroed(arena_bytes + ARENA_MARGIN)) + SHARED_ALIGNMENT;
    use_shared({memory, CHECKED ? static_cast<Cell*>(map_zeroed(bytes_of_cells())) : nullptr});
    shared_memories.push_back(shared_of_block());
}

SharedMemory shared_of_block() { return {arena, shared_cells}; }

void use_shared(const SharedMemory& memory) {
    arena = memory.arena;
    shared_cells = memory.cells;
}

// A pattern that is not a number in any floating-point type makes wrong results show too.
void forget_shared() {
    if (CHECKED) std::memset(arena, 0xff, static_cast<std::size_t>(arena_bytes));
}

unsigned char* shared_arena(i64 bytes, int line) {
    if (CHECKED && bytes > arena_bytes)
        report("out of bounds", line, 0, "the kernel declares %lld bytes of shared memory; the launch gives %lld", bytes,
               arena_bytes);
    return arena;
}

bool may_reach_global(const Access& access) {
    const Buffer* buffer = buffer_of(access);
    return buffer && fits_global(access, width_of(access), *buffer);
}

bool may_load_global(const Access& access) {
    const Buffer* buffer = check_global_load(access, width_of(access));
    if (!buffer) return false;
    count_access(Kind::GLOBAL_LOAD, access.line, width_of(access), counted_address(access, *buffer));
    return true;
}

bool may_store_global(const Access& access) {
    status->line = access.line;
    Buffer* buffer = buffer_of(access);
    if (!buffer || !fits_global(access, width_of(access), *buffer)) return false;
    if (!buffer->cells) {
        report("out of bounds", access.line, 0, "%s is stored to, but the launch only lets it be read",
               Place(buffer->name, access).text);
        return false;
    }
    const Cells cells = cells_of(access, buffer->cells, buffer->data, buffer->shift);
    for (Cell* cell = cells.begin; cell != cells.end; ++cell) {
        check_global_write(*cell, *buffer, access);
        remember_writer(*cell, access.line, false);
        buffer->mask[cell - buffer->cells] = 1;
    }
    count_access(Kind::GLOBAL_STORE, access.line, width_of(access), counted_address(access, *buffer));
    return true;
}

bool may_load_shared(const Access& access) {
    status->line = access.line;
    if (!fits_shared(access, width_of(access))) return false;
    const Cells cells = shared_cells_of(access);
    for (Cell* cell = cells.begin; cell != cells.end; ++cell) {
        check_shared_read(*cell, access);
        remember_reader(*cell, access.line);
    }
    count_access(Kind::SHARED_LOAD, access.line, width_of(access), address_in(access, arena));
    return true;
}

bool may_store_shared(const Access& access) {
    status->line = access.line;
    if (!fits_shared(access, width_of(access))) return false;
    const Cells cells = shared_cells_of(access);
    for (Cell* cell = cells.begin; cell != cells.end; ++cell) {
        check_shared_write(*cell, access);
        remember_writer(*cell, access.line, false);
    }
    count_access(Kind::SHARED_STORE, access.line, width_of(access), address_in(access, arena));
    return true;
}

bool may_begin_copy(const Access& to, const Access& from) {
    if (from.count < 0 || from.count > to.count) {
        report("out of bounds", to.line, 0, "%s: a copy of %d elements is told that %d are valid",
               Place(SHARED, to).text, to.count, from.count);
        return false;
    }
    if (!fits_shared(to, width_of(to))) return false;
    const Buffer* buffer = from.count > 0 ? check_global_load(from, width_of(to)) : may_name_start(from, width_of(to));
    if (!buffer) return false;
    const Cells cells = shared_cells_of(to);
    for (Cell* cell = cells.begin; cell != cells.end; ++cell) {
        check_shared_write(*cell, to);
        remember_writer(*cell, to.line, true);
    }
    count_access(Kind::ASYNC_COPY, to.line, width_of(to),
                 from.count > 0 ? counted_address(from, *buffer) : NO_ADDRESS, address_in(to, arena));
    return true;
}

// The write takes effect at the wait: other threads need a barrier after it, not after the issue.
void note_landing(const Copy& copy) {
    const long long first = copy.to - arena;
    Cell* end = shared_cells + ((first + copy.bytes - 1) >> shared_shift) + 1;
    for (Cell* cell = shared_cells + (first >> shared_shift); cell != end; ++cell)
        if (cell->pending && cell->writer == machine.current) remember_writer(*cell, copy.line, false);
}

}  // namespace loom
