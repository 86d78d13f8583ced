#include "dedloc/peer/organiser_wish.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/run/join_string.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::peer {
namespace {

namespace fs = std::filesystem;

constexpr auto wish_look_time = std::chrono::milliseconds(50);
constexpr std::size_t refusal_bytes_max = 4096;
constexpr std::size_t wish_name_bytes = 8;  // of a wish's file
constexpr double seconds_per_day = 86'400;

}  // namespace

std::optional<Failure> grant_wish(const std::string& directory, const admission::Wish& wish) {
    const std::string folder = directory + "/" + std::string(admission::wishes_folder);
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return Failure{ExitCode::disk, "cannot make " + folder + ": " + error.message()};
    const Digest name = security::sha256(security::secure_random(wish_name_bytes));
    const std::string path = folder + "/" + name.short_hex();
    const Bytes bytes = wire::encode(wish);
    // Whole or not at all: a name beside it, which the peer does not look at.
    const Ok written = write_private_file(
        path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    if (!written) return failure(ExitCode::disk, written.error());
    const double until = steady_seconds() + wish_patience_s;
    while (fs::exists(path, error)) {
        if (steady_seconds() > until) {
            fs::remove(path, error);
            return Failure{ExitCode::unreachable,
                           "the peer in " + directory +
                               " did not answer: it is no organiser's (only the peer that began "
                               "the run, and those invited with --organiser, let people in)"};
        }
        std::this_thread::sleep_for(wish_look_time);
    }
    const std::string refused = path + std::string(admission::refusal_suffix);
    if (!fs::exists(refused, error)) return std::nullopt;
    const auto why = read_text_file(refused, refusal_bytes_max);
    fs::remove(refused, error);
    return Failure{ExitCode::bad_input, why ? *why : why.error().message()};
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
