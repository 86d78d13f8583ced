// `dedloc-lab corpus`: data through the run in virtual time. A host on a home's line shares a
// corpus with homes that join one after the other, each walks its own order of blocks as the text
// module does, and the host leaves for good once every block is at one of them.
//
//   dedloc-lab corpus --json
//
// Exit status: 0; 9 if a figure misses its bound.

#pragma once
#include <cstddef>
#include <cstdint>

namespace dedloc::lab {

struct CorpusCommand {
    std::uint64_t megabytes = 1000;
    std::size_t homes = 16;
    std::uint64_t cache_megabytes = 400;   // of a home
    double trained_bytes_per_s = 100'000;  // of a home
    double host_bytes_per_s = 5e6;         // upload: 40 Mb/s
    double home_bytes_per_s = 2.5e6;       // upload: 20 Mb/s
    std::uint64_t alone_minutes = 5;       // without the host
    std::uint64_t seed = 1;
    bool json = false;
};

int run_corpus(const CorpusCommand& command);

}  // namespace dedloc::lab
