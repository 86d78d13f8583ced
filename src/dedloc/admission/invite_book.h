// InviteBook: what an organiser's machine remembers of the people it lets in: names, the codes that
// it gave them, the devices that redeemed those, and who was revoked.
//
//   invite(name, code)   notes a code for one device, which goes to that person in a join string
//   redeem(code, peer)   a token bound to the peer's key; once. The same peer may ask again, as the
//                        answer may have been lost on the way
//   renew(token, peer)   a newer token for a device whose old one any issuer of the run has signed
//   meet(name, device)   notes somebody whom a co-organiser let in, once members have met them:
//   this
//                        organiser renews their tokens, too, and can revoke them
//   revoke(name)         no more tokens for this person
//
// Codes are kept as hashes: who reads the book cannot join with what stands in it. The book is a
// value: its owner writes encode() to disk after each change and before it answers.
//
// Errors: bad_input (names), conflict (an order that makes no sense: already revoked), not_found
// (no such person), denied (codes; with a sentence for the volunteer). Limits: people_max,
// devices_max, codes_open_max. Cost: linear in the number of codes. Thread: any; not shared.

#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dedloc/admission/token.h"
#include "dedloc/base/fields.h"

namespace dedloc::admission {

inline constexpr std::size_t people_max = 4096;    // names in one book
inline constexpr std::size_t devices_max = 64;     // keys of one person: a class room's computers
inline constexpr std::size_t organisers_max = 8;   // beside the authority: each can let anybody in
inline constexpr std::size_t codes_open_max = 64;  // of one person, not redeemed yet
// Let in by others: a co-organiser who lets in thousands must not take all the room of a book.
inline constexpr std::size_t met_people_max = people_max / 2;
inline constexpr std::size_t code_bytes = 16;  // nobody guesses one
inline constexpr WallSeconds code_lifetime = 7 * 24 * 3600.0;
inline constexpr std::size_t book_bytes_max = 64u << 20;
// A device that was away for longer asks for a new invitation: its key may have been lost.
inline constexpr WallSeconds renewal_max = 90 * 24 * 3600.0;

struct Code {
    Digest hash;
    std::uint64_t not_after = 0;
    std::uint32_t redeemed = 0;  // 1: by `device`
    PeerId device{};

    DEDLOC_FIELDS(hash, not_after, redeemed, device)
};

struct Person {
    std::string name;
    std::vector<Code> codes;
    bool revoked = false;
    bool organises = false;     // their devices may let people in, too
    std::vector<PeerId> met{};  // devices that another organiser let in
    std::string let_in_by{};    // the first of those; empty: invited with this book

    DEDLOC_FIELDS(name,
                  (codes, devices_max + codes_open_max),
                  revoked,
                  organises,
                  (met, devices_max),
                  let_in_by)

    std::size_t redeemed() const;  // codes
    std::size_t devices() const { return redeemed() + met.size(); }
    bool has(const PeerId& device) const;
};

class InviteBook {
  public:
    explicit InviteBook(const Digest& run) : run_(run) {}
    // bad_input: no book; conflict: the book of another run.
    static Result<InviteBook> decode(ByteView bytes, const Digest& run);
    Bytes encode() const;

    // `code` is fresh randomness of code_bytes, which only its receiver ever has again.
    Ok invite(const std::string& name, ByteView code, WallSeconds now, WallSeconds lifetime);
    // The same, where only the SHA-256 of the code is known.
    Ok invite(const std::string& name, const Digest& hash, WallSeconds now, WallSeconds lifetime);
    // The person may let others in from now on. overloaded: organisers_max do already.
    Ok let_organise(const std::string& name);
    // A member of that name showed a token that `by` signed; empty: this organiser. True: that is
    // news. Where there is no room for it, it is forgotten.
    bool meet(const std::string& name, const PeerId& device, const std::string& by);
    // The person of a device; null: of nobody in this book.
    const Person* person_of(const PeerId& device) const;
    Result<Token> redeem(ByteView code,
                         const PeerId& peer,
                         WallSeconds now,
                         const security::Signer& signer,
                         const std::optional<Delegation>& delegation);
    Result<Token> renew(ByteView old_token,
                        const PeerId& peer,
                        WallSeconds now,
                        const Rules& rules,
                        const security::Signer& signer,
                        const security::Verifier& verifier,
                        const std::optional<Delegation>& delegation);
    Ok revoke(const std::string& name);
    // The same, of a person whom another organiser has revoked. True: it is news.
    bool receive_revocation(const std::string& name);

    // The lifetime of the tokens that it gives; not kept with the book.
    void set_token_lifetime(WallSeconds lifetime) { token_lifetime_ = lifetime; }

    // The name of the one whose book it is.
    void set_organiser(std::string name) { organiser_ = std::move(name); }
    const std::string& organiser() const { return organiser_; }

    const std::map<std::string, Person>& people() const { return people_; }
    std::set<std::string> revoked() const;

  private:
    struct Found {
        Person* person;
        Code* code;
    };
    std::optional<Found> find(const Digest& hash);
    Result<Token> give(const std::string& name,
                       const PeerId& peer,
                       WallSeconds now,
                       const security::Signer& signer,
                       const std::optional<Delegation>& delegation);

    Digest run_;
    bool has_room_for_met() const;

    std::string organiser_;
    std::uint64_t serial_ = 0;  // of the newest token
    std::map<std::string, Person> people_;
    WallSeconds token_lifetime_ = token_lifetime;
};

// One name a line; blank lines and those that begin with # do not count. bad_input names the line:
// a name twice, or one that is none.
Result<std::vector<std::string>> parse_list_of_names(std::string_view text);

}  // namespace dedloc::admission
