// Asynchronous copies of each thread: queued at issue, closed into groups, landed by the wait that must complete them.
#include <cstring>

#include "memory.hpp"
#include "report.hpp"

namespace loom {

namespace {

void move_bytes(const Copy& copy) {
    std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.valid_bytes));
    std::memset(copy.to + copy.valid_bytes, 0, static_cast<std::size_t>(copy.bytes - copy.valid_bytes));
}

}  // namespace

void issue_copy(const Access& to, const Access& from) {
    if (CHECKED && !may_begin_copy(to, from)) return;
    Thread& thread = machine.running();
    auto* target = static_cast<unsigned char*>(const_cast<void*>(to.base)) + to.index * to.element_bytes;
    const auto* source = static_cast<const unsigned char*>(from.base) + (from.count > 0 ? from.index : 0) * from.element_bytes;
    thread.copies.push_back({target, source, to.element_bytes * to.count, from.element_bytes * from.count,
                             thread.groups, to.line});
    if (!machine.late) move_bytes(thread.copies.back());
}

void commit_copies() { ++machine.running().groups; }

void wait_for_copies(int unfinished_groups) {
    Thread& thread = machine.running();
    std::size_t done = 0;
    for (; done < thread.copies.size() && thread.copies[done].group < thread.groups - unfinished_groups; ++done) {
        const Copy& copy = thread.copies[done];
        if (machine.late) move_bytes(copy);
        if (CHECKED) note_landing(copy);
    }
    thread.copies.erase(thread.copies.begin(), thread.copies.begin() + static_cast<long>(done));
}

void abandon_copies() {
    Thread& thread = machine.running();
    for (const Copy& copy : thread.copies) {
        if (!CHECKED) break;
        report("unfinished copy", copy.line, 0, "block %lld, thread %d: the copy is %s before the kernel ends",
               machine.block, machine.current,
               copy.group < thread.groups ? "never waited for" : "never committed to a group");
    }
    thread.copies.clear();
}

}  // namespace loom
