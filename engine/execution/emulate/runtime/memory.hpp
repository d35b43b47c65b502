// Global buffers, shared memory, and the shadow that remembers who touched what and when.
#pragma once

#include "machine_state.hpp"

namespace loom {

constexpr int NOBODY = -1;

// What the shadow knows of one granule (one element).  An epoch of 0 means never.
struct Cell {
    u32 write_barrier, write_warp;  // when it was last written, in barriers of the run and syncs of the writer's warp
    u32 read_barrier, read_warp;    // likewise for the last reader
    int write_line, read_line;
    short writer, reader;  // threads; one reader stands for several of its warp or block where `readers` says so
    enum Readers : unsigned char { ONE, SEVERAL_OF_A_WARP, SEVERAL_OF_THE_BLOCK } readers;
    bool pending;  // an asynchronous copy by `writer` has not been waited for
};

struct Buffer {
    char name[128];
    unsigned char* data;
    int alignment;  // `data` is a multiple of it and of no larger power of two: nothing may rely on more
    long long bytes;
    int element_bytes;
    int shift;  // logarithm of element_bytes
    bool read, written;
    Cell* cells;         // null where nothing is written
    unsigned char* mask; // one byte for each element: stored to
};

constexpr int MAX_BUFFERS = 4096;  // a kernel has 32,764 bytes of parameters, a pointer for each buffer
extern Buffer buffers[MAX_BUFFERS];
extern int buffer_count;

// A fresh, zeroed mapping that costs memory only where it is touched; it begins at a page.
void* map_zeroed(long long bytes);

// Shared memory of a block, with what the shadow knows of it.
struct SharedMemory {
    unsigned char* arena;
    Cell* cells;
};

void set_up_shared(long long bytes);
void add_shared();  // memory of its own for the next block that begins, while those before it wait
SharedMemory shared_of_block();
void use_shared(const SharedMemory& memory);
void forget_shared();  // a block begins: nothing is initialised

// Whether this block came last to a counter to which the block that wrote at an epoch had come afterwards.
bool was_handed_over(u32 write_barrier);

// Counters to which some blocks of a team came and others did not are findings.
void check_teams();

// The bounds and the alignment of an access to global memory; false means that it must not happen.
bool may_reach_global(const Access& access);

// The destination of an asynchronous copy: written from now on, readable once landed.
bool may_begin_copy(const Access& to, const Access& from);
void note_landing(const Copy& copy);

}  // namespace loom
