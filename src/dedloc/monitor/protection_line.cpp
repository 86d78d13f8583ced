#include "dedloc/monitor/protection_line.h"

#include <algorithm>

#include "dedloc/base/printable.h"
#include "dedloc/consensus/protection.h"

namespace dedloc::monitor {
namespace {

constexpr std::size_t words_bytes_max = 200;
constexpr std::size_t evidence_shown = 12;  // letters of the digest, as the page shows

}  // namespace

void ProtectionLine::add(const events::Event& event) {
    using namespace events;
    if (const auto* step = event.as<StepMade>()) at_work_ = step->at_work;
    if (const auto* made = event.as<CheckMade>()) checks_ = made->checks;
    if (const auto* news = event.as<NewcomerRight>()) note(event.peer, *news);
    if (const auto* order = event.as<OrderGiven>()) note(event, *order);
    if (event.is<OrderEnded>()) banned_.erase(event.peer);
}

void ProtectionLine::note(const events::Event& event, const events::OrderGiven& order) {
    newcomers_.erase(event.peer);
    if (order.about_us != 0) us_.reset();
    const bool out = order.order == "banned" || order.order == "eliminated";
    if (out && banned_.size() < banned_max)
        banned_.insert_or_assign(event.peer,
                                 Ban{.order = order, .step = event.step, .number = ++news_});
}

void ProtectionLine::note(const PeerId& peer, const events::NewcomerRight& news) {
    const bool done = news.right >= news.needed;
    const Newcomer now{.right = news.right, .needed = news.needed, .number = ++news_};
    if (news.about_us != 0) {
        us_ = now;
        if (done) us_.reset();
        return;
    }
    newcomers_.erase(peer);
    if (done) return;
    newcomers_.emplace(peer, now);
    const auto older = [](const auto& a, const auto& b) {
        return a.second.number < b.second.number;
    };
    if (newcomers_.size() > newcomers_shown_max)
        newcomers_.erase(std::ranges::min_element(newcomers_, older));
}

std::string ProtectionLine::newcomers(const events::PeerNames& names) const {
    std::string text;
    if (us_) text = fmt::format("; we are new: {} of {} checks right", us_->right, us_->needed);
    for (const auto& [peer, newcomer] : newcomers_)
        text += fmt::format(
            "; {} is new: {} of {} checks right", names.of(peer), newcomer.right, newcomer.needed);
    return text;
}

std::string ProtectionLine::standing(const events::PeerNames& names) const {
    if (!at_work_) return {};
    const bool enough = *at_work_ >= consensus::contributors_least;
    std::string text = enough ? fmt::format("protected: {} peers at work", *at_work_)
                              : fmt::format("not protected yet: {} of {} peers at work",
                                            *at_work_,
                                            consensus::contributors_least);
    if (banned_.size() == 1) text += fmt::format("; banned: {}", names.of(banned_.begin()->first));
    if (banned_.size() > 1) text += fmt::format("; {} banned", banned_.size());
    return text;
}

std::vector<std::string> ProtectionLine::bans(const events::PeerNames& names) const {
    std::vector<std::pair<PeerId, const Ban*>> newest;
    for (const auto& [peer, ban] : banned_) newest.emplace_back(peer, &ban);
    std::ranges::sort(newest, [](const auto& one, const auto& other) {
        return one.second->number > other.second->number;
    });
    if (newest.size() > bans_told_max) newest.resize(bans_told_max);
    std::vector<std::string> lines;
    for (const auto& [peer, ban] : newest) {
        std::string text = fmt::format("{}: {} at step {}",
                                       base::printable(ban->order.order, words_bytes_max),
                                       ban->order.about_us != 0 ? "you" : names.of(peer),
                                       ban->step);
        if (!ban->order.offence.empty())
            text += ": " + base::printable(ban->order.offence, words_bytes_max);
        if (!ban->order.evidence.empty())
            text +=
                fmt::format(" (evidence {})", base::printable(ban->order.evidence, evidence_shown));
        lines.push_back(std::move(text));
    }
    return lines;
}

std::string ProtectionLine::line(const events::PeerNames& names) const {
    std::string text = standing(names);
    if (text.empty()) return text;
    text += newcomers(names);
    if (checks_ > 0)
        text += fmt::format("; {} check{} made here", checks_, checks_ == 1 ? "" : "s");
    return text;
}

}  // namespace dedloc::monitor
