// Reports: tells the module above what consensus and exchanges find out, as notes of a round, and
// remembers what is told only once.
//
// Thread: the network thread.

#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "dedloc/averaging/environment.h"
#include "dedloc/averaging/messages.h"

namespace dedloc::averaging {

class Reports final : public consensus::Listener, public allreduce::Listener {
  public:
    Reports(const Environment& environment, consensus::PeerScore& scores)
        : environment_(environment), scores_(scores) {}

    void note(RoundNote::Kind kind, const PeerId& peer, std::string text) {
        environment_.listener.note({kind, peer, std::move(text)});
    }
    // Has some of our input been refused by ourselves, since it was handed in?
    bool own_refused() const { return own_refused_; }
    void is_handed_in() { own_refused_ = false; }
    // That a peer is late or stands elsewhere is no offence.
    void refuse_message(const PeerId& peer, const Error& why) {
        consensus::tell_of_refusal(*this, peer, why);
    }
    // A leader has no room for us: told once, as it says so in every round.
    void round_is_full(const PeerId& leader, std::string why) {
        constexpr std::size_t letters_max = 400;  // they are the leader's
        if (std::exchange(told_of_full_round_, true)) return;
        why.resize(std::min(why.size(), letters_max));
        note(RoundNote::Kind::round_full, leader, std::move(why));
    }

    // allreduce::Listener
    void refused_input(const PeerId& peer, std::string why) override {
        if (peer == environment_.me()) own_refused_ = true;
        complain(RoundNote::Kind::refused_input, peer, std::move(why));
    }
    void refused_message(const PeerId& peer, std::string why) override {
        complain(RoundNote::Kind::refused_message, peer, std::move(why));
    }
    void values_clipped(std::string what) override {
        note(RoundNote::Kind::values_clipped, {}, std::move(what));
    }
    void owner_failed(const PeerId& peer, std::string why) override {
        note(RoundNote::Kind::owner_failed, peer, std::move(why));
    }
    // consensus::Listener
    void refused(const PeerId& peer, std::string why) override {
        complain(RoundNote::Kind::refused_message, peer, std::move(why));
    }
    void behind(const PeerId& peer) override { environment_.listener.behind(peer); }
    void voting_for(const consensus::Decision& decision) override {
        environment_.listener.voting_for(decision);
    }
    void certificate_came(ByteView certificate) override {
        if (on_certificate_) on_certificate_(certificate);
    }
    void on_certificate(std::function<void(ByteView)> listener) {
        on_certificate_ = std::move(listener);
    }
    void branch_opened(std::string text) override {
        note(RoundNote::Kind::branch_opened, environment_.me(), std::move(text));
    }
    void votes_failed(std::string text) override {
        note(RoundNote::Kind::votes_failed, {}, std::move(text));
    }
    void votes_failing(std::string text) override {
        note(RoundNote::Kind::votes_failing, {}, std::move(text));
    }
    void votes_written(std::string text) override {
        note(RoundNote::Kind::votes_written, {}, std::move(text));
    }

  private:
    // A member broke the protocol: told with its name and the reason, but not without end.
    void complain(RoundNote::Kind kind, const PeerId& peer, std::string why) {
        if (scores_.misbehaviour().add(peer, environment_.now())) note(kind, peer, std::move(why));
    }

    const Environment& environment_;
    consensus::PeerScore& scores_;
    std::function<void(ByteView)> on_certificate_;
    bool own_refused_ = false;
    bool told_of_full_round_ = false;
};

}  // namespace dedloc::averaging
