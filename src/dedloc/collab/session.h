// Session: this machine as a peer of one run, put together: network thread, clock, files, worker
// threads, identity, host and collaboration. Without libtorch, so that an aggregator or observer
// uses it as a trainer does.
//
//   DEDLOC_TRY(auto session, Session::open({.directory = "peer-a"}));
//   DEDLOC_TRY(auto invitation, session->invitation(join_text, 30s));     // or Invitation{run}
//   DEDLOC_TRY_VOID(session->begin(options, nullptr));
//   ... session->collaboration() ...
//   session->leave(5s);
//
// The network thread starts in open() and ends in the destructor. Protocol objects live there:
// reach them by call() or through session->spawn().
//
// Thread: the owner's, never the network thread. Blocks. Errors: local_fault (disk, port in use),
// conflict (the directory is another process's; another run, or of another version of dedloc),
// bad_input (addresses, join string), peer_gone or timeout (nobody of the run can be reached),
// denied (wrong secret).

#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/collab/collaboration.h"
#include "dedloc/collab/join_string.h"
#include "dedloc/collab/run_file.h"
#include "dedloc/p2p/host.h"
#include "dedloc/p2p/nat.h"
#include "dedloc/runtime/future.h"
#include "dedloc/runtime/limited_network.h"
#include "dedloc/runtime/node.h"

namespace dedloc::collab {

// What plans count on of a cap, which bounds what goes through sockets: the rest is for the framing
// of TLS and yamux, and for small messages beside the parts.
inline constexpr double planned_share_of_cap = 0.97;
// How soon caps change when the time of day does.
inline constexpr Duration caps_look_interval = 1s;

struct SessionOptions {
    std::string directory;  // identity, votes, counters, checkpoints; made if it is missing
    std::vector<std::string> listen = {"/ip4/0.0.0.0/tcp/0"};  // empty: client mode
    std::vector<std::string> announce{};
    std::size_t workers_count = 0;  // 0: as many as there are cores; never more than eight
    p2p::NatOptions nat{};
    std::vector<std::string> relays{};  // addresses with /p2p/<id> to stay connected to
    std::string congestion_control{};   // of TCP (runtime/real.h); empty: the system's
    // How fast this process may send and receive at that time; looked at again and again, on the
    // network thread. Empty: no caps, now and later. Caps take the place of Options::upload_max and
    // download_max.
    std::function<runtime::LineCaps(WallSeconds)> caps{};
};

// A run to host, or to join: then with the secret and addresses of its join string.
struct Invitation {
    RunFile run;
    Bytes secret;
    std::vector<std::string> bootstrap;
};

// Asks the peers of a join string for their run file, which is believed only if it has the hash
// that the string says. Network thread. Errors: conflict: who was reached trains another run, or
// runs another version of dedloc; else that nobody could be reached, and why.
Task<Result<RunFile>> fetch_run_file(p2p::Host& host,
                                     runtime::Clock& clock,
                                     JoinString join,
                                     TimePoint deadline);

class Session {
  public:
    static Result<std::unique_ptr<Session>> open(SessionOptions options);
    ~Session();  // stops at once; leave() first to part in order
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    const PeerId& id() const;
    runtime::Node node() const;
    runtime::Clock& clock() const;
    runtime::Disk& disk() const;
    p2p::Host& host() const;         // network thread only
    runtime::LineCaps caps() const;  // in force now; network thread only
    const runtime::Spawn& spawn() const;

    // Parses the string and fetches the run file.
    Result<Invitation> invitation(const std::string& join_text, Duration patience);
    // A file that the run file of an invitation names by its hash, from the run's peers.
    Result<Bytes> attachment(const Invitation& invitation,
                             const Digest& hash,
                             std::size_t bytes_max,
                             Duration patience);
    // Makes the collaboration and starts it; returns when its state is usable. Once. The state may
    // take hours to load: `goes_on` is called a few times a second meanwhile, when collaboration()
    // is there to look at; where it says no, begin() returns cancelled, and nothing but the
    // destructor is of use any more.
    Result<void> begin(Options options,
                       EventSink* events,
                       const std::function<bool()>& goes_on = {});
    Collaboration& collaboration() const;  // after begin()
    void leave(Duration patience);         // after begin()

    // Runs a task on the network thread and waits for its end.
    template <typename T>
    Result<T> call(std::string name, Task<Result<T>> task) const {
        std::future<Result<T>> future =
            runtime::spawn_future(spawn(), std::move(name), std::move(task));
        return runtime::wait_for_result(future);
    }
    // Runs a plain function there.
    template <typename Work>
    auto there(Work work) const {
        std::packaged_task<decltype(work())()> task(std::move(work));
        auto future = task.get_future();
        post([&task] { task(); });
        return future.get();
    }

  private:
    struct State;
    explicit Session(std::unique_ptr<State> state);
    void post(std::function<void()> work) const;

    std::unique_ptr<State> state_;
};

}  // namespace dedloc::collab
