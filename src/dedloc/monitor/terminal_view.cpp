#include "dedloc/monitor/terminal_view.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace dedloc::monitor {
namespace {

constexpr std::size_t events_shown_max = 6;
constexpr std::size_t event_lines_max = 3;
constexpr std::size_t bar_columns = 24;
constexpr std::size_t sparkline_columns = 24;
constexpr std::size_t bans_shown_max = 3;
constexpr std::size_t roomy_height = 20;
constexpr std::size_t doing_columns_least = 17;
constexpr std::size_t doing_columns_most = 20;
constexpr double speed_believed = 1e8;  // samples a second; a claim beyond it tells nothing

std::string clock_text(double seconds) {
    const auto whole = static_cast<long long>(std::clamp(seconds, 0.0, 1e9));
    if (whole >= 3600)
        return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
    return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string speed_text(double samples_per_s) {
    if (samples_per_s <= 0) return "-";
    if (samples_per_s < 10) return fmt::format("{:.1f}/s", samples_per_s);
    if (samples_per_s < 1e5) return fmt::format("{:.0f}/s", samples_per_s);
    if (samples_per_s < speed_believed) return fmt::format("{:.0f}k/s", samples_per_s / 1e3);
    return ">100M/s";
}

// Compares what arrives in the model with what is computed: the rest goes to rounds and waiting.
std::string run_speed_text(const RunView& view) {
    if (view.samples_per_s >= view.computed_per_s || view.computed_per_s > speed_believed)
        return fmt::format("{:.0f} samples/s", view.samples_per_s);
    return fmt::format("{:.0f} of {:.0f} samples/s ({:.0f} %)",
                       view.samples_per_s,
                       view.computed_per_s,
                       view.samples_per_s / view.computed_per_s * 100);
}

std::string repeat(std::string_view text, std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += text;
    return out;
}

void put_bar(Line& line, double fraction, Charset charset) {
    const auto filled = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * bar_columns);
    line.push_back({charset.unicode ? "▕" : "[", Ink::dim});
    line.push_back({repeat(charset.unicode ? "█" : "#", filled), Ink::cyan});
    line.push_back({repeat(charset.unicode ? "░" : ".", bar_columns - filled), Ink::dim});
    line.push_back({charset.unicode ? "▏" : "]", Ink::dim});
}

// Each column is the mean of its share of the steps. What is no number is none.
std::string sparkline(std::vector<double> values, Charset charset) {
    static constexpr std::string_view blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static constexpr std::string_view letters[] = {"_", ".", ",", "-", "~", "=", "^", "#"};
    std::erase_if(values, [](double value) { return !std::isfinite(value); });
    if (values.size() < 2) return {};
    const std::size_t count = std::min(values.size(), sparkline_columns);
    std::vector<double> means(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t begin = i * values.size() / count;
        const std::size_t end = std::max(begin + 1, (i + 1) * values.size() / count);
        for (std::size_t j = begin; j < end; ++j) means[i] += values[j];
        means[i] /= static_cast<double>(end - begin);
    }
    const auto [low, high] = std::minmax_element(means.begin(), means.end());
    const double span = *high - *low;
    std::string out;
    for (const double mean : means) {
        // Sums of huge numbers are not finite.
        const double height = span > 0 && std::isfinite(span) ? (mean - *low) / span * 7 : 0;
        const auto level = static_cast<std::size_t>(std::clamp(std::round(height), 0.0, 7.0));
        out += charset.unicode ? blocks[level] : letters[level];
    }
    return out;
}

Line title_line(const RunView& view, std::size_t width) {
    Line line{{view.name, Ink::bold}, {"  run " + view.run.short_hex(), Ink::dim}};
    const std::size_t live = view.live_peers();
    line.push_back({fmt::format("  {} peer{}", live, live == 1 ? "" : "s"), Ink::plain});
    if (const std::size_t states = view.state_hashes(); states > 1)
        line.push_back({fmt::format("  {} states", states), Ink::red});
    if (view.our_share > 0)
        line.push_back({fmt::format("  yours {:.0f} %", view.our_share * 100), Ink::plain});
    const std::string since = clock_text(view.seconds);
    const std::string left =
        view.seconds_left > 0
            ? fmt::format("{}, {} to the end", since, clock_text(view.seconds_left))
            : since;
    if (!put_right(line, left, width, Ink::dim)) put_right(line, since, width, Ink::dim);
    return line;
}

Line step_line(const RunView& view, std::size_t width, Charset charset) {
    Line line{{"step ", Ink::plain}, {fmt::format("{}", view.step), Ink::bold}};
    if (view.steps > 0) line.push_back({fmt::format(" of {}", view.steps), Ink::plain});
    line.push_back({"  ", Ink::plain});
    const double fraction =
        view.target > 0 ? static_cast<double>(view.samples) / static_cast<double>(view.target) : 0;
    put_bar(line, fraction, charset);
    line.push_back({fmt::format(" {} of {} samples", view.samples, view.target), Ink::plain});
    if (!put_right(line, run_speed_text(view), width, Ink::plain))
        put_right(line, fmt::format("{:.0f} samples/s", view.samples_per_s), width, Ink::plain);
    return line;
}

Line loss_line(const RunView& view, Charset charset) {
    Line line{{"loss ", Ink::plain}};
    line.push_back({view.loss > 0 ? fmt::format("{:.4f}", view.loss) : "-", Ink::bold});
    if (view.loss_is_ours) line.push_back({" (yours)", Ink::dim});
    if (const std::string spark = sparkline(view.losses, charset); !spark.empty())
        line.push_back({" " + spark, Ink::cyan});
    // Some tasks have none: they tell 0.
    const bool is_measured = view.accuracy_step > 0 && view.accuracy > 0;
    if (is_measured || view.accuracy_goal > 0) line.push_back({"  accuracy ", Ink::plain});
    if (!is_measured && view.accuracy_goal > 0) line.push_back({"not measured yet", Ink::dim});
    if (is_measured) {
        const bool reached = view.accuracy_goal > 0 && view.accuracy >= view.accuracy_goal;
        line.push_back(
            {fmt::format("{:.1f} %", view.accuracy * 100), reached ? Ink::green : Ink::bold});
        line.push_back({fmt::format(" at step {}", view.accuracy_step), Ink::plain});
    }
    if (view.accuracy_goal > 0)
        line.push_back({fmt::format(", goal {:.1f} %", view.accuracy_goal * 100), Ink::dim});
    return line;
}

// The trainer or aggregator whose measured line carries fewest bytes a second, up or down; empty:
// fewer than two peers' lines are measured.
std::string slowest_line(const RunView& view) {
    const PeerView* slowest = nullptr;
    double least = 0;
    bool is_up = false;
    std::size_t known = 0;
    for (const PeerView& peer : view.peers) {
        const bool averages =
            peer.role == membership::Role::trainer || peer.role == membership::Role::aggregator;
        if (peer.is_gone || !averages) continue;
        known += peer.upload_bytes_per_s > 0 || peer.download_bytes_per_s > 0;
        for (const bool up : {true, false}) {
            const double rate = up ? peer.upload_bytes_per_s : peer.download_bytes_per_s;
            if (!(rate > 0) || (slowest != nullptr && rate >= least)) continue;
            slowest = &peer;
            least = rate;
            is_up = up;
        }
    }
    constexpr double megabit = 1e6 / 8;
    if (known < 2) return {};
    return fmt::format(
        "slowest line: {}, {:.3g} Mb/s {}", slowest->name, least / megabit, is_up ? "up" : "down");
}

struct Widths {
    std::size_t name, role, speed, step, doing;
};

Widths widths_for(const RunView& view, std::size_t width) {
    std::size_t longest = 4;
    std::size_t doing = doing_columns_least;
    for (const PeerView& peer : view.peers) {
        longest = std::max(longest, columns(peer.name));
        doing = std::max(doing, std::min(columns(peer.doing), doing_columns_most));
    }
    Widths widths{.name = longest, .role = 10, .speed = 8, .step = 7, .doing = doing};
    // Two columns of margin, four gaps of at most two, ten columns of hash and mark.
    const std::size_t fixed = 2 + widths.role + widths.speed + widths.step + widths.doing + 16;
    const std::size_t room = width > fixed + 8 ? width - fixed : 8;
    widths.name = std::min(widths.name, room);
    if (width < fixed + 8) widths.role = 0;  // a narrow terminal does without the role
    return widths;
}

Line peer_header(const Widths& widths) {
    std::string text = "  " + base::left_in("peer", widths.name) + "  ";
    if (widths.role > 0) text += base::left_in("role", widths.role);
    text += base::right_in("speed", widths.speed) + base::right_in("step", widths.step) + "  " +
            base::left_in("doing", widths.doing) + "  state";
    return {{text, Ink::dim}};
}

// The newest bans have a few lines: the peers of a small screen come first.
void put_bans(std::vector<Line>& lines, const RunView& view, std::size_t height) {
    const std::size_t room = height < roomy_height ? 1 : bans_shown_max;
    const std::size_t shown = view.bans.size() <= room ? view.bans.size() : room - 1;
    for (std::size_t i = 0; i < shown; ++i) lines.push_back({{view.bans[i], Ink::red}});
    if (shown < view.bans.size())
        lines.push_back(
            {{fmt::format(
                  "{}{} banned", view.bans.size() - shown, shown > 0 ? " more are" : " peers are"),
              Ink::red}});
}

Ink ink_of_doing(const PeerView& peer) {
    if (peer.is_banned) return Ink::red;
    if (peer.is_gone) return peer.doing.starts_with("lost") ? Ink::red : Ink::dim;
    if (peer.doing.starts_with("download") || peer.doing.starts_with("left out"))
        return Ink::yellow;
    if (peer.doing.starts_with("averag")) return Ink::cyan;
    return Ink::plain;
}

Line peer_line(const PeerView& peer, const Widths& widths) {
    const Ink base = peer.is_gone ? Ink::dim : Ink::plain;
    Line line{{peer.is_us ? "* " : "  ", Ink::green},
              {base::left_in(peer.name, widths.name) + "  ", peer.is_us ? Ink::bold : base}};
    if (widths.role > 0)
        line.push_back({base::left_in(membership::to_string(peer.role), widths.role), base});
    const bool has_state = !peer.state_hash.is_zero();
    line.push_back(
        {base::right_in(peer.is_gone ? "-" : speed_text(peer.samples_per_s), widths.speed) +
             base::right_in(has_state ? fmt::format("{}", peer.step) : "-", widths.step) + "  ",
         base});
    line.push_back({base::left_in(peer.doing, widths.doing) + "  ", ink_of_doing(peer)});
    if (!has_state) {
        line.push_back({"-", Ink::dim});
        return line;
    }
    const char* mark = peer.mark == HashMark::equal       ? " ="
                       : peer.mark == HashMark::different ? " differs"
                                                          : "";
    const Ink ink = peer.mark == HashMark::equal       ? Ink::green
                    : peer.mark == HashMark::different ? Ink::red
                                                       : Ink::plain;
    line.push_back({peer.state_hash.short_hex() + mark, ink});
    return line;
}

// The peers that matter most: us, one with another state, one that is gone, then the fastest. In
// the order of the view, so that nobody's line jumps when speeds change.
std::vector<const PeerView*> most_telling(const std::vector<PeerView>& peers, std::size_t count) {
    std::vector<const PeerView*> chosen;
    for (const PeerView& peer : peers) chosen.push_back(&peer);
    if (chosen.size() <= count) return chosen;
    const auto rank = [](const PeerView* peer) {
        return std::tuple(
            !peer->is_us, peer->mark != HashMark::different, !peer->is_gone, -peer->samples_per_s);
    };
    std::stable_sort(chosen.begin(), chosen.end(), [&](const PeerView* a, const PeerView* b) {
        return rank(a) < rank(b);
    });
    chosen.resize(count);
    std::sort(chosen.begin(), chosen.end());  // they lie in one vector
    return chosen;
}

void put_peers(std::vector<Line>& lines,
               const RunView& view,
               std::size_t width,
               std::size_t room,
               std::string_view hint) {
    const Widths widths = widths_for(view, width);
    lines.push_back(peer_header(widths));
    if (!hint.empty()) put_right(lines.back(), std::string(hint), width, Ink::dim);
    const std::size_t shown = view.peers.size() <= room ? view.peers.size() : room - 1;
    for (const PeerView* peer : most_telling(view.peers, shown))
        lines.push_back(peer_line(*peer, widths));
    if (shown < view.peers.size())
        lines.push_back(
            {{fmt::format("  and {} more peers", view.peers.size() - shown), Ink::dim}});
}

// A sentence that is cut at the screen's edge loses its second half, which says what to do.
std::vector<Line> event_lines(const EventView& event, std::size_t time_columns, std::size_t width) {
    const Ink ink = event.tone == Tone::good  ? Ink::green
                    : event.tone == Tone::bad ? Ink::red
                                              : Ink::plain;
    const std::size_t margin = time_columns + 2;
    std::vector<Line> lines;
    std::string before = clock_text(event.seconds);
    for (std::string& text : wrapped(event.text, width - margin, event_lines_max)) {
        lines.push_back(
            {{base::left_in(std::exchange(before, {}), margin), Ink::dim}, {std::move(text), ink}});
    }
    return lines;
}

// Steps have the sparkline; the list is for what is rarer. Each event with its lines, newest last.
std::vector<std::vector<Line>> shown_events(const RunView& view, std::size_t width) {
    std::vector<const EventView*> events;
    for (auto event = view.events.rbegin();
         event != view.events.rend() && events.size() < events_shown_max;
         ++event)
        if (!event->is_routine) events.push_back(&*event);
    std::size_t time_columns = 0;  // hours need more than minutes
    for (const EventView* event : events)
        time_columns = std::max(time_columns, columns(clock_text(event->seconds)));
    std::vector<std::vector<Line>> shown;
    for (auto event = events.rbegin(); event != events.rend(); ++event)
        shown.push_back(event_lines(**event, time_columns, width));
    return shown;
}

// The newest that have room, whole; of the newest one as much as there is room for.
void put_events(std::vector<Line>& lines,
                const std::vector<std::vector<Line>>& events,
                std::size_t room) {
    std::size_t first = events.size();
    std::size_t count = 0;
    while (first > 0 && count + events[first - 1].size() <= room) count += events[--first].size();
    if (first == events.size()) {
        const std::vector<Line>& newest = events.back();
        lines.insert(lines.end(),
                     newest.begin(),
                     newest.begin() + static_cast<std::ptrdiff_t>(std::min(room, newest.size())));
    }
    for (; first < events.size(); ++first)
        lines.insert(lines.end(), events[first].begin(), events[first].end());
}

}  // namespace

std::vector<Line> render(const RunView& view,
                         std::size_t width,
                         std::size_t height,
                         Charset charset,
                         std::string_view hint) {
    width = std::clamp(width, view_width_min, view_width_max);
    height = std::max(height, view_height_min);
    std::vector<Line> lines{
        title_line(view, width),
        step_line(view, width, charset),
        loss_line(view, charset),
    };
    if (!view.protection.empty()) lines.push_back({{view.protection}});
    put_bans(lines, view, height);
    // The limit of a round stands where a blank line was: no peer's line is lost to it.
    lines.push_back({{view.limit.empty() ? slowest_line(view) : view.limit, Ink::dim}});
    // Peers first; events take what is left, but at least two lines where there is room.
    const std::size_t free = height - lines.size() - 2;  // header of peers, blank before events
    const auto events = shown_events(view, width);
    const std::size_t events_min =
        events.empty() ? 0 : events.back().size() + (events.size() > 1 ? 1 : 0);
    const std::size_t below = events_min + (view.more.empty() ? 0 : view.more.size() + 1);
    const std::size_t peers_room = free > below + 1 ? free - below : 1;
    put_peers(lines, view, width, peers_room, hint);
    if (!view.more.empty() && lines.size() + 2 < height) {
        lines.push_back({});
        // The first tells most.
        const std::size_t room = height - lines.size() - 1;
        for (std::size_t i = 0; i < std::min(room, view.more.size()); ++i)
            lines.push_back({{view.more[i]}});
    }
    if (lines.size() + 1 < height && !events.empty()) {
        lines.push_back({});
        put_events(lines, events, height - lines.size());
    }
    for (Line& line : lines) line = cut_line(line, width);
    return lines;
}

std::vector<std::string> plain_lines(const RunView& view, PlainProgress& seen) {
    std::vector<std::string> lines;
    for (const EventView& event : view.events) {
        if (event.number <= seen.event_number) continue;
        seen.event_number = event.number;
        if (!event.is_routine && seen.said.erase(event.text) == 0)
            lines.push_back(fmt::format("{:>7}  {}", clock_text(event.seconds), event.text));
    }
    // The step told before was somebody's claim, or a branch that was lost. (One step less:
    // somebody who was ahead has left.)
    if (view.step + 1 < seen.step) seen.step = 0;
    if (view.step > seen.step || view.accuracy_step > seen.accuracy_step) {
        std::string line = fmt::format("{:>7}  step {}", clock_text(view.seconds), view.step);
        if (view.steps > 0) line += fmt::format(" of {}", view.steps);
        if (view.loss > 0)
            line += fmt::format("  loss {:.4f}{}", view.loss, view.loss_is_ours ? " (yours)" : "");
        if (view.accuracy_step > 0 && view.accuracy > 0)
            line += fmt::format("  accuracy {:.1f} %", view.accuracy * 100);
        const std::size_t live = view.live_peers();
        line += fmt::format("  {} peer{}  {}", live, live == 1 ? "" : "s", run_speed_text(view));
        lines.push_back(line);
        seen.step = view.step;
        seen.accuracy_step = view.accuracy_step;
    }
    if (!view.protection_standing.empty() && view.protection_standing != seen.protection) {
        seen.protection = view.protection_standing;
        lines.push_back(fmt::format("{:>7}  {}", clock_text(view.seconds), seen.protection));
    }
    if (!view.more.empty() && view.more.front() != seen.more) {
        seen.more = view.more.front();
        lines.push_back(fmt::format("{:>7}  {}", clock_text(view.seconds), seen.more));
    }
    return lines;
}

}  // namespace dedloc::monitor
