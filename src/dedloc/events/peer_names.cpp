#include "dedloc/events/peer_names.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "dedloc/base/columns.h"
#include "dedloc/base/printable.h"

namespace dedloc::events {
namespace {

constexpr std::size_t shown_name_bytes_max = 4 * shown_name_columns;
constexpr std::string_view nameless = "nameless peer";

std::string fit_to_show(std::string_view name) {
    return base::cut_to_columns(base::printable_columns(name, shown_name_bytes_max),
                                shown_name_columns);
}

bool is_of_id(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; }

// The name shown is `name`, or `name 2` and so on.
bool is_numbered(std::string_view shown, std::string_view name) {
    if (!shown.starts_with(name)) return false;
    shown.remove_prefix(name.size());
    return shown.empty() || (shown.size() > 1 && shown.front() == ' ' &&
                             std::ranges::all_of(shown.substr(1), [](char letter) {
                                 return letter >= '0' && letter <= '9';
                             }));
}

}  // namespace

PeerNames::Called* PeerNames::find_or_add(const PeerId& peer) {
    if (peer.is_empty()) return nullptr;
    if (const auto found = called_.find(peer); found != called_.end()) return &found->second;
    if (called_.size() >= peer_names_max) {
        const auto first = called_.begin();
        by_shown_.erase(first->second.shown);
        by_short_id_.erase(first->first.short_text());
        called_.erase(first);
    }
    by_short_id_.insert_or_assign(peer.short_text(), peer);
    return &called_[peer];
}

void PeerNames::show(const PeerId& peer, Called& called) {
    std::string wanted = called.person.empty() ? called.name : called.person;
    if (wanted.empty()) wanted = nameless;
    if (is_numbered(called.shown, wanted)) return;
    by_shown_.erase(called.shown);
    called.shown = wanted;
    for (int number = 2; is_shown(called.shown); ++number)
        called.shown = fmt::format("{} {}", wanted, number);
    by_shown_[called.shown] = peer;
}

void PeerNames::set_name(const PeerId& peer, std::string_view name) {
    Called* const called = find_or_add(peer);
    if (called == nullptr) return;
    called->name = fit_to_show(name);
    show(peer, *called);
}

void PeerNames::set_person(const PeerId& peer, std::string_view person) {
    Called* const called = find_or_add(peer);
    if (called == nullptr) return;
    called->person = fit_to_show(person);
    show(peer, *called);
}

std::string PeerNames::of(const PeerId& peer) const {
    const auto found = called_.find(peer);
    return found == called_.end() ? peer.short_text() : found->second.shown;
}

std::string PeerNames::in(std::string_view text) const {
    std::string out;
    while (!text.empty()) {
        const auto end = std::ranges::find_if_not(text, is_of_id);
        const auto length = std::max<std::size_t>(static_cast<std::size_t>(end - text.begin()), 1);
        const std::string_view word = text.substr(0, length);
        const auto peer = by_short_id_.find(word);
        out += peer == by_short_id_.end() ? std::string(word) : of(peer->second);
        text.remove_prefix(length);
    }
    return out;
}

}  // namespace dedloc::events
