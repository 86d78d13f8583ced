// PeerNames: what people call peers, in events and views. A person whom an organiser invited has
// the invitation's name, everybody else the one that the peer says (`--name`, else its machine's).
// Two of one name are told apart by a number, in the order in which they were first seen.
//
// Thread: one. Limits: peer_names_max; beyond it the oldest name that comes first is forgotten.

#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "dedloc/base/peer_id.h"

namespace dedloc::events {

inline constexpr std::size_t peer_names_max = 4096;
inline constexpr std::size_t shown_name_columns = 32;

class PeerNames {
  public:
    // As the peer calls itself; empty: it does not. Other people's words: made printable here.
    void set_name(const PeerId& peer, std::string_view name);
    // As the organiser calls its owner. Wins over its own word.
    void set_person(const PeerId& peer, std::string_view person);

    // A peer that was never seen is called by the end of its id.
    std::string of(const PeerId& peer) const;
    // The text with names where it has ends of ids.
    std::string in(std::string_view text) const;

  private:
    struct Called {
        std::string name;
        std::string person;
        std::string shown;
    };
    Called* find_or_add(const PeerId& peer);
    void show(const PeerId& peer, Called& called);
    bool is_shown(const std::string& name) const { return by_shown_.contains(name); }

    std::map<PeerId, Called> called_;
    std::map<std::string, PeerId, std::less<>> by_shown_;
    std::map<std::string, PeerId, std::less<>> by_short_id_;
};

}  // namespace dedloc::events
