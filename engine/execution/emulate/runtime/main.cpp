// The child process: reads a job, maps the buffers, runs the blocks, reports.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "counts.hpp"
#include "grid.hpp"
#include "memory.hpp"
#include "report.hpp"

namespace loom {

Buffer buffers[MAX_BUFFERS];
int buffer_count = 0;
void* kernel_arguments[MAX_BUFFERS];

void* map_zeroed(long long bytes) {
    void* mapped = ::mmap(nullptr, static_cast<std::size_t>(bytes ? bytes : 1), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) std::exit(91);
    return mapped;
}

namespace {

void* map_file(const char* path, long long bytes) {
    const int file = ::open(path, O_RDWR);
    if (file < 0) std::exit(92);
    void* mapped = ::mmap(nullptr, static_cast<std::size_t>(bytes ? bytes : 1), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) std::exit(92);
    ::close(file);
    return mapped;
}

struct Launch {
    uint3 grid{}, block{};
    long long shared_bytes = 0;
    long long first = 0;            // number of its block 0: blocks are numbered on from one launch to the next
    std::vector<long long> blocks;  // that are run
};

// NAME BYTES ELEMENT_BYTES ALIGNMENT: the next parameter.  Its memory follows, ALIGNMENT bytes behind the start of a page.
Buffer& read_parameter(std::FILE* file) {
    if (buffer_count == MAX_BUFFERS) std::exit(93);
    Buffer& buffer = buffers[buffer_count++];
    if (std::fscanf(file, "%127s %lld %d %d", buffer.name, &buffer.bytes, &buffer.element_bytes, &buffer.alignment) != 4)
        std::exit(93);
    buffer.shift = __builtin_ctz(static_cast<unsigned>(buffer.element_bytes));
    return buffer;
}

// Gives the parameter its memory, which begins at `page`; what is written is remembered in cells and in a mask.
void place(Buffer& buffer, void* page, void* mask) {
    buffer.data = static_cast<unsigned char*>(page) + buffer.alignment;
    if (mask) {
        const long long elements = buffer.bytes / buffer.element_bytes;
        buffer.cells = static_cast<Cell*>(map_zeroed(elements * static_cast<long long>(sizeof(Cell))));
        buffer.mask = static_cast<unsigned char*>(mask);
    }
    kernel_arguments[&buffer - buffers] = buffer.data;
}

// buffer NAME BYTES ELEMENT_BYTES ALIGNMENT DATA_PATH MASK_PATH READ WRITTEN; ALIGNMENT bytes precede the data in its file
void read_buffer(std::FILE* file) {
    Buffer& buffer = read_parameter(file);
    char data[1024], mask[1024];
    int read, written;
    if (std::fscanf(file, "%1023s %1023s %d %d", data, mask, &read, &written) != 4) std::exit(93);
    buffer.read = read;
    buffer.written = written;
    const bool watched = CHECKED && written;
    place(buffer, map_file(data, buffer.bytes + buffer.alignment),
          watched ? map_file(mask, buffer.bytes / buffer.element_bytes) : nullptr);
}

// workspace NAME BYTES ELEMENT_BYTES ALIGNMENT ZEROED; one that need not be zeroed is read only where it was written
void read_workspace(std::FILE* file) {
    Buffer& buffer = read_parameter(file);
    int zeroed;
    if (std::fscanf(file, "%d", &zeroed) != 1) std::exit(93);
    buffer.read = zeroed;
    buffer.written = true;
    place(buffer, map_zeroed(buffer.bytes + buffer.alignment),
          CHECKED ? map_zeroed(buffer.bytes / buffer.element_bytes) : nullptr);
}

std::vector<Launch> read_job(const char* path) {
    std::FILE* file = std::fopen(path, "r");
    if (!file) std::exit(93);
    char word[32], order[16];
    int count = 0;
    if (std::fscanf(file, "order %15s launches %d", order, &count) != 2) std::exit(93);
    machine.late = std::strcmp(order, "late") == 0;
    std::vector<Launch> launches(static_cast<std::size_t>(count));
    long long all = 0;
    for (Launch& launch : launches) {
        if (std::fscanf(file, " grid %u %u %u block %u %u %u shared %lld", &launch.grid.x, &launch.grid.y,
                        &launch.grid.z, &launch.block.x, &launch.block.y, &launch.block.z, &launch.shared_bytes) != 7)
            std::exit(93);
        launch.first = all;
        all += static_cast<long long>(launch.grid.x) * launch.grid.y * launch.grid.z;
    }
    const auto run = [&launches](long long block) {
        std::size_t n = launches.size() - 1;
        while (block < launches[n].first) --n;
        launches[n].blocks.push_back(block);
    };
    while (std::fscanf(file, "%31s", word) == 1) {
        if (std::strcmp(word, "buffer") == 0) read_buffer(file);
        else if (std::strcmp(word, "workspace") == 0) read_workspace(file);
        else break;
    }
    long long number = 0;
    if (std::strcmp(word, "trace") == 0) {
        int warp = 0;
        if (std::fscanf(file, "%lld %d %31s", &number, &warp, word) < 2) std::exit(93);
        trace_warp(number, warp);
        number = 0;
    }
    if (std::strcmp(word, "blocks") == 0) {
        while (std::fscanf(file, "%lld", &number) == 1) run(number);
    } else {
        for (; number < all; ++number) run(number);
    }
    std::fclose(file);
    return launches;
}

}  // namespace

}  // namespace loom

int main(int count, char** arguments) {
    if (count != 4) return 93;
    loom::open_report(arguments[2], arguments[3]);
    const std::vector<loom::Launch> launches = loom::read_job(arguments[1]);
    long long ran = 0;
    bool all_ended = true;
    for (const loom::Launch& launch : launches) {
        loom::machine.launch = static_cast<int>(&launch - launches.data());
        loom::machine.launch_epoch = loom::machine.barrier_epoch + 1;
        gridDim = launch.grid;
        blockDim = launch.block;
        loom::set_up_threads(launch.block);
        loom::set_up_shared(launch.shared_bytes);
        const long long ended = loom::run_blocks(launch.blocks, launch.first);
        ran += ended;
        all_ended = ended == static_cast<long long>(launch.blocks.size());
        if (!all_ended) break;
    }
    if (all_ended) loom::check_teams();
    loom::report_counts();
    loom::close_report(ran);
    return 0;
}
