// Names of runs in the distributed table: a host that wants to be found stores a record under its
// run's name, signed by itself, and stores it again before it expires.
//
//   key      "dedloc-run:<name>"
//   subkey   of the organiser's PeerId, signed (docs/dht.md)
//   payload  NamedRun, protobuf
//
// Names are not unique and prove nothing; whoever looks sees all organisers of a name. A record
// never holds a secret: to an invited run one still needs its join string.
//
// Errors: those of the table; bad_input (a name). Thread: the network thread; the service: the
// owner's. Cost: one look-up and five stores a period.

#pragma once
#include <functional>
#include <string>
#include <vector>

#include "dedloc/base/fields.h"
#include "dedloc/collab/node.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {

inline constexpr std::size_t run_name_bytes_max = 64;  // as in a run file
inline constexpr std::size_t named_addresses_max = 8;
inline constexpr std::size_t named_address_bytes_max = 256;
inline constexpr std::size_t named_runs_max = 64;  // of one name; the newest
inline constexpr double named_for_s = 600;
inline constexpr Duration name_again = std::chrono::seconds(60);

struct NamedRun {
    Digest run;                          // hash of its run file
    std::vector<std::string> addresses;  // multiaddrs with /p2p/<id>
    bool open = false;                   // anybody may join
    std::uint64_t step = 0;
    std::uint64_t peers = 0;
    double begun = 0;  // seconds since 1970
    std::string task;  // its kind

    DEDLOC_FIELDS(run, (addresses, named_addresses_max), open, step, peers, begun, task)
};

struct FoundRun {
    PeerId organiser;
    NamedRun run;
    WallSeconds expiration = 0;
};

dht::DhtId key_of_run_name(std::string_view name);
// Reads a signed payload, if it is a record of a run: addresses are the organiser's own.
Result<NamedRun> named_run_from(ByteView payload);
// Everybody who says so, with the most peers first.
Task<Result<std::vector<FoundRun>>> find_runs(dht::DhtNode& table,
                                              std::string name,
                                              TimePoint deadline);

// Keeps a run's name in the table, as long as it lives. `now`: what there is to say at this moment;
// called on the network thread.
class RunNameService final : public Service {
  public:
    RunNameService(const Node& node, std::string name, std::function<NamedRun()> now);

    membership::Role role() const override { return membership::Role::observer; }
    Task<void> stop() override;

  private:
    Task<void> keep_the_name();

    const Node& node_;
    std::string name_;
    std::function<NamedRun()> now_;
    std::unique_ptr<runtime::Scope> scope_;
};

}  // namespace dedloc::collab
