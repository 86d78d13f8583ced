// An organiser is a host of a run that lets in by invitation; it has two files: the key of the
// run's authority, and what it remembers so that a resumed run is the one that people were invited
// to.
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

#include "dedloc/collab/collaboration.h"
#include "dedloc/collab/node.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_options.h"
#include "dedloc/security/identity.h"

namespace dedloc::peer {

inline constexpr std::string_view authority_file = "authority.key";
inline constexpr std::string_view secret_file = "secret";

// The key in that folder; none: there is no such file.
Result<std::optional<security::Identity>> authority_in(const std::string& directory);

// Gives a run without [access] an authority, where `admit` says that it lets in by invitation: the
// key that lies in `directory` (may be empty) already, or a new one.
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
    std::string name{};  // the organiser's
};
Result<HostAccess> host_access(const collab::Node& node,
                               const std::string& directory,
                               const run::RunFile& run,
                               const std::optional<security::Identity>& authority,
                               const HostAccessOptions& options);

// So that who resumes the run from this folder lets in those that know the secret.
Ok keep_secret(const std::string& directory, ByteView secret);

}  // namespace dedloc::peer
