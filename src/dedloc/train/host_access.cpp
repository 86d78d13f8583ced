#include "dedloc/train/host_access.h"

#include <utility>

#include "dedloc/admission/admission_client.h"
#include "dedloc/admission/book_issuer.h"
#include "dedloc/base/file.h"
#include "dedloc/run/join_string.h"
#include "dedloc/security/hash.h"

namespace dedloc::train {
namespace {

constexpr std::size_t key_bytes_max = 4096;
constexpr double seconds_per_hour = 3600;

Result<security::Identity> read_key(ByteView bytes, const std::string& where) {
    auto identity = security::Identity::from_private_key(bytes);
    if (!identity) return std::move(identity).error().with_context(where);
    return identity;
}

Result<HostAccess> secret_access(const collab::Node& node, const HostAccessOptions& options) {
    HostAccess access;
    if (options.open) return access;
    if (options.resumes) {
        auto kept = node.disk().read(std::string(secret_file));
        if (kept && kept->size() != run::run_secret_bytes)
            return make_error(ErrorKind::bad_input, "{} is no secret of a run", secret_file);
        if (!kept && kept.error().kind() != ErrorKind::not_found) return std::move(kept).error();
        if (kept) access.secret = *std::move(kept);
    }
    if (access.secret.empty()) access.secret = security::secure_random(run::run_secret_bytes);
    return access;
}

}  // namespace

Result<std::optional<security::Identity>> authority_in(const std::string& directory) {
    if (directory.empty()) return std::optional<security::Identity>();
    const std::string path = directory + "/" + std::string(authority_file);
    const auto text = base::read_file(path, key_bytes_max);
    if (!text && text.error().kind() == ErrorKind::not_found)
        return std::optional<security::Identity>();
    if (!text) return text.error();
    DEDLOC_TRY(security::Identity identity, read_key(as_bytes(*text), path));
    return std::optional(std::move(identity));
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

// The name under which people were let in before stays, unless another one is given.
Result<std::unique_ptr<admission::BookIssuer>> open_issuer(const collab::Node& node,
                                                           const Digest& run,
                                                           const security::Identity& key,
                                                           const HostAccessOptions& options) {
    admission::BookIssuer::Right right;
    right.signer = std::make_shared<security::IdentitySigner>(key);
    right.own_name = options.name;
    right.usual_name = options.usual_name;
    right.token_lifetime = options.token_hours * seconds_per_hour;
    return admission::BookIssuer::open(
        node.disk(), node.clock(), node.verifier(), run, std::move(right));
}

}  // namespace

Result<HostAccess> host_access(const collab::Node& node,
                               const run::RunFile& run,
                               const std::optional<security::Identity>& authority,
                               const HostAccessOptions& options) {
    if (!run.access) return secret_access(node, options);
    std::optional<security::Identity> key = authority;
    if (!key) {
        const auto bytes = node.disk().read(std::string(authority_file));
        if (bytes) {
            DEDLOC_TRY(key, read_key(*bytes, std::string(authority_file)));
        }
    }
    HostAccess access;
    if (auto kept = admission::kept_token(node.disk())) access.admitted = *std::move(kept);
    if (!key || key->id().text() != run.access->authority) {
        // A member takes the run up when the organiser is gone: it needs its own token.
        if (!access.admitted.token.empty()) return access;
        return make_error(ErrorKind::denied,
                          "this run lets in by invitation, and this peer's folder holds neither "
                          "the key of its authority ({}) nor a token: host it in the folder of the "
                          "organiser's peer, or of a member's",
                          authority_file);
    }
    const Bytes private_key = key->private_key();
    DEDLOC_TRY_VOID(node.disk().write_atomically(std::string(authority_file), private_key));
    DEDLOC_TRY(access.issuer, open_issuer(node, run::run_hash(run), *key, options));
    return access;
}

Result<ReachedRun> reach_run(const collab::Node& node,
                             const std::string& join_text,
                             Duration timeout,
                             const std::string& name,
                             const std::string& usual_name) {
    DEDLOC_TRY(const run::JoinString join, run::parse_join_string(join_text));
    ReachedRun reached;
    std::optional<admission::Admitted> own;
    if (const auto bytes = node.disk().read(std::string(authority_file))) {
        DEDLOC_TRY(const security::Identity key, read_key(*bytes, std::string(authority_file)));
        if (key.id() == join.authority) {
            HostAccessOptions options;
            options.name = name;
            options.usual_name = usual_name;
            DEDLOC_TRY(reached.issuer, open_issuer(node, join.run, key, options));
            own.emplace();
            DEDLOC_TRY(own->token, reached.issuer->own_token(node.id()));
        }
    }
    DEDLOC_TRY(reached.invitation,
               collab::fetch_invitation(node, join_text, timeout, std::move(own)));
    return reached;
}

Ok keep_secret(const collab::Node& node, ByteView secret) {
    if (secret.empty()) return {};
    return node.disk().write_atomically(std::string(secret_file), secret);
}

}  // namespace dedloc::train
