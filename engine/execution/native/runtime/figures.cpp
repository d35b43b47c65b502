// Rates of this machine's CPU, one a line: "NAME VALUE" in operations or bytes a second, or in seconds.
// Usage: figures L1_BYTES L2_BYTES L3_BYTES
#include "product.hpp"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

namespace {

constexpr double SECONDS = 0.01;  // of each repetition
constexpr int REPETITIONS = 40;   // of which the quickest counts

double now(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

// Of one thread the processor's time, whoever else the machine runs.
template <class Work>
double seconds(Work work, clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
    double best = 1e9, once = now(clock);
    work();
    once = now(clock) - once;
    const long times = once > SECONDS ? 1 : static_cast<long>(SECONDS / (once + 1e-9)) + 1;
    for (int n = 0; n < REPETITIONS; ++n) {
        const double begin = now(clock);
        for (long time = 0; time < times; ++time) work();
        const double spent = (now(clock) - begin) / times;
        best = spent < best ? spent : best;
    }
    return best;
}

NOT_INLINE void multiply(const float* rows, const float* columns, float* found) {
    Tile<Fma, 6, 2> sums;
    sums.clear();
    for (int times = 0; times < 64; ++times)
        for (int k = 0; k < 256; ++k) sums.add(rows + 6 * k, [](int row) -> i64 { return row; }, columns + 2 * LANES * k);
    sums.write(found, 2 * LANES);
}

NOT_INLINE float read(const float* data, i64 elements) {
    Vector<float> sums[8] = {};
    for (i64 at = 0; at + 8 * LANES <= elements; at += 8 * LANES)
#pragma GCC unroll 8
        for (int n = 0; n < 8; ++n) sums[n] += load<float>(data + at + n * LANES);
    for (int n = 1; n < 8; ++n) sums[0] += sums[n];
    return sums[0][0];
}

volatile float sink;

}  // namespace

int main(int, char** arguments) {
    const i64 l1 = std::atoll(arguments[1]), l2 = std::atoll(arguments[2]), l3 = std::atoll(arguments[3]);
    std::vector<float> data((l1 > l3 ? l1 : l3) + 4096, 1.0f), rows(6 * 256, 1.0f), columns(2 * LANES * 256, 1.0f);
    alignas(64) float found[6 * 2 * LANES];
    const double product = seconds([&] { multiply(rows.data(), columns.data(), found); });
    std::printf("fma_rate %.6g\n", 64.0 * 256 * 6 * 2 * LANES * 2 / product);
    const std::pair<const char*, i64> levels[] = {
        {"l1_bandwidth", l1 / 2}, {"l2_bandwidth", l2 / 2}, {"l3_bandwidth", l2 * 4 < l3 / 2 ? l2 * 4 : l3 / 2}};
    for (const auto& [name, bytes] : levels) {
        const i64 elements = bytes / 4;
        const double once = seconds([&] { sink = read(data.data(), elements); });
        std::printf("%s %.6g\n", name, double(bytes) / once);
    }
    const i64 all = static_cast<i64>(data.size());  // as many floats as the third cache has bytes: four times its size
    const double walked = seconds([&] {
        float total = 0;
#pragma omp parallel for reduction(+ : total)
        for (int part = 0; part < 64; ++part) total += read(data.data() + part * (all / 64), all / 64);
        sink = total;
    }, CLOCK_MONOTONIC);
    std::printf("dram_bandwidth %.6g\n", 4.0 * all / walked);
    const double region = seconds([&] {
#pragma omp parallel
        asm volatile("");
    }, CLOCK_MONOTONIC);
    std::printf("fork_overhead %.6g\n", region);
}
