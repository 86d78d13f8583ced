#include "dedloc/admission/admission_client.h"

#include <cmath>

#include "dedloc/membership/peers_to_dial.h"
#include "dedloc/wire/message.h"

namespace dedloc::admission {
namespace {

constexpr Duration one_organiser_max = 5s;  // to dial one and hear its answer

Error another_clock(WallSeconds ahead) {
    return make_error(ErrorKind::denied,
                      "this machine's clock is {} {} the organiser's, and they may be apart by {}: "
                      "set the clock",
                      admission::duration_in_words(std::abs(ahead)),
                      ahead > 0 ? "ahead of" : "behind",
                      admission::duration_in_words(admission::clock_skew_max));
}

}  // namespace

Task<Result<Admitted>> ask_admission(p2p::Host& host,
                                     PeerId organiser,
                                     AdmissionQuestion question,
                                     TimePoint deadline) {
    std::string method = admission_method;
    Bytes bytes = wire::encode(question);
    auto answer =
        co_await host.call(std::move(organiser), std::move(method), std::move(bytes), deadline);
    if (!answer) co_return std::move(answer).error();
    DEDLOC_CO_TRY(Admitted admitted, wire::decode<Admitted>(*answer));
    const WallSeconds ahead = host.clock().wall_now() - admitted.now;
    if (!(std::abs(ahead) <= admission::clock_skew_max)) co_return another_clock(ahead);
    co_return admitted;
}

namespace {

// The peers of the string in turn: one of them is an organiser's, mostly the first. What an
// organiser says counts more than that another peer is none.
Task<Result<Admitted>> ask_in_turn_for_token(p2p::Host& host,
                                             run::JoinString join,
                                             AdmissionQuestion question,
                                             TimePoint deadline) {
    Error last = make_error(ErrorKind::peer_gone, "the join string names no address");
    for (const std::string& address : membership::peers_to_dial(host, join.addresses)) {
        const TimePoint until = std::min(deadline, host.clock().now() + one_organiser_max);
        auto peer = co_await host.dial(address, until);
        if (!peer) {
            if (last.kind() != ErrorKind::denied) last = std::move(peer).error();
            continue;
        }
        const PeerId id = *peer;
        auto admitted = co_await ask_admission(host, id, question, until);
        if (admitted) co_return admitted;
        if (last.kind() != ErrorKind::denied) last = std::move(admitted).error();
    }
    if (last.kind() == ErrorKind::denied) co_return last;
    co_return last.with_context("no organiser of the run could be reached");
}

}  // namespace

Task<Result<Admitted>> token_for(p2p::Host& host,
                                 runtime::Disk& disk,
                                 run::JoinString join,
                                 TimePoint deadline) {
    AdmissionQuestion question;
    question.run = join.run;
    auto kept = kept_token(disk);
    std::optional<admission::Token> token;
    if (kept) {
        auto decoded = wire::decode<admission::Token>(kept->token);
        if (decoded) token = *std::move(decoded);
    }
    const bool is_of_run = token && token->run == join.run;
    if (is_of_run || (kept && join.code.empty())) {
        if (!is_renewal_due(kept->token, host.clock().wall_now())) co_return *std::move(kept);
        question.token = kept->token;
    } else if (!join.code.empty()) {
        question.code = join.code;
    } else {
        co_return make_error(ErrorKind::denied,
                             "this run lets in by invitation, and this machine holds no token: ask "
                             "the organiser for a join string of your own");
    }
    const bool renews = question.code.empty();
    auto admitted =
        co_await ask_in_turn_for_token(host, std::move(join), std::move(question), deadline);
    // The old one may be good for a while; its peers say what they think of it.
    const bool no_answer = !admitted && admitted.error().kind() != ErrorKind::denied;
    if (renews && no_answer) co_return *std::move(kept);
    if (!admitted) co_return std::move(admitted).error();
    DEDLOC_CO_TRY_VOID(keep_token(disk, *admitted));
    co_return admitted;
}

Result<Admitted> kept_token(runtime::Disk& disk) {
    DEDLOC_TRY(const Bytes bytes, disk.read(token_file));
    return wire::decode<Admitted>(bytes);
}

Ok keep_token(runtime::Disk& disk, const Admitted& admitted) {
    return disk.write_atomically(token_file, wire::encode(admitted));
}

bool is_renewal_due(ByteView token, WallSeconds now) {
    const auto decoded = wire::decode<admission::Token>(token);
    if (!decoded) return true;
    const auto issued = static_cast<WallSeconds>(decoded->issued_at);
    const auto ends = static_cast<WallSeconds>(decoded->not_after);
    // A clock that was wrong for a moment made one for another time.
    if (issued > now + admission::clock_skew_max) return true;
    return now > issued + (ends - issued) / 2;
}

}  // namespace dedloc::admission
