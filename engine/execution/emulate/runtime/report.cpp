#include "report.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "machine_state.hpp"

namespace loom {

namespace {
Status unmapped;
std::FILE* results = nullptr;
std::set<std::pair<std::string, int>> reported;
}  // namespace

Status* status = &unmapped;

void open_report(const char* result_path, const char* status_path) {
    results = std::fopen(result_path, "w");
    const int file = ::open(status_path, O_RDWR | O_CREAT, 0600);
    if (!results || file < 0 || ::ftruncate(file, sizeof(Status)) != 0) std::exit(90);
    void* mapped = ::mmap(nullptr, sizeof(Status), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) std::exit(90);
    status = static_cast<Status*>(mapped);
    ::close(file);
}

void close_report(long long blocks_run) {
    std::fprintf(results, "done\t%lld\n", blocks_run);
    std::fclose(results);
}

void report(const char* kind, int line, int other_line, const char* format, ...) {
    if (!reported.emplace(kind, line).second) return;
    std::fprintf(results, "finding\t%s\t%d\t%d\t", kind, line, other_line);
    va_list values;
    va_start(values, format);
    std::vfprintf(results, format, values);
    va_end(values);
    std::fputc('\n', results);
    std::fflush(results);
}

void report_lanes(int line, const char* kind, int width, const char* buffer, long long touched, const long long* offsets) {
    std::fprintf(results, "lanes\t%d\t%s\t%d\t%s\t%lld\t", line, kind, width, buffer, touched);
    for (int lane = 0; lane < WARP; ++lane) std::fprintf(results, "%lld ", offsets[lane]);
    std::fputc('\n', results);
}

void report_count(int line, const char* kind, int width, const Figures& figures) {
    std::fprintf(results, "count\t%d\t%s\t%d\t%lld\t%lld\t%lld\t%lld\n", line, kind, width, figures.requests,
                 figures.sectors, figures.conflicts, figures.passes);
}

}  // namespace loom
