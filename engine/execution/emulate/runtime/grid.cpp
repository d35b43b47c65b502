// Blocks that wait for each other.  A block whose threads are at a grid barrier is set aside with its stacks and its
// shared memory, and the next one runs.  Once all blocks wait, they go on in the same order; what they stored to global
// memory before is then ordered before everything that follows, as by the end of a launch.
#include "grid.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "memory.hpp"
#include "report.hpp"

namespace loom {

namespace {

// What a block waits for: that its counter holds `number` times the blocks of the grid.
struct Arrival {
    int* counter = nullptr;  // null for one that may not be touched
    int number = 0, of = 0, line = 0;
};

struct WaitingBlock {
    long long block;
    uint3 index;
    u32 shared_epoch;
    Arrival arrival;
    std::vector<Thread> threads;
    SharedMemory shared;
    bool waits;
};

struct Counter {
    Arrival last;      // that has come to it
    bool is_finished;  // whether the last meeting is over
};

Arrival arrival;                  // of the block that runs
std::map<int*, Counter> counters;  // of the launch that runs

void set_aside(WaitingBlock& waiting) {
    waiting.block = machine.block;
    waiting.index = blockIdx;
    waiting.shared_epoch = machine.shared_epoch;
    waiting.arrival = arrival;
    waiting.shared = shared_of_block();
    waiting.threads.assign(std::make_move_iterator(machine.thread),
                           std::make_move_iterator(machine.thread + machine.threads));
    waiting.waits = true;
}

void go_on_with(WaitingBlock& waiting) {
    machine.block = status->block = waiting.block;
    machine.block_epoch = ++machine.barrier_epoch;
    machine.shared_epoch = waiting.shared_epoch;
    blockIdx = waiting.index;
    arrival = {};
    use_shared(waiting.shared);
    std::move(waiting.threads.begin(), waiting.threads.end(), machine.thread);
    for (int number = 0; number < machine.threads; ++number)
        if (machine.thread[number].wait == Wait::GRID) machine.thread[number].wait = Wait::NOTHING;
    waiting.waits = false;
}

// Whether the counter lets a block go on.  A counter that let it go on before the others have come is a race.
bool has_met(const WaitingBlock& waiting, std::size_t others) {
    const Arrival& own = waiting.arrival;
    if (!own.counter) return true;
    const long long needed = static_cast<long long>(own.number) * gridDim.x;
    if (*own.counter < needed)
        report("hang", own.line, 0,
               "block %lld waits at this grid barrier, meeting %d of %d, for %lld arrivals: %d blocks run, %d of them "
               "wait, and the counter holds %d", waiting.block, own.number, own.of, needed,
               static_cast<int>(gridDim.x * gridDim.y * gridDim.z), static_cast<int>(others), *own.counter);
    if (*own.counter > needed)
        report("race", own.line, 0,
               "block %lld does not wait at this grid barrier, meeting %d of %d: the counter holds %d, more than the "
               "%lld arrivals it waits for", waiting.block, own.number, own.of, *own.counter, needed);
    return *own.counter >= needed;
}

// All blocks wait or have ended: whether those that wait may go on.
bool meet(const std::vector<WaitingBlock>& waiting) {
    for (const WaitingBlock& one : waiting)
        if (!has_met(one, waiting.size())) return false;
    for (const WaitingBlock& one : waiting) {
        const Arrival& own = one.arrival;
        if (!own.counter || own.number != own.of) continue;
        *own.counter = 0;
        counters[own.counter].is_finished = true;
    }
    machine.launch_epoch = machine.barrier_epoch + 1;
    return true;
}

void check_counters() {
    for (const auto& [place, counter] : counters)
        if (!counter.is_finished)
            report("unfinished team", counter.last.line, 0,
                   "the counter of this grid barrier holds %d at the end: the blocks met %d of %d times", *place,
                   counter.last.number, counter.last.of);
}

}  // namespace

void grid_barrier(const Access& counter, int number, int of) {
    const bool valid = !CHECKED || may_reach_global(counter);
    int* place = valid ? static_cast<int*>(const_cast<void*>(counter.base)) + counter.index : nullptr;
    if (machine.current == 0 || arrival.line == 0) arrival = {place, number, of, counter.line};
    if (place && machine.current == 0) {
        ++*place;
        Counter& met = counters[place];
        met.last = arrival;
        if (met.is_finished)
            report("race", counter.line, 0, "block %lld comes to a counter whose last meeting is over: other blocks may "
                   "not have set it back yet", machine.block);
    }
    wait_for_grid(counter.line);
}

long long run_blocks(const std::vector<long long>& blocks, long long first) {
    std::vector<WaitingBlock> waiting;
    counters.clear();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (!waiting.empty()) {
            add_stacks();
            add_shared();
        }
        arrival = {};
        forget_shared();
        begin_block(blocks[machine.late ? i : blocks.size() - 1 - i], first);
        if (run_threads()) set_aside(waiting.emplace_back());
    }
    while (!waiting.empty()) {
        if (!meet(waiting)) return static_cast<long long>(blocks.size() - waiting.size());
        for (WaitingBlock& one : waiting) {
            go_on_with(one);
            if (run_threads()) set_aside(one);
        }
        const auto ended = [](const WaitingBlock& one) { return !one.waits; };
        waiting.erase(std::remove_if(waiting.begin(), waiting.end(), ended), waiting.end());
    }
    check_counters();
    return static_cast<long long>(blocks.size());
}

}  // namespace loom
