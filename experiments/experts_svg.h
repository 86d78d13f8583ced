// The picture of `dedloc-lab experts --svg`: time of a cold beam search against the number of
// nodes, beside the paper's curve, and throughput against latency, beside a chain of the same
// layers. Pure.

#pragma once
#include <map>
#include <string>

namespace dedloc::lab {

struct ExpertsFigures {
    std::map<double, double> search_ms;   // by nodes
    std::map<double, double> paper_ms;    // by nodes
    std::map<double, double> throughput;  // by milliseconds of a round trip; 1: without latency
    std::map<double, double> chain;       // likewise
};

std::string experts_svg(const ExpertsFigures& figures);

}  // namespace dedloc::lab
