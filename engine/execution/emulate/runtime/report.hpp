// What the parent process reads: findings as they happen, so that they outlive a crash or a hang; counts at the end.
#pragma once

namespace loom {

// Where the run stands; in a file that the parent maps, read when the child has died.
struct Status {
    long long block;
    int thread;
    int line;
};
extern Status* status;

void open_report(const char* result_path, const char* status_path);
void close_report(long long blocks_run);

// Notes a finding once per kind and line; the message may be formatted only for the first.
__attribute__((format(printf, 4, 5))) void report(const char* kind, int line, int other_line, const char* format, ...);

// Byte offsets of a warp's lanes at one access, -1 for a lane that takes no part; `touched` sectors or passes.
void report_lanes(int line, const char* kind, int width, const char* buffer, long long touched, const long long* offsets);

// What all requests of one kind at one line come to.
struct Figures {
    long long requests = 0, sectors = 0, conflicts = 0, passes = 0;
};
void report_count(int line, const char* kind, int width, const Figures& figures);

}  // namespace loom
