// BookIssuer: an organiser's machine lets in whom its book of invitations names.
//
//   invitations        the book (admission/invite_book.h)
//   wishes/<name>      what a command on this machine asks for: an invitation, a revocation
//   wishes/<name>.no   why it was refused
//
// The running peer alone writes the book; it looks for wishes and takes each away when it is done,
// so that commands need no connection to it and no lock.
//
// Thread: the network thread. The files are small, and written only when somebody is let in.

#pragma once
#include <map>
#include <memory>
#include <string>

#include "dedloc/admission/invite_book.h"
#include "dedloc/admission/issuer.h"
#include "dedloc/base/fields.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/disk.h"
#include "dedloc/security/signer.h"

namespace dedloc::admission {

inline constexpr std::string_view book_file = "invitations";
inline constexpr std::string_view wishes_folder = "wishes";
inline constexpr std::string_view refusal_suffix = ".no";
inline constexpr std::size_t wish_bytes_max = 1024;
inline constexpr std::size_t wishes_at_once_max = 64;  // of one look; the rest waits
// How long a co-organiser may let people in; it is extended whenever its token is renewed.
inline constexpr WallSeconds delegation_lifetime = 14 * 24 * 3600.0;

enum class WishKind : std::uint32_t { none = 0, invite = 1, revoke = 2 };

struct Wish {
    WishKind kind = WishKind::none;
    std::string name;
    Digest code_hash;            // of an invitation
    std::uint64_t lifetime = 0;  // of it, seconds
    bool organises = false;

    DEDLOC_FIELDS(kind, name, code_hash, lifetime, organises)
};

class BookIssuer final : public Issuer {
  public:
    struct Right {
        std::shared_ptr<const security::Signer> signer;  // the authority's, or this peer's with
        std::optional<admission::Delegation> delegation{};
        std::string own_name{};  // the organiser's; empty: as the book says, else the usual one
        std::string usual_name{};
        WallSeconds token_lifetime = admission::token_lifetime;
    };
    // Reads the book, or begins one. Errors: as InviteBook::decode; local_fault.
    static Result<std::unique_ptr<BookIssuer>> open(runtime::Disk& disk,
                                                    const runtime::Clock& clock,
                                                    const security::Verifier& verifier,
                                                    const Digest& run,
                                                    Right right);

    Result<Issued> redeem(ByteView code, const PeerId& peer) override;
    Result<Issued> renew(ByteView token,
                         const PeerId& peer,
                         const admission::Rules& rules) override;
    void met(const std::string& person,
             const PeerId& device,
             const std::string& let_in_by) override;
    void revoked(const std::string& person) override;
    bool is_delegated() const override { return right_.delegation.has_value(); }
    Result<Bytes> own_token(const PeerId& self) override;
    std::vector<Bytes> poll() override;

    const admission::InviteBook& book() const { return book_; }

  private:
    BookIssuer(runtime::Disk& disk,
               const runtime::Clock& clock,
               const security::Verifier& verifier,
               const Digest& run,
               Right right,
               admission::InviteBook book);
    // Writes the book as `next` and keeps it; on failure the old one stays.
    Ok keep(admission::InviteBook next);
    Ok grant(Wish wish);
    Ok check_may_revoke(const std::string& name) const;
    void grant_wishes();
    Issued with_delegation(admission::Token token, const PeerId& peer) const;

    runtime::Disk& disk_;
    const runtime::Clock& clock_;
    const security::Verifier& verifier_;
    Digest run_;
    Right right_;
    admission::InviteBook book_;
    std::map<std::string, Bytes> signed_revocations_;  // by name
};

}  // namespace dedloc::admission
