// CollaborationService: a node's part in one run, and how it is invited to it.
//
// Thread: the owner's, never the network thread. Blocks. Errors: conflict (another run, or of
// another version of dedloc), bad_input (join string), peer_gone or timeout (nobody of the run can
// be reached), denied (wrong secret).

#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/collab/collaboration.h"
#include "dedloc/collab/node.h"
#include "dedloc/run/join_string.h"
#include "dedloc/run/run_file.h"

namespace dedloc::collab {

// A run to host, or to join: then with the secret and addresses of its join string.
struct Invitation {
    run::RunFile run;
    Bytes secret;
    std::vector<std::string> bootstrap;
    admission::Admitted admitted{};  // of a run that lets in by invitation

    // Sets what the options of a collaboration have of it, but for the run.
    void hand_over(CollaborationOptions& options) const {
        options.secret = secret;
        options.bootstrap = bootstrap;
        options.admitted = admitted;
    }
};

// Asks the peers of a join string for their run file, which is believed only if it has the hash
// that the string says. Network thread. Errors: conflict: those that were reached train another
// run, or run another version of dedloc; else that nobody could be reached, and why.
Task<Result<run::RunFile>> fetch_run_file(p2p::Host& host,
                                          runtime::Clock& clock,
                                          run::JoinString join,
                                          std::shared_ptr<membership::Authorizer> authorizer,
                                          TimePoint deadline);

// Parses the string and fetches the run file. `own`: the token of an organiser, who needs nobody to
// get one from. `goes_on` is asked a few times a second; where it says no, the call returns
// cancelled, and the node is of no use any more.
Result<Invitation> fetch_invitation(const Node& node,
                                    const std::string& join_text,
                                    Duration timeout,
                                    std::optional<admission::Admitted> own = std::nullopt,
                                    const std::function<bool()>& goes_on = {});
// Proves to peers of the run that this node may take part, before it is a member.
std::shared_ptr<membership::Authorizer> authorizer_for(const Node& node,
                                                       const Invitation& invitation);
// A file that the run file of an invitation names by its hash, from the run's peers.
Result<Bytes> fetch_attachment(const Node& node,
                               const Invitation& invitation,
                               const Digest& hash,
                               std::size_t bytes_max,
                               Duration timeout);

class CollaborationService final : public Service {
  public:
    explicit CollaborationService(const Node& node) : node_(node) {}

    const Node& node() const { return node_; }

    // Makes the collaboration and starts it; returns when its state is usable. Once. The state may
    // take hours to load: `goes_on` is called a few times a second meanwhile, when collaboration()
    // is there to look at; where it says no, begin() returns cancelled, and nothing but the node's
    // destructor is of use any more. The node's caps take the place of
    // CollaborationOptions::upload_max and download_max. An observer on a node with a service of
    // another role is told to others as that.
    Result<void> begin(CollaborationOptions options,
                       events::EventSink* events,
                       const std::function<bool()>& goes_on = {});
    Collaboration& collaboration() const;  // after begin()
    void leave(Duration grace_period);     // after begin()

    membership::Role role() const override { return role_; }
    Task<void> stop() override;
    void set_caps(double upload_max, double download_max) override;

  private:
    const Node& node_;
    membership::Role role_ = membership::Role::observer;
    std::unique_ptr<Collaboration> collaboration_;
};

}  // namespace dedloc::collab
