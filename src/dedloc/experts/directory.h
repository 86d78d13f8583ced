// Directory: where experts are, as the distributed table says, in hivemind's records.
//
// A server declares each expert under its name (the server's PeerId as text) and under every prefix
// (the next coordinate as subkey -> (name, PeerId)). Reading remembers what a prefix holds for
// known_for, and that it holds nothing for unknown_for; concurrent questions about one prefix share
// one look-up. hivemind's mark for "nothing here" (subkey -1, nil) is not written: it shuts a new
// expert out until it expires.
//
// Records are anybody's: what is no valid entry of this very prefix is skipped, and at most
// successors_max are kept.
//
// Errors: those of the table. Thread: the network thread.

#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/dht/node.h"
#include "dedloc/experts/uid.h"
#include "dedloc/runtime/event.h"

namespace dedloc::experts {

inline constexpr std::size_t successors_max = 4096;       // of one prefix
inline constexpr std::size_t prefixes_known_max = 16384;  // remembered; the oldest go

struct Location {
    ExpertUid uid;
    PeerId server;

    friend bool operator==(const Location&, const Location&) = default;
};

// By the coordinate that follows the prefix.
using Successors = std::map<std::int64_t, Location>;

struct DirectoryOptions {
    Duration known_for = std::chrono::seconds(10);
    Duration unknown_for = std::chrono::seconds(3);
};

class Directory {
  public:
    Directory(dht::DhtNode& table,
              runtime::Executor executor,
              runtime::Clock& clock,
              DirectoryOptions options = {});
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;

    // Makes them visible until then. As many results as names: whether it is declared.
    Task<std::vector<bool>> declare(std::vector<ExpertUid> uids,
                                    PeerId server,
                                    WallSeconds expiration,
                                    TimePoint deadline);
    // nullopt: nobody serves it; an Error: the table did not answer.
    Task<std::vector<Result<std::optional<PeerId>>>> find(std::vector<ExpertUid> uids,
                                                          dht::Freshness freshness,
                                                          TimePoint deadline);
    // As many as prefixes ("ffn.3."); of what does not answer, none.
    Task<std::vector<Successors>> successors(std::vector<std::string> prefixes, TimePoint deadline);
    // A server there did not answer: ask the table again.
    void doubt(const Location& location);

    std::uint64_t lookups() const { return lookups_; }

  private:
    struct Known {
        Successors successors;
        TimePoint until;
        bool asked = false;    // somebody is asking the table now
        bool doubted = false;  // ask those who hold the record, not the caches
    };
    Task<void> ask(std::vector<std::string> prefixes, dht::Freshness freshness, TimePoint deadline);
    void remember(const std::string& prefix, Successors successors, bool answered);

    dht::DhtNode& table_;
    runtime::Clock& clock_;
    DirectoryOptions options_;
    std::map<std::string, Known> known_;
    runtime::Event arrived_;  // pulsed when answers have come
    std::uint64_t lookups_ = 0;
};

// The table's key of a name or prefix, and the records of a declaration: for tests and tools.
dht::DhtId key_of(std::string_view name_or_prefix);
std::vector<dht::DhtItem> declaration(const ExpertUid& uid,
                                      const PeerId& server,
                                      WallSeconds expiration);
Successors successors_from(std::string_view prefix, const dht::Stored& stored);

}  // namespace dedloc::experts
