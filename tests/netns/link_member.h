// One member of a group that does whole rounds with the real engine, host and sockets, in a process
// of its own: `dedloc-lab link-member`, which `dedloc-lab links` starts on each of its machines.
//
// All share a folder. A member writes "peer-R" (its address) when it listens and "ready-R" when it
// is connected to all; for each file "go-K" it does round K: announce, plan, reduce, vote,
// certificate, until every averaged number is decoded here. Then it writes "done-K-R", one JSON
// object. The file "end" ends it. What stands for the optimizer and the state hash is nothing here.
//
// Thread: its own. Errors: on standard error, exit code 1.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct LinkMemberCommand {
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
    std::uint32_t aggregators = 0;  // the last of them
    std::uint64_t elements = 0;
    std::string codec = "fp16";
    std::string congestion_control;  // empty: the system's
    std::string ip;
    std::string folder;
    double rate_unknown = 12.5e6;  // bytes per second
    // To plans, bytes per second; 0: what is measured.
    double granted_up = 0;
    double granted_down = 0;
    bool granted_is_true = false;
};

int run_link_member(const LinkMemberCommand& command);

}  // namespace dedloc::lab
