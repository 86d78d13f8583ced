#include "dedloc/peer/organiser.h"

#include <filesystem>

#include "dedloc/admission/admission_client.h"
#include "dedloc/admission/book_issuer.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/run/join_string.h"
#include "dedloc/security/hash.h"

namespace dedloc::peer {
namespace {

constexpr std::size_t key_bytes_max = 4096;
constexpr double seconds_per_hour = 3600;

std::string path_of(const std::string& directory, std::string_view name) {
    return directory + "/" + std::string(name);
}

bool is_there(const std::string& path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
}

Result<Bytes> kept_secret(const std::string& directory) {
    DEDLOC_TRY(const std::string text,
               read_text_file(path_of(directory, secret_file), 2 * run::run_secret_bytes));
    Bytes secret = to_bytes(text);
    if (secret.size() != run::run_secret_bytes)
        return make_error(
            ErrorKind::bad_input, "{} is no secret of a run", path_of(directory, secret_file));
    return secret;
}

}  // namespace

Result<std::optional<security::Identity>> authority_in(const std::string& directory) {
    const std::string path = path_of(directory, authority_file);
    if (directory.empty() || !is_there(path)) return std::optional<security::Identity>();
    DEDLOC_TRY(const std::string text, read_text_file(path, key_bytes_max));
    auto identity = security::Identity::from_private_key(as_bytes(text));
    if (!identity) return std::move(identity).error().with_context(path);
    return std::optional(*std::move(identity));
}

Result<std::optional<security::Identity>> give_authority(run::RunFile& run,
                                                         const std::string& admit,
                                                         const std::string& directory) {
    if (run.access && admit != "list" && !admit.empty())
        return make_error(ErrorKind::bad_input,
                          "the run file has [access], which lets in by invitation; --admit {} "
                          "needs one without it",
                          admit);
    if (run.access || admit != "list") return std::optional<security::Identity>();
    DEDLOC_TRY(std::optional<security::Identity> authority, authority_in(directory));
    if (!authority) authority = security::Identity::generate();
    run.access = run::AccessConfig{.authority = authority->id().text()};
    return authority;
}

namespace {

Result<HostAccess> secret_access(const std::string& directory, const HostAccessOptions& options) {
    HostAccess access;
    if (options.open) return access;
    const bool was_there = options.resumes && is_there(path_of(directory, secret_file));
    if (was_there) {
        DEDLOC_TRY(access.secret, kept_secret(directory));
    } else {
        access.secret = security::secure_random(run::run_secret_bytes);
    }
    return access;
}

}  // namespace

Result<HostAccess> host_access(const collab::Node& node,
                               const std::string& directory,
                               const run::RunFile& run,
                               const std::optional<security::Identity>& authority,
                               const HostAccessOptions& options) {
    if (!run.access) return secret_access(directory, options);
    std::optional<security::Identity> key = authority;
    if (!key) {
        DEDLOC_TRY(key, authority_in(directory));
    }
    HostAccess access;
    if (auto kept = admission::kept_token(node.disk())) access.admitted = *std::move(kept);
    if (!key || key->id().text() != run.access->authority) {
        // A member takes the run up when the organiser is gone: it needs its own token.
        if (!access.admitted.token.empty()) return access;
        return make_error(ErrorKind::denied,
                          "this run lets in by invitation, and {} holds neither the key of its "
                          "authority ({}) nor a token: host it in the folder of the organiser's "
                          "peer, or of a member's",
                          directory,
                          authority_file);
    }
    const Bytes private_key = key->private_key();
    DEDLOC_TRY_VOID(write_private_file(
        path_of(directory, authority_file),
        std::string_view(reinterpret_cast<const char*>(private_key.data()), private_key.size())));
    admission::BookIssuer::Right right;
    right.signer = std::make_shared<security::IdentitySigner>(*key);
    right.own_name = options.name;
    right.token_lifetime = options.token_hours * seconds_per_hour;
    DEDLOC_TRY(
        access.issuer,
        admission::BookIssuer::open(
            node.disk(), node.clock(), node.verifier(), run::run_hash(run), std::move(right)));
    return access;
}

Ok keep_secret(const std::string& directory, ByteView secret) {
    if (secret.empty()) return {};
    return write_private_file(
        path_of(directory, secret_file),
        std::string_view(reinterpret_cast<const char*>(secret.data()), secret.size()));
}

}  // namespace dedloc::peer
