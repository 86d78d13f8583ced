#include "dedloc/averaging/following.h"

#include <algorithm>

#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// So often in a row a leader that answers too late is given twice the time when it is asked again.
constexpr int late_answers_max = 4;
// A leader that answers has so long to bring its round about: usual rounds, micro-batches.
constexpr int rounds_to_lead = 4;
constexpr double micro_batches_to_lead = 2;
// Silence counts from this share of an answer's time on, where answers come quickly.
constexpr int silence_share_least = 3;

}  // namespace

Task<void> Following::follow(consensus::Base base, PeerId leader) {
    const Announce announce = own_announcement(parts_, base);
    if (std::find(told_.begin(), told_.end(), announce.input) == told_.end())
        told_.push_back(announce.input);
    Bytes request = wire::encode(announce);
    const auto told = std::make_shared<Result<Bytes>>(
        make_error(ErrorKind::timeout, "its averages are due, and it is silent"));
    Task<void> asking = ask_leader(leader, std::move(request), told);
    Task<void> overdue = until_overdue(leader);
    asked_ = {leader, environment_.now()};
    co_await runtime::first_of(std::move(asking), std::move(overdue));
    asked_.reset();
    const Result<Bytes>& answer = *told;
    if (!answer) {
        // The leader has begun again, perhaps, and is about to say hello.
        if (answer.error().kind() == ErrorKind::denied &&
            !parts_.election.has_followed(base, leader, parts_.timeouts.answer())) {
            co_await parts_.open.pause(environment_.options.announce_interval);
            co_return;
        }
        parts_.election.suspect(leader, answer.error().message());
        parts_.announcements.do_not_wait_for(
            leader);  // should we lead next: it has cost its deadline
        co_return;
    }
    auto reply = wire::decode<AnnounceReply>(*answer);
    if (!reply) {
        parts_.election.suspect(leader, "its answer cannot be read");
        co_return;
    }
    parts_.timeouts.is_told_of_longer_round(reply->round_ms);
    switch (reply->result) {
        case AnnounceResult::accepted:
            break;
        case AnnounceResult::redirect:
            // The asked peer does not lead: it may not vote, or believes in a leader before it. If
            // that one has just failed us, it will find out as well; otherwise that is the one to
            // ask.
            if (!parts_.election.suspected(reply->leader))
                parts_.election.pass_over(leader);
            else if (parts_.election.has_followed(
                         base, leader, parts_.timeouts.answer_after_work()))
                parts_.election.suspect(leader, "it sends us to a leader who is gone");
            break;
        case AnnounceResult::you_are_behind:
            certificates_.receive_certificates(leader, reply->certificates);
            if (reply->certificates.empty()) environment_.listener.behind(leader);
            break;
        case AnnounceResult::i_am_behind: {
            const TimePoint until = environment_.now() + parts_.timeouts.answer();
            auto certificates = environment_.ledger.tail(4);
            for (Bytes& certificate : certificates)
                if (environment_.now() < until)
                    co_await send(
                        parts_, leader, consensus::certificate_method, std::move(certificate));
            break;
        }
        case AnnounceResult::refused:
            parts_.election.suspect(leader, "it refused our announcement: " + reply->reason);
            break;
        case AnnounceResult::full:
            full_round_.is_told(leader, std::move(reply->reason));
            co_await environment_.node.clock.sleep_for(full_round_pause);
            break;
    }
    // A redirection has a timeout of its own.
    if (reply->result != AnnounceResult::redirect) pass_over_if_idle(base, leader);
    co_await pause_following(base, leader);
}

// A leader that answers, whatever it says, and brings no round about is passed over for a while.
void Following::pass_over_if_idle(const consensus::Base& base, const PeerId& leader) {
    if (environment_.ledger.base().previous != base.previous ||
        !parts_.election.has_followed(base, leader, timeout_with_leader()))
        return;
    parts_.election.suspect(leader, "it answers, but its round does not come about");
    parts_.election.follow_anew();
}

Duration Following::timeout_with_leader() const {
    const double micro_batch = std::clamp(environment_.roster.micro_batch_s(), 0.0, 60.0);
    return parts_.open.usual_deadline() * rounds_to_lead +
           from_seconds(micro_batch * micro_batches_to_lead) + parts_.timeouts.two_answers();
}

Task<void> Following::ask_leader(PeerId leader,
                                 Bytes request,
                                 std::shared_ptr<Result<Bytes>> answer) {
    const TimePoint asked = environment_.now();
    // Where nobody else could lead, a link that is full of what it brings newcomers is waited for.
    const bool no_other = environment_.ledger.base().voters.size() == 1;
    const int late = no_other ? std::min(late_answers_[leader], late_answers_max) : 0;
    const Duration timeout =
        std::min(parts_.timeouts.answer() * (1 << late), links::answer_timeout_max);
    *answer = co_await environment_.host.call(
        leader, announce_method, std::move(request), asked + timeout);
    if (*answer || answer->error().kind() != ErrorKind::timeout)
        late_answers_.erase(leader);
    else
        ++late_answers_[leader];
    answers_in_ = std::max<Duration>(environment_.now() - asked, answers_in_ * 3 / 4);
}

// When a leader that we asked, and that does not answer, is taken for gone before the call ends:
// the round should be over by now, and nothing comes from it. One whose link is slow sends
// something meanwhile.
TimePoint Following::overdue_at(const PeerId& leader, Duration silence) const {
    const auto exchange = parts_.exchanges.newest();
    if (!asked_ || asked_->first != leader || !exchange || exchange->plan().leader != leader ||
        exchange->plan().previous != environment_.ledger.base().previous)
        return TimePoint::never();
    const TimePoint heard = std::max(asked_->second, exchange->leader_heard_at());
    return std::max(heard + silence, exchange->usual_end());
}

// Silence means less where the answers of all leaders come late.
Duration Following::silence_of_the_dead() const {
    const Duration timeout = parts_.timeouts.answer();
    return std::clamp<Duration>(answers_in_ * 3 / 2, timeout / silence_share_least, timeout);
}

Task<void> Following::until_overdue(PeerId leader) {
    for (;;) {
        const TimePoint at = overdue_at(leader, silence_of_the_dead());
        if (environment_.now() >= at) co_return;
        (void)co_await parts_.open.changed().wait_until(environment_.node.clock, at);
    }
}

// With forty members who each look four times a second a slow leader's link has little left for the
// averages, which tell that the round goes on. One whose connection is lost is asked at once.
Task<void> Following::pause_following(consensus::Base base, PeerId leader) {
    const TimePoint until = environment_.now() + parts_.timeouts.within_answer();
    Duration next = environment_.options.announce_interval;
    do {
        co_await parts_.open.pause(next);
        next = std::min(next, until - environment_.now());
    } while (environment_.now() < until && awaits_averages(base) &&
             parts_.election.is_here(leader));
}

bool Following::awaits_averages(const consensus::Base& base) const {
    const auto exchange = parts_.exchanges.newest();
    return exchange && exchange->plan().previous == base.previous && !exchange->complete() &&
           environment_.now() < exchange->round_deadline();
}

}  // namespace dedloc::averaging
