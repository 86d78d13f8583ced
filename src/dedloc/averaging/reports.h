// Reports: tells the module above what consensus finds out, as notes of a round.
//
// Thread: the network thread.

#pragma once
#include <string>
#include <utility>

#include "dedloc/averaging/context.h"

namespace dedloc::averaging {

class Reports final : public consensus::Listener {
  public:
    explicit Reports(RoundContext& context) : context_(context) {}

    void behind(const PeerId& peer) override { context_.listener.behind(peer); }
    void voting_for(const consensus::Decision& decision) override {
        context_.listener.voting_for(decision);
    }
    void refused(const PeerId& peer, std::string why) override {
        context_.refuse(RoundNote::Kind::refused_message, peer, std::move(why));
    }
    void branch_opened(std::string text) override {
        context_.listener.note({RoundNote::Kind::branch_opened, context_.me(), std::move(text)});
    }
    void votes_failed(std::string text) override {
        context_.listener.note({RoundNote::Kind::votes_failed, {}, std::move(text)});
    }
    void votes_failing(std::string text) override {
        context_.listener.note({RoundNote::Kind::votes_failing, {}, std::move(text)});
    }
    void votes_written(std::string text) override {
        context_.listener.note({RoundNote::Kind::votes_written, {}, std::move(text)});
    }

  private:
    RoundContext& context_;
};

}  // namespace dedloc::averaging
