#include "dedloc/planner/explanation.h"

#include <algorithm>
#include <cmath>

#include "dedloc/planner/optimum.h"

namespace dedloc::planner {
namespace {

class Explanation {
  public:
    Explanation(const Split& split,
                std::span<const PeerRates> peers,
                const SplitOptions& options,
                std::span<const std::uint64_t> wanted_parts)
        : split_(split),
          peers_(peers),
          links_(options.links),
          names_(options.names),
          wanted_parts_(wanted_parts) {
        for (std::size_t i = 0; i < peers.size(); ++i) {
            const std::uint64_t part = split.part_elements[i];
            elements_ += part;
            if (part > 0) owners_.push_back(i);
        }
        const auto larger = [&](std::size_t a, std::size_t b) {
            const std::uint64_t one = split.part_elements[a];
            const std::uint64_t other = split.part_elements[b];
            return one != other ? one > other : a < b;
        };
        const auto seconds =
            owners_.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(owners_.size(), 2));
        std::partial_sort(owners_.begin(), seconds, owners_.end(), larger);
        if (owners_.size() <= 2) return;
        std::iter_swap(std::max_element(owners_.begin() + 2, owners_.end(), larger),
                       owners_.end() - 1);
    }

    std::string text() const {
        if (elements_ == 0) return "There is nothing to average.";
        std::string sentence = who();
        // Names of peers stay as they are.
        if (names_.empty() || sentence.starts_with("all "))
            sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
        if (split_.bottleneck == Bottleneck::none) return sentence + ", and nothing has to travel.";
        const std::string idle = why_not_others();
        if (!idle.empty()) sentence += "; " + idle;
        return sentence + "; " + limit() + ".";
    }

  private:
    std::string name(std::size_t peer) const {
        return names_.empty() ? fmt::format("peer {}", peer) : names_[peer];
    }
    std::string percent(std::size_t peer) const {
        const double share = 100.0 * static_cast<double>(split_.part_elements[peer]) /
                             static_cast<double>(elements_);
        return share < 0.05 ? fmt::format("{:.1g} %", share) : fmt::format("{:.1f} %", share);
    }
    // "a", "a and b", "a and 7 others"
    std::string some(const std::vector<std::size_t>& list) const {
        if (list.size() == 1) return name(list[0]);
        if (list.size() == 2) return fmt::format("{} and {}", name(list[0]), name(list[1]));
        return fmt::format("{} and {} others", name(list[0]), list.size() - 1);
    }

    std::string who() const {
        const std::size_t largest = owners_.front();
        if (owners_.size() == 1) return name(largest) + " reduces the whole vector";
        const std::string most = percent(largest);
        const std::string least = percent(owners_.back());
        if (most == least && owners_.size() == peers_.size())
            return fmt::format("all {} peers reduce equal parts (a butterfly all-reduce)",
                               peers_.size());
        if (most == least)
            return fmt::format("{} of {} peers reduce {} each: {}",
                               owners_.size(),
                               peers_.size(),
                               most,
                               some(owners_));
        const std::string second = percent(owners_[1]);
        std::string text =
            owners_.size() == 2
                ? fmt::format(
                      "{} reduces {} and {} {}", name(largest), most, name(owners_[1]), least)
                : fmt::format("{} reduces {} and {} others {}{} each",
                              name(largest),
                              most,
                              owners_.size() - 1,
                              second == least ? "" : least + " to ",
                              second);
        constexpr double server_share = 0.8;
        if (static_cast<double>(split_.part_elements[largest]) >=
            server_share * static_cast<double>(elements_))
            text += " (nearly a parameter server)";
        return text;
    }

    std::string why_not_others() const {
        const OwnerLimits reach = limits_of_links(peers_, allowed_owners(peers_), links_);
        std::vector<std::size_t> hidden, cut_off, one_way, busy, busy_up, busy_down, narrow, small;
        std::vector<std::size_t> spare;
        const double total = static_cast<double>(elements_) / split_.seconds;
        for (std::size_t i = 0; i < peers_.size(); ++i) {
            if (split_.part_elements[i] > 0) continue;
            const PeerRates& peer = peers_[i];
            constexpr double nearly = 1e-3;
            const bool up = peer.upload_per_s - (peer.contributes ? total : 0) <= nearly * total;
            const bool down = peer.download_per_s - peer.receiving() * total <= nearly * total;
            if (!peer.owns_allowed)
                hidden.push_back(i);
            else if (reach[i] <= 0)
                cut_off.push_back(i);
            else if (!wanted_parts_.empty() && wanted_parts_[i] > 0)
                small.push_back(i);
            else if (peer.upload_per_s <= 0 || peer.download_per_s <= 0)
                one_way.push_back(i);
            else if (up || down)
                (!down ? busy_up : !up ? busy_down : busy).push_back(i);
            else
                (reach[i] < total ? narrow : spare).push_back(i);
        }
        std::string text;
        const auto add = [&](const std::vector<std::size_t>& list, std::string_view reason) {
            if (list.empty()) return;
            if (!text.empty()) text += "; ";
            text += fmt::format(
                "{} own{} nothing, {}", some(list), list.size() == 1 ? "s" : "", reason);
        };
        add(busy, "their own gradient and the result fill their links");
        add(busy_up, "their own gradient fills their upload");
        add(busy_down, "the result fills their download");
        add(hidden, "nobody can dial them");
        add(cut_off, "they cannot reach everybody");
        add(one_way, "an owner has to send and to receive");
        add(narrow, "slow links to others stand in the way");
        add(small, "their part would be too small");
        // Room is looked at only where no link has a limit (optimum.h).
        add(spare,
            links_.empty() ? "others have more room on their lines"
                           : "others have room enough on their lines");
        return text;
    }

    // Peers and links that are full for the whole time.
    struct Full {
        std::size_t peers = 0;
        std::size_t links = 0;
    };
    Full full() const {
        constexpr double nearly = 1 - 1e-4;
        const auto fills = [&](double elements, double rate) {
            return elements > 0 && elements / rate >= nearly * split_.seconds;
        };
        Full full;
        const std::vector<Traffic> all = traffic(peers_, split_.part_elements);
        for (std::size_t i = 0; i < peers_.size(); ++i)
            if (fills(all[i].sent_elements, peers_[i].upload_per_s) ||
                fills(all[i].received_elements, peers_[i].download_per_s))
                ++full.peers;
        for (const LinkLimit& link : links_) {
            const Transfer sent = transfer(peers_, split_.part_elements, link.from, link.to);
            if (fills(static_cast<double>(sent.gradient_elements + sent.average_elements),
                      link.per_s))
                ++full.links;
        }
        return full;
    }

    std::string limit() const {
        const std::string time = duration_text(split_.seconds);
        const std::string peer = name(split_.bottleneck_peer);
        const auto [full_peers, full_links] = full();
        const auto with_more = [](std::size_t more, std::string_view what) {
            return more == 0 ? std::string() : fmt::format(", with {} more full {},", more, what);
        };
        if (split_.bottleneck == Bottleneck::link)
            return fmt::format("the link from {} to {}{} sets the time of {}",
                               peer,
                               name(split_.bottleneck_to),
                               with_more(full_links - 1, "links"),
                               time);
        if (full_peers == peers_.size() && full_peers > 1)
            return fmt::format("all peers are busy for the whole {}", time);
        return fmt::format("the {} of {}{} sets the time of {}",
                           split_.bottleneck == Bottleneck::upload ? "upload" : "download",
                           peer,
                           with_more(full_peers - 1, "peers"),
                           time);
    }

    const Split& split_;
    std::span<const PeerRates> peers_;
    std::span<const LinkLimit> links_;
    std::span<const std::string> names_;
    std::span<const std::uint64_t> wanted_parts_;
    std::vector<std::size_t> owners_;  // the two largest parts first, the smallest last
    std::uint64_t elements_ = 0;
};

}  // namespace

std::string duration_text(double seconds) {
    if (!(seconds < 1e9)) return "forever";
    if (seconds >= 120) return fmt::format("{:.1f} min", seconds / 60);
    if (seconds >= 0.0995 || seconds == 0)
        return fmt::format("{:.{}f} s", seconds, seconds >= 99.95 ? 0 : seconds >= 9.995 ? 1 : 2);
    return fmt::format("{:.3g} ms", seconds * 1e3);
}

std::string explain(const Split& split,
                    std::span<const PeerRates> peers,
                    const SplitOptions& options,
                    std::span<const std::uint64_t> wanted_parts) {
    return Explanation(split, peers, options, wanted_parts).text();
}

}  // namespace dedloc::planner
