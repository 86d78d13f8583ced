// PeerProcess: one real dedloc process on this machine, and what its event log says as it grows.
//
// Times are the peers' wall clocks, which on one machine are the same. A record ends with the
// process; restart() goes on in the same folder, as the same peer.
//
// Thread: one, which must outlive the process (runtime/child_process.h). Errors: local_fault.

#pragma once
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/events/events.h"
#include "dedloc/runtime/child_process.h"

#include "tests/common/step_book.h"

namespace dedloc::lab {

struct PeerPlace {
    std::vector<std::string> prefix;  // what stands before the program: ip netns exec …
    std::string listen = "/ip4/127.0.0.1/tcp/0";
    std::uint64_t data_bytes_max = 0;  // runtime::ChildOptions
};

class PeerProcess {
  public:
    // `words`: what stands after "dedloc": {"host", "run.toml"}, {"join", "dedloc1…"} or {"assist",
    // …}.
    static Result<std::unique_ptr<PeerProcess>> start(const std::string& program,
                                                      std::vector<std::string> words,
                                                      const std::string& folder,
                                                      const std::string& name,
                                                      PeerPlace place = {});
    // After its end: the same peer again, in a new process. Steps seen before are forgotten.
    Ok restart(std::vector<std::string> words);

    const std::string& name() const { return name_; }
    const std::string& directory() const { return directory_; }
    runtime::ChildProcess& process() { return *process_; }

    // Reads what was appended since the last look; returns the new events.
    std::vector<events::Event> poll();
    const std::vector<StepSeen>& steps() const { return steps_; }
    std::uint64_t step() const { return steps_.empty() ? 0 : steps_.back().step; }
    // The peer's steps from place `first` on that left another state than `hashes`, by step, says.
    // Steps that `hashes` lacks are added to it.
    std::vector<std::uint64_t> differing_steps(std::size_t first,
                                               std::map<std::uint64_t, std::string>& hashes) const;
    // The join string it last wrote; empty: none yet.
    std::string join_string() const;
    std::string last_error() const;  // what it said on standard error

  private:
    PeerProcess(std::string program, const std::string& folder, std::string name, PeerPlace place);
    Ok begin(std::vector<std::string> words);
    std::vector<events::Event> read_on(const std::string& path);  // from byte read_ on

    std::string program_;
    std::string name_;
    std::string directory_;
    PeerPlace place_;
    std::optional<runtime::ChildProcess> process_;
    std::uint64_t read_ = 0;  // bytes of the event log
    std::vector<StepSeen> steps_;
};

}  // namespace dedloc::lab
