#include "dedloc/admission/invite_book.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/fields.h"
#include "dedloc/base/text_lines.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::admission {

namespace {

struct StoredBook {
    Digest run;
    std::uint64_t serial = 0;
    std::vector<Person> people;
    std::string organiser{};

    DEDLOC_FIELDS(run, serial, (people, people_max), organiser)
};

Error refused_code(std::string_view why) {
    return make_error(ErrorKind::denied, "{}: ask the organiser for a new join string", why);
}

}  // namespace

std::size_t Person::redeemed() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(codes, [](const Code& code) { return code.redeemed != 0; }));
}

bool Person::has(const PeerId& device) const {
    return std::ranges::find(met, device) != met.end() ||
           std::ranges::any_of(codes, [&device](const Code& code) {
               return code.redeemed != 0 && code.device == device;
           });
}

Result<InviteBook> InviteBook::decode(ByteView bytes, const Digest& run) {
    if (bytes.size() > book_bytes_max)
        return make_error(ErrorKind::bad_input, "the book of invitations is too large to be one");
    auto stored = wire::decode<StoredBook>(bytes);
    if (!stored) return std::move(stored).error().with_context("the book of invitations");
    if (stored->run != run)
        return make_error(ErrorKind::conflict,
                          "the book of invitations is of run {}, this is run {}",
                          stored->run.short_hex(),
                          run.short_hex());
    InviteBook book(run);
    book.serial_ = stored->serial;
    if (check_subject(stored->organiser)) book.organiser_ = std::move(stored->organiser);
    for (Person& person : stored->people) {
        DEDLOC_TRY_VOID(check_subject(person.name));
        std::string name = person.name;
        if (!book.people_.emplace(std::move(name), std::move(person)).second)
            return make_error(ErrorKind::bad_input, "the book of invitations names somebody twice");
    }
    return book;
}

Bytes InviteBook::encode() const {
    StoredBook stored{run_, serial_, {}, organiser_};
    for (const auto& [name, person] : people_) stored.people.push_back(person);
    return wire::encode(stored);
}

Ok InviteBook::invite(const std::string& name,
                      ByteView code,
                      WallSeconds now,
                      WallSeconds lifetime) {
    DEDLOC_CHECK(code.size() == code_bytes);
    return invite(name, security::sha256(code), now, lifetime);
}

Ok InviteBook::invite(const std::string& name,
                      const Digest& hash,
                      WallSeconds now,
                      WallSeconds lifetime) {
    DEDLOC_TRY_VOID(check_subject(name));
    if (!(lifetime > 0) || lifetime > renewal_max)
        return make_error(ErrorKind::bad_input,
                          "an invitation is good for at most {}",
                          duration_in_words(renewal_max));
    if (!people_.contains(name) && people_.size() >= people_max)
        return make_error(ErrorKind::overloaded, "the book holds {} people", people_max);
    Person& person = people_[name];
    person.name = name;
    if (person.revoked)
        return make_error(ErrorKind::conflict,
                          "{} was revoked; invite under another name to let them in again",
                          name);
    // A code that nobody redeemed in time only takes room.
    std::erase_if(person.codes, [now](const Code& old) {
        return old.redeemed == 0 && static_cast<WallSeconds>(old.not_after) < now;
    });
    person.let_in_by.clear();
    const std::size_t open = person.codes.size() - person.redeemed();
    if (open >= codes_open_max || person.devices() >= devices_max)
        return make_error(ErrorKind::overloaded,
                          "{} has {} devices and {} invitations that wait to be used",
                          name,
                          person.devices(),
                          open);
    person.codes.push_back({hash, static_cast<std::uint64_t>(now + lifetime)});
    return {};
}

Ok InviteBook::let_organise(const std::string& name) {
    const auto found = people_.find(name);
    if (found == people_.end())
        return make_error(ErrorKind::not_found, "nobody called \"{}\" was invited", name);
    const auto organising =
        std::ranges::count_if(people_, [](const auto& entry) { return entry.second.organises; });
    if (!found->second.organises && static_cast<std::size_t>(organising) >= organisers_max)
        return make_error(ErrorKind::overloaded,
                          "{} people organise this run already, as many as may",
                          organisers_max);
    found->second.organises = true;
    return {};
}

const Person* InviteBook::person_of(const PeerId& device) const {
    for (const auto& [name, person] : people_)
        if (person.has(device)) return &person;
    return nullptr;
}

bool InviteBook::has_room_for_met() const {
    const auto met = std::ranges::count_if(
        people_, [](const auto& entry) { return !entry.second.let_in_by.empty(); });
    return static_cast<std::size_t>(met) < met_people_max && people_.size() < people_max;
}

bool InviteBook::meet(const std::string& name, const PeerId& device, const std::string& by) {
    if (by.empty() || !check_subject(name)) return false;
    auto found = people_.find(name);
    if (found == people_.end()) {
        if (!has_room_for_met()) return false;
        found = people_.emplace(name, Person{.name = name, .codes = {}, .let_in_by = by}).first;
    }
    Person& person = found->second;
    if (person.has(device) || person.devices() >= devices_max) return false;
    person.met.push_back(device);
    return true;
}

std::optional<InviteBook::Found> InviteBook::find(const Digest& hash) {
    for (auto& [name, person] : people_)
        for (Code& code : person.codes)
            if (code.hash == hash) return Found{&person, &code};
    return std::nullopt;
}

Result<Token> InviteBook::give(const std::string& name,
                               const PeerId& peer,
                               WallSeconds now,
                               const security::Signer& signer,
                               const std::optional<Delegation>& delegation) {
    const Grant grant{
        .subject = name, .holder = peer, .lifetime = token_lifetime_, .serial = ++serial_};
    return issue_token(signer, run_, grant, now, delegation);
}

Result<Token> InviteBook::redeem(ByteView code,
                                 const PeerId& peer,
                                 WallSeconds now,
                                 const security::Signer& signer,
                                 const std::optional<Delegation>& delegation) {
    const auto found = find(security::sha256(code));
    if (!found)
        return make_error(ErrorKind::denied,
                          "this organiser gave out no such invitation: it is good while the "
                          "organiser who did is there; otherwise ask for a new join string");
    Code& entry = *found->code;
    if (found->person->revoked)
        return refused_code(fmt::format("the invitation of {} was revoked", found->person->name));
    if (entry.redeemed != 0 && entry.device != peer)
        return refused_code("the invitation was used on another device, and is good for one");
    if (entry.redeemed == 0) {
        const auto ended = static_cast<WallSeconds>(entry.not_after);
        if (now > ended)
            return refused_code(
                fmt::format("the invitation ended {} ago", duration_in_words(now - ended)));
        entry.redeemed = 1;
        entry.device = peer;
    }
    return give(found->person->name, peer, now, signer, delegation);
}

Result<Token> InviteBook::renew(ByteView old_token,
                                const PeerId& peer,
                                WallSeconds now,
                                const Rules& rules,
                                const security::Signer& signer,
                                const security::Verifier& verifier,
                                const std::optional<Delegation>& delegation) {
    Rules now_in_force = rules;
    now_in_force.revoked.merge(revoked());
    const Person* const known = person_of(peer);
    const auto decoded =
        wire::decode<Token>(old_token.first(std::min(old_token.size(), token_bytes_max)));
    const bool is_known = known != nullptr && decoded && known->name == decoded->subject;
    const TokenCheck checked =
        verify_old_token(old_token, peer, now, now_in_force, verifier, is_known);
    if (!checked) return checked.refused().as_error();
    const auto ended = static_cast<WallSeconds>(checked.token().not_after);
    if (now - ended > renewal_max)
        return refused_code(
            fmt::format("the token expired {} ago", duration_in_words(now - ended)));
    return give(checked.token().subject, peer, now, signer, delegation);
}

Ok InviteBook::revoke(const std::string& name) {
    const auto found = people_.find(name);
    if (found == people_.end())
        return make_error(
            ErrorKind::not_found,
            "nobody called \"{}\" was invited from this machine, and members have met nobody of "
            "that name",
            name);
    if (found->second.revoked)
        return make_error(ErrorKind::conflict, "{} is revoked already", name);
    found->second.revoked = true;
    return {};
}

bool InviteBook::receive_revocation(const std::string& name) {
    if (!check_subject(name)) return false;
    if (!people_.contains(name) && people_.size() >= people_max) return false;
    Person& person = people_[name];
    person.name = name;
    return !std::exchange(person.revoked, true);
}

std::set<std::string> InviteBook::revoked() const {
    std::set<std::string> names;
    for (const auto& [name, person] : people_)
        if (person.revoked) names.insert(name);
    return names;
}

Result<std::vector<std::string>> parse_list_of_names(std::string_view text) {
    std::vector<std::string> names;
    std::set<std::string> seen;
    DEDLOC_TRY(base::TextLines lines, base::TextLines::of(text));
    while (auto line = lines.next()) {
        if (line->text.front() == '#') continue;
        if (const Ok good = check_subject(line->text); !good)
            return good.error().with_context(fmt::format("line {}", line->number));
        if (!seen.insert(line->text).second)
            return make_error(
                ErrorKind::bad_input, "line {}: {} is there twice", line->number, line->text);
        names.push_back(std::move(line->text));
    }
    return names;
}

}  // namespace dedloc::admission
