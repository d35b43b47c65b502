// Counters: those at which blocks of a team meet, and those from which threads take numbers.
#include <unordered_map>
#include <vector>

#include "memory.hpp"
#include "report.hpp"

namespace loom {

namespace {

// Epochs in which a block stored what it hands over: from its beginning to its coming.
struct Handed {
    u32 first, end;
};

struct Team {
    std::vector<Handed> came;
    int line = 0;  // where they come to the counter
    int blocks = 0;
};

std::unordered_map<const void*, Team> teams;  // by counter
std::vector<Handed> received;                 // by the block that runs, once it came last
u32 receiver = 0;                             // its block_epoch

}  // namespace

int take_number(const Access& counter) {
    if (CHECKED && !may_reach_global(counter)) return 0;
    return static_cast<int*>(const_cast<void*>(counter.base))[counter.index]++;
}

void come_to(const Access& counter, int team) {
    receiver = 0;
    if (CHECKED && !may_reach_global(counter)) return;
    auto* count = static_cast<int*>(const_cast<void*>(counter.base)) + counter.index;
    Team& met = teams[count];
    met.line = counter.line;
    met.blocks = team;
    met.came.push_back({machine.block_epoch, machine.barrier_epoch});
    if (++*count < team) return;
    *count = 0;
    received.swap(met.came);
    met.came.clear();
    receiver = machine.block_epoch;
}

bool came_last() { return receiver == machine.block_epoch; }

bool was_handed_over(u32 write_barrier) {
    if (!came_last()) return false;
    for (const Handed& part : received)
        if (part.first <= write_barrier && write_barrier < part.end) return true;
    return false;
}

void check_teams() {
    for (const auto& [counter, team] : teams)
        if (!team.came.empty())
            report("unfinished team", team.line, 0, "%d of %d blocks came to a counter: nobody added up their sums",
                   static_cast<int>(team.came.size()), team.blocks);
}

}  // namespace loom
