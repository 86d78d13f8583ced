// The systemd user unit of a volunteer's peer, as text.
//
// Thread: any; pure.

#pragma once
#include <string>
#include <vector>

namespace dedloc::peer {

struct ServiceUnit {
    std::string program;             // absolute
    std::vector<std::string> words;  // what stands after it
    std::string run;                 // for people
    int processor_percent = 0;       // of one processor: 150 is one and a half; 0: no cap
};

std::string unit_text(const ServiceUnit& unit);

}  // namespace dedloc::peer
