// Transactions: the accesses of a warp's lanes are gathered, then counted as the hardware would serve them.
#pragma once

namespace loom {

enum class Kind { GLOBAL_LOAD, GLOBAL_STORE, SHARED_LOAD, SHARED_STORE, ASYNC_COPY };

// Of a copy that only fills with zeros.
constexpr unsigned long long NO_ADDRESS = ~0ull;

// One lane's access of `width` bytes; `second` is the shared address of an asynchronous copy.
void count_access(Kind kind, int line, int width, unsigned long long address, unsigned long long second = 0);

void begin_lane(int lane);

// Of one warp of one block, the lanes' addresses are told as well: at each site those of its first request.
void trace_warp(long long block, int warp);

// All lanes of one warp have run as far as they can: their accesses become warp-wide requests.
void end_phase();

void report_counts();

}  // namespace loom
