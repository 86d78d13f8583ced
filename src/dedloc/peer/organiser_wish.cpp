#include "dedloc/peer/organiser_wish.h"

#include <fmt/format.h>

#include "dedloc/peer/file_request.h"
#include "dedloc/run/join_string.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::peer {
namespace {

constexpr double seconds_per_day = 86'400;

}  // namespace

std::optional<Failure> grant_wish(const std::string& directory, const admission::Wish& wish) {
    const Bytes bytes = wire::encode(wish);
    const Ok granted = ask_by_file(
        directory + "/" + std::string(admission::wishes_folder),
        std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
        wish_timeout_s,
        fmt::format("the peer in {} did not answer: it is no organiser's (only the peer that "
                    "began the run, and those invited with --organiser, let people in)",
                    directory));
    if (granted) return std::nullopt;
    const ErrorKind kind = granted.error().kind();
    return failure(kind == ErrorKind::timeout       ? ExitCode::unreachable
                   : kind == ErrorKind::local_fault ? ExitCode::disk
                                                    : ExitCode::bad_input,
                   granted.error());
}

Outcome<std::string> personal_string(const std::string& directory,
                                     const std::string& join_string,
                                     const std::string& name,
                                     double days,
                                     bool organises) {
    auto join = run::parse_join_string(join_string);
    if (!join) return failure(join.error());
    join->code = security::secure_random(run::invitation_code_bytes);
    admission::Wish wish;
    wish.kind = admission::WishKind::invite;
    wish.name = name;
    wish.code_hash = security::sha256(join->code);
    wish.lifetime = static_cast<std::uint64_t>(days * seconds_per_day);
    wish.organises = organises;
    if (auto refused = grant_wish(directory, wish)) return *std::move(refused);
    return run::to_text(*join);
}

std::optional<Failure> revoke_person(const std::string& directory, const std::string& name) {
    admission::Wish wish;
    wish.kind = admission::WishKind::revoke;
    wish.name = name;
    return grant_wish(directory, wish);
}

}  // namespace dedloc::peer
