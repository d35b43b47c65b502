// Runs kernels for CPUs as a job file says, and times them.  Usage: main JOB
//
// A job holds one keyword and its values a line:
//   placed end|start                     whether buffers end, or begin, at the edge of a page that nothing may touch
//   buffer BYTES FILE|-                  memory of a tensor, and what it holds at first
//   kernel PATH CALL PREPARE|-           a library, and the functions in it that take an array of pointers
//   set                                  begins a list of launches that are timed together
//   launch KERNEL N BUFFER:OFFSET ...    in the set that was begun last; what prepares for it runs once, before all
//   output BUFFER FILE                   written after the first run of every set
//   time ROUNDS SAMPLES LEAST FLUSH      microseconds that a sample takes at least; bytes to walk before each sample
//
// Standard output: "ran" after the first run, then "sample SET MICROSECONDS" for each.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

enum Exit { BAD_JOB = 90, NO_MEMORY = 91, NO_LIBRARY = 93 };

using Kernel = void (*)(void**);

struct Functions {
    Kernel call, prepare;
};

struct Launch {
    Functions functions;
    std::vector<void*> buffers;
};

struct Buffer {
    char* data;
    size_t bytes;
};

[[noreturn]] void give_up(Exit status, const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(status);
}

// Memory between two pages that cannot be touched, filled with 0xff.
Buffer allocate(size_t bytes, bool at_end) {
    const size_t page = sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page + page;
    void* all = mmap(nullptr, inside + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) give_up(NO_MEMORY, "no memory for a buffer");
    char* first = static_cast<char*>(all) + page;
    mprotect(all, page, PROT_NONE);
    mprotect(first + inside, page, PROT_NONE);
    if (!at_end && inside >= (4u << 20)) madvise(first, inside, MADV_HUGEPAGE);
    std::memset(first, 0xff, inside);
    return {at_end ? first + inside - bytes : first, bytes};
}

void fill(const Buffer& buffer, const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    file.read(buffer.data, static_cast<std::streamsize>(buffer.bytes));
    if (static_cast<size_t>(file.gcount()) != buffer.bytes) give_up(BAD_JOB, "a buffer's file is too short");
}

Kernel load(const std::string& path, const std::string& symbol) {
    void* library = dlopen(path.c_str(), RTLD_NOW);
    void* found = library ? dlsym(library, symbol.c_str()) : nullptr;
    if (!found) give_up(NO_LIBRARY, dlerror());
    return reinterpret_cast<Kernel>(found);
}

void run(std::vector<Launch>& launches) {
    for (Launch& launch : launches) launch.functions.call(launch.buffers.data());
}

double microseconds(std::vector<Launch>& launches, int times) {
    const auto begin = std::chrono::steady_clock::now();
    for (int n = 0; n < times; ++n) run(launches);
    const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
    return spent.count() / times;
}

struct Job {
    bool at_end = false;
    std::vector<Buffer> buffers;
    std::vector<Functions> kernels;
    std::vector<std::vector<Launch>> sets;
    std::vector<std::pair<int, std::string>> outputs;
    int rounds = 0, samples = 0;
    double least = 0;
    size_t flush = 0;
};

Job read(const char* path) {
    Job job;
    std::ifstream file(path);
    std::string line, word;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        words >> word;
        if (word == "placed") {
            words >> word;
            job.at_end = word == "end";
        } else if (word == "buffer") {
            size_t bytes;
            words >> bytes >> word;
            job.buffers.push_back(allocate(bytes, job.at_end));
            if (word != "-") fill(job.buffers.back(), word);
        } else if (word == "kernel") {
            std::string library, call, prepare;
            words >> library >> call >> prepare;
            job.kernels.push_back({load(library, call), prepare == "-" ? nullptr : load(library, prepare)});
        } else if (word == "set") {
            job.sets.emplace_back();
        } else if (word == "launch") {
            int kernel, count;
            words >> kernel >> count;
            Launch launch{job.kernels.at(kernel), {}};
            for (int n = 0; n < count; ++n) {
                size_t buffer, offset;
                char colon;
                words >> buffer >> colon >> offset;
                launch.buffers.push_back(job.buffers.at(buffer).data + offset);
            }
            job.sets.back().push_back(std::move(launch));
        } else if (word == "output") {
            int buffer;
            words >> buffer >> word;
            job.outputs.emplace_back(buffer, word);
        } else if (word == "time") {
            words >> job.rounds >> job.samples >> job.least >> job.flush;
        } else {
            give_up(BAD_JOB, "unknown word " + word);
        }
    }
    return job;
}

}  // namespace

int main(int, char** arguments) {
    Job job = read(arguments[1]);
    for (auto& set : job.sets)
        for (Launch& launch : set)
            if (launch.functions.prepare) launch.functions.prepare(launch.buffers.data());
    for (auto& set : job.sets) run(set);
    for (const auto& [buffer, path] : job.outputs) {
        std::ofstream file(path, std::ios::binary);
        file.write(job.buffers[buffer].data, static_cast<std::streamsize>(job.buffers[buffer].bytes));
        if (!file.good()) give_up(NO_MEMORY, "an output cannot be written");
    }
    std::printf("ran\n");
    std::fflush(stdout);
    std::vector<char> other(job.flush);
    std::vector<int> times(job.sets.size(), 1);
    for (size_t n = 0; n < job.sets.size() && job.rounds; ++n) {
        const double once = std::min(microseconds(job.sets[n], 1), microseconds(job.sets[n], 3));
        times[n] = job.flush ? 1 : std::max(1, static_cast<int>(job.least / std::max(once, 0.05)));
        microseconds(job.sets[n], times[n]);
    }
    for (int round = 0; round < job.rounds; ++round)
        for (size_t n = 0; n < job.sets.size(); ++n)
            for (int sample = 0; sample < job.samples; ++sample) {
                for (size_t at = 0; at < other.size(); at += 64) other[at] += 1;
                std::printf("sample %zu %.4f\n", n, microseconds(job.sets[n], times[n]));
                std::fflush(stdout);
            }
}
