// The blocks of a launch: one after another, or all at once where they wait for each other.
#pragma once

#include <vector>

namespace loom {

// Runs some blocks of a launch in the machine's order; how many came to their end: all, but where some wait in vain.
// first: the number of the launch's block 0.
long long run_blocks(const std::vector<long long>& blocks, long long first);

}  // namespace loom
