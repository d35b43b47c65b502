#include "counts.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "machine_state.hpp"
#include "memory.hpp"
#include "report.hpp"

namespace loom {

namespace {

constexpr int BANKS = 32;
constexpr int BANK_BYTES = 4;
constexpr int SECTOR_BYTES = 32;
const char* const NAMES[] = {"global load", "global store", "shared load", "shared store", "async copy"};

// All accesses of one kind and width at one line.
struct Site {
    int line;
    Kind kind;
    int width;
    Figures figures;
    // Of the phase that runs: every lane's addresses, one lane after the other.
    std::vector<unsigned long long> addresses, seconds;
    int begin[WARP], count[WARP];
    bool active = false, traced = false;
};

std::map<std::tuple<int, Kind, int>, Site> sites;
std::vector<Site*> active;
int lane_now = 0;
long long traced_block = -1;
int traced_warp = -1;

// Sites are found again by line, kind and width without searching the map.
constexpr int KINDS = 5, WIDTHS = 5;
std::vector<Site*> by_key;

Site& site_at(Kind kind, int line, int width) {
    const auto key = static_cast<std::size_t>((line * KINDS + static_cast<int>(kind)) * WIDTHS + __builtin_ctz(width));
    if (key >= by_key.size()) by_key.resize(key + 1);
    if (!by_key[key]) {
        Site& site = sites[{line, kind, width}];
        site.line = line;
        site.kind = kind;
        site.width = width;
        by_key[key] = &site;
    }
    return *by_key[key];
}

long long distinct(unsigned long long* values, int n) {
    if (!std::is_sorted(values, values + n)) std::sort(values, values + n);
    return std::unique(values, values + n) - values;
}

long long sectors_of(const unsigned long long* addresses, int lanes) {
    unsigned long long sectors[WARP];
    int n = 0;
    for (int i = 0; i < lanes; ++i)
        if (addresses[i] != NO_ADDRESS) sectors[n++] = addresses[i] / SECTOR_BYTES;
    return distinct(sectors, n);
}

// Passes beyond the first that the distinct words of some lanes need: one word a bank and pass.
long long extra_passes(const unsigned long long* addresses, int lanes, int width) {
    unsigned long long words[2 * WARP];  // of a pass for lanes that read in pairs
    int n = 0;
    for (int i = 0; i < lanes; ++i)
        for (int part = 0; part < width; part += BANK_BYTES) words[n++] = addresses[i] / BANK_BYTES + part / BANK_BYTES;
    const auto different = static_cast<int>(distinct(words, n));
    int load[BANKS] = {}, most = 1;
    for (int i = 0; i < different; ++i) most = std::max(most, ++load[words[i] % BANKS]);
    return most - 1;
}

// Wide accesses are served in groups of lanes that together move 128 bytes.
long long conflicts_of(const unsigned long long* addresses, int lanes, int width) {
    const int group = width <= BANK_BYTES ? WARP : BANKS * BANK_BYTES / width;
    long long extra = 0;
    for (int first = 0; first < lanes; first += group)
        extra += extra_passes(addresses + first, std::min(group, lanes - first), width);
    return extra;
}

bool is_shared(Kind kind) { return kind == Kind::SHARED_LOAD || kind == Kind::SHARED_STORE; }

// The addresses of the lanes that take part in one request, in the order of `numbers`.
struct Taking {
    unsigned long long addresses[WARP], seconds[WARP];
    int numbers[WARP];
    int lanes = 0;
};

// Whether lanes read the same place in pairs, all n and n ^ 1 or all n and n ^ 2.
bool in_pairs(const Taking& taking) {
    unsigned long long places[WARP];
    std::fill(places, places + WARP, NO_ADDRESS);
    for (int i = 0; i < taking.lanes; ++i) places[taking.numbers[i]] = taking.addresses[i];
    const auto all_alike = [&](int apart) {
        for (int lane = 0; lane < WARP; ++lane) {
            const auto one = places[lane], other = places[lane ^ apart];
            if (one != other && one != NO_ADDRESS && other != NO_ADDRESS) return false;
        }
        return true;
    };
    return all_alike(1) || all_alike(2);
}

// Passes over shared memory that one request needs.  `passes_of` of engine/tile/addresses.py says where this is from.
long long passes_of(const Site& site, const Taking& taking) {
    int group = site.width <= BANK_BYTES ? WARP : BANKS * BANK_BYTES / site.width;
    if (site.kind == Kind::SHARED_LOAD && site.width > BANK_BYTES && in_pairs(taking)) group *= 2;
    long long passes = 0;
    for (int first = 0; first < taking.lanes; first += group)
        passes += 1 + extra_passes(taking.addresses + first, std::min(group, taking.lanes - first), site.width);
    return passes;
}

// Where the addresses that are counted of a buffer begin.
unsigned long long counted_start(const Buffer& buffer) {
    return reinterpret_cast<unsigned long long>(buffer.data - buffer.alignment);
}

// The buffer that holds a counted address; null for none.
const Buffer* owner_of(unsigned long long address) {
    for (const Buffer* buffer = buffers; buffer != buffers + buffer_count; ++buffer) {
        const unsigned long long first = counted_start(*buffer);
        if (address >= first && address < first + static_cast<unsigned long long>(buffer->bytes)) return buffer;
    }
    return nullptr;
}

// Tells each lane's offset in the buffer (in the arena for shared memory) at the first request of the traced warp.
void trace(Site& site) {
    site.traced = true;
    Taking taking;
    long long offsets[WARP];
    const Buffer* owner = nullptr;
    for (int lane = 0; lane < WARP; ++lane) {
        offsets[lane] = -1;
        if (site.count[lane] == 0) continue;
        const unsigned long long address = site.addresses[static_cast<std::size_t>(site.begin[lane])];
        if (address == NO_ADDRESS) continue;
        if (!is_shared(site.kind) && !owner) owner = owner_of(address);
        offsets[lane] = static_cast<long long>(address - (owner ? counted_start(*owner) : 0));
        taking.numbers[taking.lanes] = lane;
        taking.addresses[taking.lanes++] = address;
    }
    const long long touched =
        is_shared(site.kind) ? passes_of(site, taking) : sectors_of(taking.addresses, taking.lanes);
    report_lanes(site.line, NAMES[static_cast<int>(site.kind)], site.width, owner ? owner->name : "", touched, offsets);
}

void count_request(Site& site, const Taking& taking) {
    Figures& figures = site.figures;
    ++figures.requests;
    const bool global = !is_shared(site.kind);
    if (global) figures.sectors += sectors_of(taking.addresses, taking.lanes);
    if (site.kind == Kind::ASYNC_COPY) figures.conflicts += conflicts_of(taking.seconds, taking.lanes, site.width);
    if (!global) figures.conflicts += conflicts_of(taking.addresses, taking.lanes, site.width);
    if (site.kind == Kind::SHARED_LOAD) figures.passes += passes_of(site, taking);
}

}  // namespace

void begin_lane(int lane) { lane_now = lane; }

void trace_warp(long long block, int warp) {
    traced_block = block;
    traced_warp = warp;
}

void count_access(Kind kind, int line, int width, unsigned long long address, unsigned long long second) {
    Site& site = site_at(kind, line, width);
    if (!site.active) {
        site.active = true;
        std::fill(site.count, site.count + WARP, 0);
        active.push_back(&site);
    }
    if (site.count[lane_now]++ == 0) site.begin[lane_now] = static_cast<int>(site.addresses.size());
    site.addresses.push_back(address);
    if (kind == Kind::ASYNC_COPY) site.seconds.push_back(second);
}

void end_phase() {
    const bool is_traced = machine.block == traced_block && machine.current / WARP == traced_warp;
    for (Site* site : active) {
        if (is_traced && !site->traced) trace(*site);
        const int most = *std::max_element(site->count, site->count + WARP);
        for (int n = 0; n < most; ++n) {
            Taking taking;
            for (int lane = 0; lane < WARP; ++lane) {
                if (site->count[lane] <= n) continue;
                const int at = site->begin[lane] + n;
                if (site->kind == Kind::ASYNC_COPY) taking.seconds[taking.lanes] = site->seconds[at];
                taking.numbers[taking.lanes] = lane;
                taking.addresses[taking.lanes++] = site->addresses[at];
            }
            count_request(*site, taking);
        }
        site->addresses.clear();
        site->seconds.clear();
        site->active = false;
    }
    active.clear();
}

void report_counts() {
    for (const auto& [key, site] : sites)
        report_count(std::get<0>(key), NAMES[static_cast<int>(site.kind)], site.width, site.figures);
}

}  // namespace loom
