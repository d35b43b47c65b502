// What a kernel asks of the emulated machine.  The implementation is in ../runtime and is compiled once.
#pragma once

#ifndef LOOM_CHECKED
#error "LOOM_CHECKED is 0 or 1"
#endif

namespace loom {

using i64 = long long;

constexpr bool CHECKED = LOOM_CHECKED;

// One access of one thread to consecutive elements of an accessor.
struct Access {
    const void* base;   // where the accessor begins
    i64 elements;       // how many elements it spans
    i64 index;          // the first one accessed
    int element_bytes;
    int count;          // how many
    int line;           // of the CUDA text
};

// Check, count and remember an access; false means that it must not happen (the finding is already noted).
bool may_load_global(const Access& access);
bool may_store_global(const Access& access);
bool may_load_shared(const Access& access);
bool may_store_shared(const Access& access);

// The block's shared memory, of which the kernel declares `bytes`.
unsigned char* shared_arena(i64 bytes, int line);

// Every element size that occurs in shared memory is told before the first block runs: it sets the shadow's granularity.
bool note_shared_element(int bytes);

// One asynchronous copy: `to.count` elements are written, the first `from.count` of them copied, the others zero.
void issue_copy(const Access& to, const Access& from);
void commit_copies();
void wait_for_copies(int unfinished_groups);

void block_barrier(int line);

// What a counter held before this thread added one to it, as an atomic operation does.
int take_number(const Access& counter);

// One thread for its block: the block comes to a counter as one of `team`.  What its threads stored before the last
// barrier is then seen by the block that comes last; whether that is this one, `came_last` tells.
void come_to(const Access& counter, int team);
bool came_last();

// All threads of the block: it waits until all blocks of the launch have come to a counter, `number` times each; after
// the last of the `of` times the counter is zero.  What any thread stored to global memory before, all then see.
void grid_barrier(const Access& counter, int number, int of);

// Most bytes that a lane can hand to its warp at once.
constexpr int HANDED = 64;

// Hands `bytes` at `own` to the warp.  Once all 32 lanes have arrived, what lane l handed over lies at l * HANDED of the
// result, until this lane's next collective but one.
const unsigned char* gather(const void* own, int bytes, int line);
void warp_barrier(int line);
int lane();

// Calls the kernel of a launch with its pointers in parameter order; defined by entry.cpp.
void call_kernel(int launch, void* const* arguments);

}  // namespace loom
