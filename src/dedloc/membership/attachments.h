// Attachments: files that a run file names by their hash (a tokenizer), given by peers to those who
// join, so that a join string is all that a newcomer needs.
//
//   /dedloc/attachment/1   {1 run, 2 hash, 3 offset, 4 proof} -> {1 bytes of the whole, 2 piece}
//   proof = what the run's Authorizer shows, with the hash in the place of the caller's nonce
//
// The asker is no member yet (its model may need the file first), so each question proves that
// the asker knows the run's secret. The proof is bound to the asker's PeerId, which the connection
// has authenticated: it is of no use to whom it is shown.
//
// Limits: attachments_max files a peer; pieces of attachment_piece_bytes_max, but for the last one
// of a file. What is fetched is kept only when it has the hash, and grows no further than its
// `bytes_max`.
// Thread: the network thread. Cost: one SHA-256 of the file where it is fetched.

#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/membership/authorizer.h"
#include "dedloc/p2p/host.h"

namespace dedloc::membership {

inline constexpr std::size_t attachments_max = 16;  // more are our own bug
inline constexpr std::size_t attachment_piece_bytes_max = 256u << 10;
inline constexpr const char* attachment_method = "/dedloc/attachment/1";

struct Attachment {
    Digest hash;  // SHA-256 of the bytes
    SharedBytes bytes;
};

// The proof that a peer that is no member yet shows with a question about the file of that hash,
// and the check of it: denied.
Bytes proof_about(const Authorizer& authorizer,
                  const Digest& hash,
                  const PeerId& asker,
                  const PeerId& asked);
Ok check_proof_about(Authorizer& authorizer,
                     const Digest& hash,
                     const PeerId& asker,
                     const PeerId& asked,
                     ByteView proof);

// Serves from its construction to its destruction. Answers: not_found (not one of ours), denied
// (another run or secret), bad_input (offset behind the end).
class AttachmentServer {
  public:
    AttachmentServer(p2p::Host& host,
                     const Digest& run,
                     std::shared_ptr<Authorizer> authorizer,
                     std::vector<Attachment> attachments);
    ~AttachmentServer();
    AttachmentServer(const AttachmentServer&) = delete;
    AttachmentServer& operator=(const AttachmentServer&) = delete;

  private:
    p2p::Host& host_;
};

struct AttachmentWish {
    Digest run;
    std::shared_ptr<Authorizer> authorizer;
    std::vector<std::string> peers;  // multiaddrs to ask at
    Digest hash;
    std::size_t bytes_max = 0;
};

// From the first peer that has it whole. Who is connected is asked first, then the others in turn,
// each for its share of the time that is left. Errors: denied (wrong secret), not_found (nobody
// reached has it), peer_gone or timeout (nobody could be reached); the sentence names all who were
// asked.
Task<Result<Bytes>> fetch_attachment(p2p::Host& host, AttachmentWish wish, TimePoint deadline);

}  // namespace dedloc::membership
