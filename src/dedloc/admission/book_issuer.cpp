#include "dedloc/admission/book_issuer.h"

#include <algorithm>

#include "dedloc/base/composed.h"
#include "dedloc/wire/message.h"

namespace dedloc::admission {

using admission::InviteBook;

Result<std::unique_ptr<BookIssuer>> BookIssuer::open(runtime::Disk& disk,
                                                     const runtime::Clock& clock,
                                                     const security::Verifier& verifier,
                                                     const Digest& run,
                                                     Right right) {
    InviteBook book(run);
    const auto bytes = disk.read(std::string(book_file));
    if (bytes) {
        DEDLOC_TRY(book, InviteBook::decode(*bytes, run));
    } else if (bytes.error().kind() != ErrorKind::not_found) {
        return bytes.error();
    }
    book.set_token_lifetime(right.token_lifetime);
    if (right.own_name.empty()) right.own_name = book.organiser();
    if (right.own_name.empty()) right.own_name = right.usual_name;
    right.own_name = base::composed(right.own_name);
    if (book.organiser() != right.own_name) {
        book.set_organiser(right.own_name);
        DEDLOC_TRY_VOID(disk.write_atomically(std::string(book_file), book.encode()));
    }
    return std::unique_ptr<BookIssuer>(
        new BookIssuer(disk, clock, verifier, run, std::move(right), std::move(book)));
}

BookIssuer::BookIssuer(runtime::Disk& disk,
                       const runtime::Clock& clock,
                       const security::Verifier& verifier,
                       const Digest& run,
                       Right right,
                       InviteBook book)
    : disk_(disk),
      clock_(clock),
      verifier_(verifier),
      run_(run),
      right_(std::move(right)),
      book_(std::move(book)) {}

Ok BookIssuer::keep(InviteBook next) {
    DEDLOC_TRY_VOID(disk_.write_atomically(std::string(book_file), next.encode()));
    book_ = std::move(next);
    return {};
}

// Only the authority makes co-organisers.
Issued BookIssuer::with_delegation(admission::Token token, const PeerId& peer) const {
    Issued issued{.token = std::move(token)};
    const auto person = book_.people().find(issued.token.subject);
    if (!right_.delegation && person != book_.people().end() && person->second.organises)
        issued.delegation =
            admission::delegate_to(*right_.signer,
                                   run_,
                                   {.subject = issued.token.subject,
                                    .issuer = peer,
                                    .named_by = right_.own_name,
                                    .not_after = clock_.wall_now() + delegation_lifetime});
    return issued;
}

Result<Issued> BookIssuer::redeem(ByteView code, const PeerId& peer) {
    InviteBook next = book_;
    DEDLOC_TRY(admission::Token token,
               next.redeem(code, peer, clock_.wall_now(), *right_.signer, right_.delegation));
    DEDLOC_TRY_VOID(keep(std::move(next)));
    return with_delegation(std::move(token), peer);
}

Result<Issued> BookIssuer::renew(ByteView token,
                                 const PeerId& peer,
                                 const admission::Rules& rules) {
    InviteBook next = book_;
    DEDLOC_TRY(
        admission::Token fresh,
        next.renew(
            token, peer, clock_.wall_now(), rules, *right_.signer, verifier_, right_.delegation));
    DEDLOC_TRY_VOID(keep(std::move(next)));
    return with_delegation(std::move(fresh), peer);
}

// A book that cannot be written knows them as long as this process lives.
void BookIssuer::met(const std::string& person,
                     const PeerId& device,
                     const std::string& let_in_by) {
    // A co-organiser's token says nobody where the organiser signed it.
    const bool by_organiser = let_in_by.empty() && right_.delegation;
    const std::string& by = by_organiser ? right_.delegation->named_by : let_in_by;
    if (by.empty() || by == right_.own_name || !book_.meet(person, device, by)) return;
    (void)disk_.write_atomically(std::string(book_file), book_.encode());
}

void BookIssuer::revoked(const std::string& person) {
    if (person == right_.own_name || !book_.receive_revocation(person)) return;
    (void)disk_.write_atomically(std::string(book_file), book_.encode());
}

Result<Bytes> BookIssuer::own_token(const PeerId& self) {
    const admission::Grant grant{
        .subject = right_.own_name, .holder = self, .lifetime = right_.token_lifetime};
    DEDLOC_TRY(
        const admission::Token token,
        admission::issue_token(*right_.signer, run_, grant, clock_.wall_now(), right_.delegation));
    return admission::encode_token(token);
}

Ok BookIssuer::check_may_revoke(const std::string& name) const {
    if (name == right_.own_name)
        return make_error(ErrorKind::bad_input,
                          "{} organises the run from this machine; revoke others, or end the run",
                          name);
    if (right_.delegation && name == right_.delegation->named_by)
        return make_error(ErrorKind::denied,
                          "{} began the run: a co-organiser cannot revoke its organiser",
                          name);
    return {};
}

// However a keyboard wrote the name: it is read off a screen and typed again.
Ok BookIssuer::grant(Wish wish) {
    wish.name = base::composed(wish.name);
    InviteBook next = book_;
    if (wish.kind == WishKind::revoke) {
        DEDLOC_TRY_VOID(check_may_revoke(wish.name));
        DEDLOC_TRY_VOID(next.revoke(wish.name));
        return keep(std::move(next));
    }
    if (wish.kind != WishKind::invite)
        return make_error(ErrorKind::bad_input, "a wish for nothing");
    DEDLOC_TRY_VOID(next.invite(
        wish.name, wish.code_hash, clock_.wall_now(), static_cast<WallSeconds>(wish.lifetime)));
    if (wish.organises) {
        if (right_.delegation)
            return make_error(ErrorKind::denied,
                              "only the machine that began the run can make co-organisers");
        DEDLOC_TRY_VOID(next.let_organise(wish.name));
    }
    return keep(std::move(next));
}

// A command reads the refusal when its wish is gone.
void BookIssuer::grant_wishes() {
    const std::string folder(wishes_folder);
    const auto names = disk_.list(folder);
    if (!names) return;
    std::size_t granted = 0;
    for (const std::string& name : *names) {
        if (name.find('.') != std::string::npos) continue;  // a refusal, or not whole yet
        if (++granted > wishes_at_once_max) return;
        const std::string path = folder + "/" + name;
        const auto bytes = disk_.read(path);
        if (!bytes) continue;
        const ByteView text(*bytes);
        const auto wish = wire::decode<Wish>(text.first(std::min(text.size(), wish_bytes_max)));
        const Ok done = wish ? grant(*wish) : Ok(wish.error());
        if (!done) {
            const std::string& why = done.error().message();
            (void)disk_.write_atomically(path + std::string(refusal_suffix), as_bytes(why));
        }
        (void)disk_.remove(path);
    }
}

std::vector<Bytes> BookIssuer::poll() {
    grant_wishes();
    std::vector<Bytes> revoked;
    for (const std::string& name : book_.revoked()) {
        Bytes& known = signed_revocations_[name];
        if (known.empty())
            known = admission::revoke_subject(
                *right_.signer, run_, name, clock_.wall_now(), right_.delegation);
        revoked.push_back(known);
    }
    return revoked;
}

}  // namespace dedloc::admission
