// HostAccess decides who may join a run that this peer hosts: the key of the run's authority, which
// lets in by invitation, or the secret of the join string. Kept in the peer's folder, so that a
// resumed run is the one that people were invited to.
//
//   authority.key   private key that signs tokens, 0600; whoever has it lets people in
//   secret          the run's secret, 0600, of a run that has one
//   token           this peer's token and, of a co-organiser, its delegation (0600)
//   invitations     the book (admission/book_issuer.h)
//
// Errors: local_fault; bad_input, denied: a sentence that says what is missing. Blocks for files.

#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/collab/node.h"
#include "dedloc/security/identity.h"

namespace dedloc::train {

inline constexpr std::string_view authority_file = "authority.key";
inline constexpr std::string_view secret_file = "secret";

// The key in that folder; none: there is no such file.
Result<std::optional<security::Identity>> authority_in(const std::string& directory);

// Gives a run without [access] an authority, where `admit` ("list") says that it lets in by
// invitation: the key that lies in `directory` (may be empty) already, or a new one.
Result<std::optional<security::Identity>> give_authority(run::RunFile& run,
                                                         const std::string& admit,
                                                         const std::string& directory);

// The host of a run brings this to admission. `authority`: made for it just now, and kept now.
struct HostAccess {
    Bytes secret{};
    admission::Admitted admitted{};
    std::shared_ptr<admission::Issuer> issuer{};
};
struct HostAccessOptions {
    bool open = false;     // no secret
    bool resumes = false;  // the secret that lies there is still good
    double token_hours = 6;
    std::string name{};                       // the organiser's, if it is given
    std::string usual_name{"the organiser"};  // where neither that nor the book says one
};
Result<HostAccess> host_access(const collab::Node& node,
                               const run::RunFile& run,
                               const std::optional<security::Identity>& authority,
                               const HostAccessOptions& options);

// Reaches a run as the peer that the node's folder says: where it is the organiser's, with a token
// that it makes for itself, and the right to let people in; else as everybody. `name`: of the
// organiser; empty: as it was.
struct ReachedRun {
    collab::Invitation invitation{};
    std::shared_ptr<admission::Issuer> issuer{};
};
Result<ReachedRun> reach_run(const collab::Node& node,
                             const std::string& join_text,
                             Duration timeout,
                             const std::string& name = {},
                             const std::string& usual_name = "the organiser");

// So that who resumes the run from this folder lets in those that know the secret.
Ok keep_secret(const collab::Node& node, ByteView secret);

}  // namespace dedloc::train
