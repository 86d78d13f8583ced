#include "dedloc/collab/collaboration_service.h"

#include <algorithm>
#include <optional>

#include "dedloc/admission/admission_client.h"
#include "dedloc/admission/token_authorizer.h"
#include "dedloc/membership/handshake.h"
#include "dedloc/membership/peers_to_dial.h"
#include "dedloc/membership/secret_authorizer.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/together.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {

namespace {

// Some of the peers that a join string names may be gone: nobody waits for them.
constexpr Duration next_one_after = 300ms;
// Somebody who presses Ctrl-C is heard within 0.3 s.
constexpr auto goes_on_interval = std::chrono::milliseconds(50);

// A peer that was given a string with such addresses alone is mostly not in that network.
std::string what_may_help(const std::vector<std::string>& addresses) {
    if (std::ranges::any_of(addresses, membership::leads_out))
        return "\nA fresh join string (`dedloc invite` on a machine of the run) may help.";
    return "\nThese are private addresses, which lead there only from the same network. A fresh "
           "join string (`dedloc invite` on a machine of the run) may have others; docs/nat.md "
           "says what else helps.";
}

Error other_version(const PeerId& peer, std::string_view release, std::string_view why) {
    return make_error(ErrorKind::conflict,
                      "peer {} answers, but its run file is of another version of dedloc ({}): "
                      "get the version that the host has{}",
                      peer.short_text(),
                      why,
                      release.empty() ? "" : fmt::format(", which says that it is {}", release));
}

// A peer of our own numerics sends what can be read here, and is then written as it came
// (run/first_keys.h).
Task<Result<run::RunFile>> ask_run_file(p2p::Host& host,
                                        std::string address,
                                        Digest run,
                                        std::shared_ptr<membership::Authorizer> authorizer,
                                        TimePoint deadline) {
    auto peer = co_await host.dial(address, deadline);
    if (!peer) co_return std::move(peer).error();
    const PeerId id = *peer;
    Bytes nonce = security::secure_random(membership::hello_nonce_bytes);
    auto said = co_await membership::say_hello(host, id, *authorizer, std::move(nonce), deadline);
    if (!said) co_return std::move(said).error();
    const std::string release = said->protocols.printable_release();
    membership::HelloMessage question = std::move(said->prove);
    question.run = run;
    question.wants_run_file = 1;
    std::string method = membership::prove_method;
    Bytes bytes = wire::encode(question);
    auto answer_bytes = co_await host.call(id, std::move(method), std::move(bytes), deadline);
    if (!answer_bytes) co_return std::move(answer_bytes).error();
    DEDLOC_CO_TRY(const membership::HelloMessage answer,
                  wire::decode<membership::HelloMessage>(*answer_bytes));
    auto parsed = run::parse_run_file(answer.run_file, "its run file");
    if (!parsed) co_return other_version(id, release, parsed.error().message());
    if (run::run_hash(*parsed) == run) co_return *std::move(parsed);
    if (security::sha256(as_bytes(answer.run_file)) == run)
        co_return other_version(id, release, "this one writes the same run differently");
    co_return make_error(ErrorKind::conflict,
                         "peer {} trains another run than the join string names; ask for a fresh "
                         "join string",
                         id.short_text());
}

struct RunFileSearch {
    explicit RunFileSearch(runtime::Executor executor) : ended(executor) {}
    runtime::Event ended;  // `found` is there
    std::optional<run::RunFile> found;
    Error last = make_error(ErrorKind::bad_input, "the join string names no address");
    std::string reasons;
};

Task<void> ask_in_turn(p2p::Host& host,
                       runtime::Clock& clock,
                       std::string address,
                       Digest run,
                       std::shared_ptr<membership::Authorizer> authorizer,
                       TimePoint turn,
                       TimePoint deadline,
                       RunFileSearch& search) {
    co_await clock.sleep_until(turn);
    auto answer = co_await ask_run_file(host, address, run, std::move(authorizer), deadline);
    if (answer) {
        search.found = *std::move(answer);
        search.ended.set();
        co_return;
    }
    search.reasons += fmt::format("\n  {}: {}", address, answer.error().message());
    // If no peer has this run's file, the error that one trains another run, or is of another
    // version, says most.
    const ErrorKind before = search.last.kind();
    const bool says_less =
        before != ErrorKind::conflict &&
        (before != ErrorKind::denied || answer.error().kind() == ErrorKind::conflict);
    if (says_less) search.last = std::move(answer).error();
}

}  // namespace

Task<Result<run::RunFile>> fetch_run_file(p2p::Host& host,
                                          runtime::Clock& clock,
                                          run::JoinString join,
                                          std::shared_ptr<membership::Authorizer> authorizer,
                                          TimePoint deadline) {
    RunFileSearch search(host.executor());
    std::vector<Task<void>> asks;
    TimePoint turn = clock.now();
    for (const std::string& address : membership::peers_to_dial(host, join.addresses)) {
        asks.push_back(
            ask_in_turn(host, clock, address, join.run, authorizer, turn, deadline, search));
        turn = turn + next_one_after;
    }
    Task<void> all = runtime::all_of(std::move(asks));
    co_await runtime::first_of(std::move(all), search.ended.wait());
    if (search.found) co_return *std::move(search.found);
    const ErrorKind kind = search.last.kind();
    if (kind == ErrorKind::conflict || kind == ErrorKind::denied) co_return std::move(search.last);
    co_return make_error(search.last.kind(),
                         "no peer of the run gave its run file; is one running, and can this "
                         "machine reach it?{}{}",
                         search.reasons,
                         what_may_help(join.addresses));
}

namespace {

// Waits for a task of the network thread for as long as `goes_on` says. The task owns what it uses:
// it runs on until the node ends.
template <typename T>
Result<T> wait_while(std::future<Result<T>> task, const std::function<bool()>& goes_on) {
    while (goes_on && task.wait_for(goes_on_interval) != std::future_status::ready)
        if (!goes_on())
            return make_error(ErrorKind::cancelled, "it was ended before it had the run's state");
    return runtime::wait_for_result(task);
}

std::shared_ptr<membership::Authorizer> authorizer_of(const Node& node,
                                                      const Digest& run,
                                                      const PeerId& authority,
                                                      const Invitation& invitation) {
    if (authority.is_empty())
        return std::make_shared<membership::SecretAuthorizer>(invitation.secret);
    auto authorizer =
        std::make_shared<admission::TokenAuthorizer>(run, authority, node.verifier(), node.clock());
    authorizer->set_own(invitation.admitted.token);
    return authorizer;
}

}  // namespace

Result<Invitation> fetch_invitation(const Node& node,
                                    const std::string& join_text,
                                    Duration timeout,
                                    std::optional<admission::Admitted> own,
                                    const std::function<bool()>& goes_on) {
    DEDLOC_TRY(run::JoinString join, run::parse_join_string(join_text));
    Invitation invitation;
    invitation.secret = join.secret;
    invitation.bootstrap = join.addresses;
    const TimePoint deadline = node.clock().now() + timeout;
    if (own) {
        invitation.admitted = *std::move(own);
    } else if (!join.authority.is_empty()) {
        auto token = admission::token_for(node.host(), node.disk(), join, deadline);
        DEDLOC_TRY(invitation.admitted,
                   wait_while(runtime::spawn_future(node.spawn(), "get a token", std::move(token)),
                              goes_on));
    }
    std::shared_ptr<membership::Authorizer> authorizer =
        authorizer_of(node, join.run, join.authority, invitation);
    auto file =
        fetch_run_file(node.host(), node.clock(), std::move(join), std::move(authorizer), deadline);
    DEDLOC_TRY(
        invitation.run,
        wait_while(runtime::spawn_future(node.spawn(), "fetch the run file", std::move(file)),
                   goes_on));
    return invitation;
}

std::shared_ptr<membership::Authorizer> authorizer_for(const Node& node,
                                                       const Invitation& invitation) {
    PeerId authority;
    if (invitation.run.access) {
        const auto named = PeerId::from_text(invitation.run.access->authority);
        DEDLOC_CHECK(named.has_value(), "the run file was checked");
        authority = *named;
    }
    return authorizer_of(node, run::run_hash(invitation.run), authority, invitation);
}

Result<Bytes> fetch_attachment(const Node& node,
                               const Invitation& invitation,
                               const Digest& hash,
                               std::size_t bytes_max,
                               Duration timeout) {
    const Digest run = run::run_hash(invitation.run);
    membership::AttachmentWish wish{.run = run,
                                    .authorizer = authorizer_for(node, invitation),
                                    .peers = invitation.bootstrap,
                                    .hash = hash,
                                    .bytes_max = bytes_max};
    const TimePoint deadline = node.clock().now() + timeout;
    return node.call("fetch a file of the run",
                     fetch_attachment(node.host(), std::move(wish), deadline));
}

namespace {

Task<Result<void>> start(Collaboration& collaboration) { co_return co_await collaboration.start(); }

Task<Result<void>> part(Collaboration& collaboration, Duration grace_period) {
    co_await collaboration.leave(grace_period);
    co_return Result<void>();
}

// An observer is what else its node does.
membership::Role told_role(membership::Role own, const std::vector<membership::Role>& of_node) {
    if (own != membership::Role::observer) return own;
    const auto other = std::ranges::find_if(
        of_node, [](membership::Role r) { return r != membership::Role::observer; });
    return other == of_node.end() ? own : *other;
}

}  // namespace

Result<void> CollaborationService::begin(CollaborationOptions options,
                                         events::EventSink* events,
                                         const std::function<bool()>& goes_on) {
    DEDLOC_CHECK(!collaboration_, "a service has one collaboration");
    options.role = told_role(options.role, node_.roles());
    role_ = options.role;
    DEDLOC_TRY_VOID(node_.run_on_network_thread([&]() -> Result<void> {
        DEDLOC_TRY(collaboration_,
                   Collaboration::make(node_.environment(),
                                       node_.host(),
                                       node_.signer(),
                                       node_.verifier(),
                                       std::move(options),
                                       events));
        node_.tell_caps(*this);
        return {};
    }));
    return wait_while(runtime::spawn_future(node_.spawn(), "start", start(*collaboration_)),
                      goes_on);
}

Collaboration& CollaborationService::collaboration() const {
    DEDLOC_CHECK(collaboration_ != nullptr, "begin() first");
    return *collaboration_;
}

void CollaborationService::leave(Duration grace_period) {
    const Result<void> left = node_.call("leave", part(collaboration(), grace_period));
    (void)left;  // cancelled: somebody stopped the node meanwhile, which is leaving too
}

Task<void> CollaborationService::stop() {
    if (collaboration_) co_await collaboration_->stop();
}

void CollaborationService::set_caps(double upload_max, double download_max) {
    if (collaboration_) collaboration_->set_caps(upload_max, download_max);
}

}  // namespace dedloc::collab
