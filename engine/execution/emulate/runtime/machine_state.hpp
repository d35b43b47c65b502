// The state of the emulated machine while it runs one block.
#pragma once

#include <vector>

#include "fibers.hpp"
#include "machine.hpp"
#include "platform.hpp"

namespace loom {

using u32 = unsigned int;

constexpr int WARP = 32;
constexpr int MAX_THREADS = 1024;

// GRID: for all blocks of the launch.
enum class Wait : unsigned char { NOTHING, BARRIER, GRID, SHUFFLE, WARP_SYNC, FOREVER };

struct Copy {
    unsigned char* to;
    const unsigned char* from;
    int bytes;        // written at the destination
    int valid_bytes;  // of which this many come from the source
    int group;        // the group it will belong to
    int line;
};

struct Thread {
    Fiber fiber;
    uint3 index;
    Wait wait = Wait::NOTHING;
    int line = 0;              // of the call that waits
    unsigned parity = 0;       // of the warp collectives it has entered: their values are double-buffered
    int groups = 0;            // groups of copies closed so far
    std::vector<Copy> copies;  // unfinished ones, oldest first
};

struct Machine {
    int threads = 0;
    int warps = 0;
    bool late = true;  // copies land at their wait and threads run forwards; else at issue, and backwards
    int launch = 0;
    long long block = 0;  // numbered on from one launch to the next
    int current = 0;  // the running thread
    u32 barrier_epoch = 0;            // barriers completed since the start, over all blocks; every block begins a new one
    u32 block_epoch = 0;              // the barrier_epoch in which the current block began, or went on after all met
    u32 shared_epoch = 0;             // that in which it began: its shared memory holds what was written since
    u32 launch_epoch = 0;             // that in which the first block begins or goes on: what was before is over
    u32 warp_epoch[MAX_THREADS / WARP] = {};  // warp_sync calls completed by each warp
    Thread thread[MAX_THREADS];

    Thread& running() { return thread[current]; }
};
extern Machine machine;
extern void* kernel_arguments[];  // one pointer for each buffer

void set_up_threads(uint3 block_size);

// Stacks of their own for the next block that begins, while those before it wait.
void add_stacks();

// The next block is ready to run.  first: the number of the launch's block 0.
void begin_block(long long block, long long first);

// Runs the block until its threads have ended or wait for other blocks; whether they wait.
bool run_threads();

// The running thread waits until all blocks of the launch have met.
void wait_for_grid(int line);

// Copies that the running thread issued in groups up to `group` land now.
void land_copies(int group);

// What the running thread leaves behind when it ends.
void abandon_copies();

}  // namespace loom
