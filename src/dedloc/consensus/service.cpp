#include "dedloc/consensus/service.h"

#include "dedloc/base/counted.h"
#include "dedloc/wire/message.h"

namespace dedloc::consensus {
namespace {

// The message of a member that is told of if it cannot be read.
template <typename Message>
Result<Message> read_from(const ConsensusEnvironment& environment,
                          const PeerId& from,
                          ByteView bytes,
                          const char* what) {
    auto message = wire::decode<Message>(bytes);
    if (!message) environment.complain_of(from, unreadable(what).message());
    return message;
}

}  // namespace

ConsensusService::ConsensusService(const ConsensusEnvironment& environment,
                                   Acceptor& acceptor,
                                   RoundUnderWay& round)
    : environment_(environment),
      acceptor_(acceptor),
      round_(round),
      handlers_(environment.host),
      scope_(environment.node.executor) {}

void ConsensusService::start() {
    handlers_.on_call(prepare_method, [this](PeerId from, Bytes request) {
        return on_prepare(from, std::move(request));
    });
    handlers_.on_call(propose_method, [this](PeerId from, Bytes request) {
        return on_propose(from, std::move(request));
    });
    handlers_.on_call(certified_method, [this](PeerId from, Bytes request) {
        return on_certified(from, std::move(request));
    });
    handlers_.on_call(certificate_method, [this](PeerId from, Bytes request) {
        return on_certificate(from, std::move(request));
    });
    handlers_.on_call(certificates_method, [this](PeerId from, Bytes request) {
        return on_certificates(from, std::move(request));
    });
}

Task<void> ConsensusService::stop() {
    co_await handlers_.stop();
    co_await scope_.stop();
}

Task<Result<Bytes>> ConsensusService::on_prepare(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(environment_.electorate, from));
    DEDLOC_CO_TRY(Prepare prepare, read_from<Prepare>(environment_, from, request, "prepare"));
    if (round_.keeps_to_round(from, prepare)) {
        ConsensusReply later;
        later.answer = Answer::refused;
        later.reason = "a round is under way, and its leader lives";
        co_return wire::encode(later);
    }
    const ConsensusReply reply = co_await acceptor_.on_prepare(from, std::move(prepare));
    co_return wire::encode(reply);
}

Task<Result<Bytes>> ConsensusService::on_propose(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(environment_.electorate, from));
    auto propose = wire::decode<Propose>(request);
    if (!propose) {
        round_.unreadable_proposal(from, unreadable("proposal"));
        co_return std::move(propose).error();
    }
    round_.is_proposed_to(from);
    if (!propose->compact_decision.empty()) {
        compact_proposal_ = {from, *propose};
        auto whole = co_await round_.whole_proposal(*propose);
        if (!whole) {
            ConsensusReply unknown;
            unknown.answer = Answer::send_whole;
            co_return wire::encode(unknown);
        }
        propose->decision = *std::move(whole);
    }
    proposal_ = propose->decision;
    const std::uint64_t before = environment_.complaints.count(from);
    const ConsensusReply reply = co_await acceptor_.on_propose(from, *std::move(propose));
    if (reply.answer == Answer::refused && environment_.complaints.count(from) > before)
        round_.untrue_proposal(from, reply.reason);
    co_return wire::encode(reply);
}

Task<Result<Bytes>> ConsensusService::on_certified(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(environment_.electorate, from));
    DEDLOC_CO_TRY(Certified certified,
                  read_from<Certified>(environment_, from, request, "certified"));
    if (!proposal_.empty() && decision_digest(proposal_) == certified.decision) {
        receive_certified(from, proposal_, std::move(certified));
    } else if (certified_later_ == 0 && compact_proposal_.first == from &&
               compact_proposal_.second.digest == certified.decision) {
        Propose compact = std::exchange(compact_proposal_, {}).second;
        scope_.spawn("certified before all averages came",
                     receive_certified_later(from, std::move(compact), std::move(certified)));
    } else {
        co_return make_error(ErrorKind::not_found, "we were not asked about that decision");
    }
    co_return Bytes{};
}

// A majority voted before the last averages were here.
Task<void> ConsensusService::receive_certified_later(PeerId from,
                                                     Propose compact,
                                                     Certified certified) {
    const base::Counted counted(certified_later_);
    auto whole = co_await round_.whole_proposal(std::move(compact));
    if (whole)
        receive_certified(from, *std::move(whole), std::move(certified));
    else
        environment_.listener.behind(from);
}

void ConsensusService::receive_certified(const PeerId& from, Bytes decision, Certified certified) {
    const Certificate certificate{
        std::move(decision), certified.ballot, std::move(certified.votes)};
    (void)receive_certificate(from, wire::encode(certificate));
}

bool ConsensusService::receive_certificate(const PeerId& from, const Bytes& certificate) {
    const auto accepted = environment_.ledger.accept(certificate);
    if (!accepted)
        environment_.complaints.add_if_broken(from, environment_.now(), accepted.error());
    if (!accepted && (accepted.error().kind() == ErrorKind::not_found ||
                      accepted.error().kind() == ErrorKind::conflict))
        environment_.listener.behind(from);
    return accepted.has_value();
}

void ConsensusService::receive_certificates(const PeerId& from,
                                            const std::vector<Bytes>& certificates) {
    for (const Bytes& certificate : certificates)
        if (!receive_certificate(from, certificate)) return;
}

Task<Result<Bytes>> ConsensusService::on_certificate(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(environment_.electorate, from));
    if (on_sent_) on_sent_(request);
    (void)receive_certificate(from, request);
    co_return Bytes{};
}

Task<Result<Bytes>> ConsensusService::on_certificates(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(environment_.electorate, from));
    DEDLOC_CO_TRY(const CertificatesRequest asked, wire::decode<CertificatesRequest>(request));
    CertificatesReply reply;
    if (!environment_.ledger.started())
        co_return make_error(ErrorKind::not_found, "this peer knows no certificate yet");
    if (asked.only_latest) {
        reply.certificates.push_back(environment_.ledger.newest());
    } else {
        reply.certificates = acceptor_.certificates_after(asked.previous);
        reply.known = environment_.ledger.after(asked.previous, 0).has_value();
    }
    co_return wire::encode(reply);
}

}  // namespace dedloc::consensus
