// `dedloc-lab experts`: Learning@home's figures in virtual time.
//
//   search      a cold beam search for 4 of up to 1,024 experts in tables of 100, 1,000, … nodes,
//               links of 50 ms a round trip; beside the paper's 317 … 764 ms
//   throughput  64 trainers over 4 layers at 0, 100 and 200 ms; beside one walk through the same
//               layers, as a chain of model-parallel stages does it
//   emulation   4 layers of 64 experts, top 4, trainers that share a trunk, 1,000 ms a round trip:
//               accuracy with a tenth of the calls failing, and with none (experts_emulation.h)
//
// Exit status: 0; 9 if a figure misses its bound.

#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct ExpertsCommand {
    std::size_t nodes = 1000;
    std::string only;  // empty: all
    std::uint64_t seed = 1;
    std::size_t steps = 0;  // of the emulation; 0: as many as it takes
    std::string svg;        // file for the figures beside the paper's; empty: none
    bool json = false;
    bool processes = false;  // experts_processes.h instead
    std::string folder;      // of them
    bool keep = false;
};

int run_experts(const ExpertsCommand& command);

}  // namespace dedloc::lab
