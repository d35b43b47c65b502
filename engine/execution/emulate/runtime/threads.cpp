// Threads of a block as fibers.  A warp runs until all its lanes wait; then a collective completes, or the next warp runs.
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <vector>

#include "counts.hpp"
#include "machine_state.hpp"
#include "report.hpp"

uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace loom {

Machine machine;

namespace {

constexpr unsigned long STACK = 256 * 1024;
constexpr unsigned long SMALL_STACK = 64 * 1024;  // of blocks that wait for each other: all of the launch have theirs
constexpr unsigned long STAGGER = 320;  // stacks begin at different cache sets

Fiber scheduler;

// Stacks of the threads of one block.
struct Stacks {
    char* memory = nullptr;
    unsigned long each = 0;
};
std::vector<Stacks> stacks;  // of the launch: of all blocks, or of each that waits for the others
alignas(64) unsigned char handed[2][MAX_THREADS][HANDED];

int lanes_of(int warp) { return machine.threads - warp * WARP < WARP ? machine.threads - warp * WARP : WARP; }

// Makes a thread the running one: its fiber is entered next.
Fiber& select(int number) {
    machine.current = number;
    status->thread = number;
    threadIdx = machine.thread[number].index;
    begin_lane(number % WARP);
    return machine.thread[number].fiber;
}

// Leaves the running thread: for the next lane of its warp that can run, else for the scheduler.
void leave() {
    Thread& thread = machine.running();
    const int next = machine.current % WARP + (machine.late ? 1 : -1);
    const int number = machine.current / WARP * WARP + next;
    const bool direct = next >= 0 && next < lanes_of(machine.current / WARP) &&
                        machine.thread[number].wait == Wait::NOTHING;
    switch_fiber(thread.fiber, direct ? select(number) : scheduler);
}

void wait_for(Wait what, int line) {
    machine.running().wait = what;
    machine.running().line = line;
    leave();
}

void thread_body() {
    call_kernel(machine.launch, kernel_arguments);
    abandon_copies();
    machine.running().wait = Wait::FOREVER;
    leave();
    std::abort();
}

// Runs every lane that can run once; whether any could.
bool run_lanes(int warp) {
    const int lanes = lanes_of(warp);
    bool ran = false;
    for (int i = 0; i < lanes; ++i) {
        const int number = warp * WARP + (machine.late ? i : lanes - 1 - i);
        if (machine.thread[number].wait != Wait::NOTHING) continue;
        switch_fiber(scheduler, select(number));
        ran = true;
    }
    return ran;
}

bool in_collective(const Thread& thread) { return thread.wait == Wait::SHUFFLE || thread.wait == Wait::WARP_SYNC; }

// The first thread that waits for its warp, or -1.
int first_in_collective(int warp) {
    for (int lane = 0; lane < lanes_of(warp); ++lane)
        if (in_collective(machine.thread[warp * WARP + lane])) return warp * WARP + lane;
    return -1;
}

void release_collective(int warp, int first) {
    const int line = machine.thread[first].line;
    const bool orders = machine.thread[first].wait == Wait::WARP_SYNC;
    if (lanes_of(warp) < WARP)
        report("divergent barrier", line, 0, "block %lld, warp %d: a warp collective needs 32 lanes, this warp has %d",
               machine.block, warp, lanes_of(warp));
    for (int lane = 0; lane < lanes_of(warp); ++lane) {
        Thread& thread = machine.thread[warp * WARP + lane];
        if (in_collective(thread) && thread.line == line) continue;
        report("divergent barrier", line, thread.wait == Wait::FOREVER ? 0 : thread.line,
               "block %lld: thread %d is at this warp collective, but thread %d %s", machine.block, first,
               warp * WARP + lane,
               thread.wait == Wait::FOREVER ? "has ended" : "waits at another line");
        break;
    }
    for (int lane = 0; lane < lanes_of(warp); ++lane) {
        Thread& thread = machine.thread[warp * WARP + lane];
        if (in_collective(thread)) thread.wait = Wait::NOTHING;
    }
    // Shuffles move values but order no memory; __syncwarp does.
    if (orders) ++machine.warp_epoch[warp];
}

// Runs a warp until all its lanes wait for the block or have ended.
void run_warp(int warp) {
    while (true) {
        const bool ran = run_lanes(warp);
        if (ran) end_phase();
        const int first = first_in_collective(warp);
        if (first < 0) return;
        release_collective(warp, first);
    }
}

bool at_barrier(const Thread& thread) { return thread.wait == Wait::BARRIER || thread.wait == Wait::GRID; }

// Lets all threads pass the barrier at which they wait; false when all have ended or wait for other blocks.
bool release_barrier() {
    int first = -1, other = -1;
    for (int number = 0; number < machine.threads; ++number) {
        const Thread& thread = machine.thread[number];
        if (at_barrier(thread) && first < 0) first = number;
    }
    if (first < 0) return false;
    const int line = machine.thread[first].line;
    const Wait wait = machine.thread[first].wait;
    for (int number = 0; number < machine.threads && other < 0; ++number) {
        const Thread& thread = machine.thread[number];
        if (thread.wait != wait || thread.line != line) other = number;
    }
    if (other >= 0) {
        const Thread& thread = machine.thread[other];
        const bool ended = thread.wait == Wait::FOREVER;
        report("divergent barrier", line, ended ? 0 : thread.line,
               "block %lld: thread %d waits at this barrier, but thread %d %s", machine.block, first, other,
               ended ? "has ended" : "waits at another one");
    }
    bool released = false;
    for (int number = 0; number < machine.threads; ++number) {
        if (machine.thread[number].wait != Wait::BARRIER) continue;
        machine.thread[number].wait = Wait::NOTHING;
        released = true;
    }
    if (released) ++machine.barrier_epoch;
    return released;
}

void map_stacks(unsigned long each) {
    const unsigned long bytes = each * static_cast<unsigned long>(machine.threads);
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::exit(91);
    stacks.push_back({static_cast<char*>(memory), each});
}

}  // namespace

void set_up_threads(uint3 block_size) {
    for (const Stacks& own : stacks) ::munmap(own.memory, own.each * static_cast<unsigned long>(machine.threads));
    stacks.clear();
    machine.threads = static_cast<int>(block_size.x * block_size.y * block_size.z);
    machine.warps = (machine.threads + WARP - 1) / WARP;
    map_stacks(STACK);
    for (int number = 0; number < machine.threads; ++number) {
        const unsigned n = static_cast<unsigned>(number);
        machine.thread[number].index = {n % block_size.x, n / block_size.x % block_size.y,
                                        n / block_size.x / block_size.y};
    }
}

void add_stacks() {
    map_stacks(SMALL_STACK);
    // A thread touches a page or two of its stack: a huge page for each would be the whole stack.
    const Stacks& own = stacks.back();
    ::madvise(own.memory, own.each * static_cast<unsigned long>(machine.threads), MADV_NOHUGEPAGE);
}

void begin_block(long long block, long long first) {
    machine.block = status->block = block;
    machine.block_epoch = machine.shared_epoch = ++machine.barrier_epoch;
    const auto b = static_cast<unsigned long long>(block - first);
    blockIdx = {static_cast<unsigned>(b % gridDim.x), static_cast<unsigned>(b / gridDim.x % gridDim.y),
                static_cast<unsigned>(b / gridDim.x / gridDim.y)};
    const Stacks own = stacks.back();
    for (int number = 0; number < machine.threads; ++number) {
        Thread& thread = machine.thread[number];
        thread.wait = Wait::NOTHING;
        thread.groups = 0;
        prepare(thread.fiber, own.memory + own.each * number, own.each - STAGGER * (number % 64), thread_body);
    }
}

bool run_threads() {
    do {
        for (int i = 0; i < machine.warps; ++i) run_warp(machine.late ? i : machine.warps - 1 - i);
    } while (release_barrier());
    for (int number = 0; number < machine.threads; ++number)
        if (machine.thread[number].wait == Wait::GRID) return true;
    return false;
}

void wait_for_grid(int line) { wait_for(Wait::GRID, line); }

int lane() { return machine.current % WARP; }

void block_barrier(int line) { wait_for(Wait::BARRIER, line); }

const unsigned char* gather(const void* own, int bytes, int line) {
    Thread& thread = machine.running();
    unsigned char (*values)[HANDED] = handed[thread.parity ^= 1] + (machine.current & ~(WARP - 1));
    std::memcpy(values[machine.current % WARP], own, static_cast<std::size_t>(bytes));
    wait_for(Wait::SHUFFLE, line);
    return values[0];
}

void warp_barrier(int line) { wait_for(Wait::WARP_SYNC, line); }

}  // namespace loom
