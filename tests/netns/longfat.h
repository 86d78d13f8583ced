// `dedloc-lab longfat`: how much of a long, fat link a stream fills: two peers in network
// namespaces, 300 ms apart, with 200 Mbit/s through a wide-area network in user space (nat_wan.h).
//
// Prints one_stream (the first stream: one connection), lanes, and share_of_rate: what a stream
// over lanes carries of the line's rate, packet headers not counted, once its first seconds are
// over. Exit status: 0 the promise is kept, 9 not, 77 no namespaces here. Thread: one. Errors: on
// standard error.

#pragma once
#include <string>

namespace dedloc::lab {

struct LongfatCommand {
    double round_trip_ms = 300;
    double mbit_per_s = 200;
    int megabytes = 800;  // half a minute: what the first losses cost is over after a third
    std::string congestion_control = "cubic";  // as on most machines at home
    std::string log = "warning";
    bool json = false;
};

int run_longfat(const LongfatCommand& command);

}  // namespace dedloc::lab
