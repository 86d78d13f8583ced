// ProtectionLine: how well a robust run is protected, in one line of the view: whether it has peers
// enough, whom it has banned, how far newcomers have come, and how many checks this peer has made.
// Each ban has a line of its own besides.
//
// Thread: one; values. Limits: newcomers_shown_max newcomers, banned_max bans that are counted.

#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/events/events.h"
#include "dedloc/events/peer_names.h"

namespace dedloc::monitor {

class ProtectionLine {
  public:
    // Newer ones take the place of older ones: a stranger needs no more than a key to be one.
    static constexpr std::size_t newcomers_shown_max = 3;
    static constexpr std::size_t banned_max = 1024;  // of which one line tells no more than a count
    static constexpr std::size_t bans_told_max = 16;

    void add(const events::Event& event);
    // The part that stays the same for many steps; empty: no step of a robust run was seen yet.
    std::string standing(const events::PeerNames& names) const;
    // All of it.
    std::string line(const events::PeerNames& names) const;
    // The newest bans_told_max in words, the newest first.
    std::vector<std::string> bans(const events::PeerNames& names) const;
    bool has_banned(const PeerId& peer) const { return banned_.contains(peer); }

  private:
    struct Newcomer {
        std::uint64_t right = 0;
        std::uint64_t needed = 0;
        std::uint64_t number = 0;  // of the newest news of it
    };
    struct Ban {
        events::OrderGiven order;
        std::uint64_t step = 0;
        std::uint64_t number = 0;
    };
    void note(const PeerId& peer, const events::NewcomerRight& news);
    void note(const events::Event& event, const events::OrderGiven& order);
    std::string newcomers(const events::PeerNames& names) const;

    std::optional<std::uint64_t> at_work_;  // in the newest step
    std::optional<Newcomer> us_;            // as a newcomer
    std::map<PeerId, Newcomer> newcomers_;
    std::map<PeerId, Ban> banned_;
    std::uint64_t checks_ = 0;
    std::uint64_t news_ = 0;
};

}  // namespace dedloc::monitor
