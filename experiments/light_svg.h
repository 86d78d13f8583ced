// The picture of `dedloc-lab light --plot`: held-out accuracy over the bytes that a peer has sent,
// one line a mode, bytes on a logarithmic axis.

#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dedloc::lab {

struct LightLine {
    std::string mode;
    std::size_t peers = 0;
    std::size_t rounds = 0;
    double samples = 0;
    double sent = 0;          // bytes a peer, after the first round,
    double samples_sent = 0;  // for so many of the samples,
    double round_most = 0;    // and in one round
    double compute_share = 0;
    bool identical = true;
    double loss = 0;
    double accuracy = 0;
    std::vector<std::pair<double, double>> accuracies{};      // by bytes sent a peer
    std::vector<std::pair<std::string, double>> by_method{};  // bytes a peer
};

std::string light_svg(const std::vector<LightLine>& lines);

}  // namespace dedloc::lab
