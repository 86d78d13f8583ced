// Options of a process that takes part in a run, as `dedloc host` and `dedloc join` have them in
// common.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dedloc::peer {

// Caps of what a peer may take of its link.
struct CapOptions {
    std::string max_up;  // Mb/s, also by the time of day (cap_schedule.h); empty: no cap
    std::string max_down;
};

// Options that host and join have in common.
struct PeerOptions {
    std::vector<std::string> listen;    // multiaddrs or HOST:PORT; empty: a port of the system's
    std::vector<std::string> announce;  // what others are told instead; written alike
    std::vector<std::string> relays;    // to stay connected to
    std::string relay_for = "members";  // anyone, nobody
    bool no_port_mapping = false;       // the router is not asked to pass the port on
    std::string directory;
    std::string name;
    std::string device = "auto";
    std::string data_directory;
    bool agrees = false;  // to data that the run sends, without being asked
    std::uint64_t data_cache_bytes = 4'000'000'000;  // of them on disk at most
    int threads = 0;
    std::string congestion_control;  // of TCP: cubic, bbr; empty: the system's
    CapOptions caps;
    // Mb/s that plans count on at most, without slowing anything down; 0: what is measured.
    double plan_up = 0;
    double plan_down = 0;
    bool json = false;
    bool plain = false;
    std::string preemption_notice;  // who tells that the machine is taken (fleet/notice_source.h)
    bool listed = false;            // host: `dedloc find` shows the run
    bool quiet = false;             // no view at all
    std::string web;                // where its page is (web/run_page.h); empty: none
    std::string tensorboard;        // a folder for event files; empty: none
    int checkpoints_kept = 3;       // the newest
    std::uint64_t checkpoint_kept_every = 0;  // steps; one of each such stretch stays; 0: none
    std::string on_checkpoint;      // a command, after each checkpoint (checkpoint_hook.h)
    std::string publish_directory;  // a folder that gets a copy of each checkpoint
    std::string watch_prompts;      // a file of prompts that are drawn after each checkpoint
    // For tests of robust runs: it poisons its gradients, from this step on, and finds those of an
    // accomplice right.
    bool flips_signs = false;
    std::uint64_t flips_from = 0;
    std::string accomplice;
};

}  // namespace dedloc::peer
