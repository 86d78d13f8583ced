// How fast a peer's own link is, from the transfers of rounds (docs/plan.md).
//
// A peer looks every 50 ms at how much has gone over its link in all (Host::traffic); the busiest
// quarter of the round counts (Throughput), as a fast link in a plan that does not know it yet is
// idle for most of it. Only that sees both what a peer contributes and what it tells as an owner.
//
// Peers on one machine have no link between them, and short rounds no quarter to speak of. There
// others' word has to do: a contributor streams to all owners at once, and each owner tells it,
// with its last average, how many bytes had come from it in how much time. Whoever sends to several
// may be slowed by one of them; what arrived anywhere until some moment, over the time until then,
// is what the link gave, and the best such moment counts (link_rate). That is too little for who
// also owns parts, and too much where a crowded link lets streams begin one after the other.
//
// Cost: a sort of a group's size once a round. Thread: the network thread.

#pragma once
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "dedloc/base/time.h"

namespace dedloc::links {

// One stream's bytes since it was opened.
struct Flow {
    std::uint64_t bytes = 0;
    double seconds = 0;
};

// Less than this says more about latency than about a link; a flow that was shorter counts as so
// long, as its time is the processors', not the link's.
inline constexpr std::uint64_t flow_bytes_min = 256 * 1024;
inline constexpr double flow_seconds_min = 0.02;

// Bytes per second of a link that carried these flows at the same time; 0: too little to tell.
double link_rate(std::vector<Flow> flows);

// Measures a link, or several streams together: bytes that were given, and when.
class Throughput {
  public:
    // `share`: of the time between the first and the last byte.
    explicit Throughput(double share = 0.5) : share_(share) {}
    void add(std::uint64_t bytes, TimePoint now);
    std::uint64_t bytes() const { return bytes_; }
    double seconds() const { return marks_.empty() ? 0 : marks_.back().seconds; }
    // The best rate over any such share of the time; 0: too little to tell.
    double bytes_per_s() const;

  private:
    struct Mark {
        double seconds = 0;
        std::uint64_t bytes = 0;  // until then
    };
    double share_;
    std::vector<Mark> marks_;
    TimePoint begun_;
    std::uint64_t bytes_ = 0;
    double apart_ = 0.01;  // seconds between marks
};
inline constexpr std::size_t throughput_marks_max = 2048;
inline constexpr double throughput_seconds_min = 0.5;  // less is noise of the processors
inline constexpr double link_busiest_share = 0.25;

// Bytes per second; 0: too little to tell.
struct LinkRates {
    double upload = 0;
    double download = 0;
    // Bytes that went in all while it was measured.
    std::uint64_t upload_bytes = 0;
    std::uint64_t download_bytes = 0;
};

// Estimates what one way of a link carries: the mean of what rounds showed, the last one counting
// half, or more if a probe has shown clearly more, as rounds need not fill a link; where both agree
// rounds are believed, which look for longer. A probe's word counts for some rounds, for longer
// each time it is confirmed. Of the first two probes, one before the first round and one soon after
// it, the better one counts: others may probe as well.
//
// A link that changed is known after two rounds. What a round shows, a link carries: much more than
// was believed is believed at once. Much less than before may be another's fault, on whom all
// waited: a probe is wanted, whose word counts, and where there is no time for one (who averages
// while it computes is hardly ever idle) a second such round.
class LinkEstimate {
  public:
    void round_gave(double bytes_per_s);  // 0: too little to tell
    // The round took no longer than it should have, at the rates that were believed: a link that
    // gave less waited for others.
    void round_as_planned_gave(double bytes_per_s);
    void probe_gave(double bytes_per_s);
    double bytes_per_s() const;  // 0: not measured yet
    bool wants_probe() const;
    void ask_again() { changed_ = true; }  // what held it down is gone
    bool was_probed() const { return probes_ > 0; }
    int probes() const { return probes_; }

  private:
    double rounds_ = 0;
    double probed_ = 0;
    int trusted_for_ = 0;    // rounds
    int trust_ = 0;          // how long the last probe's word counts
    int slower_rounds_ = 0;  // in a row, and no probe between them
    bool changed_ = false;   // since the last probe
    int probes_ = 0;
};

// Plans may count on what was measured, but not on more than the user grants (0: all).
inline double capped(double measured, double granted) {
    return granted > 0 && (measured <= 0 || measured > granted) ? granted : measured;
}

// Takes measures of several links without differences that may be noise: links within a tenth
// of one another count as the slowest of them. What a plan gives a link grows twice as fast as its
// rate, and everybody waits for the link of which too much was believed.
void take_as_alike(std::span<double* const> rates);

// The claim of one who only takes what it is given: what came is the least that its link carries.
// As long as more comes than ever lately it claims twice that, else a tenth more, to see a link
// that became faster. Two rounds in which about as much came as in the best one, but much more
// slowly, show a link that became slower; rounds in which little came say nothing for eight rounds.
class GrowingRate {
  public:
    void observe(double bytes_per_s, std::uint64_t bytes);
    double bytes_per_s() const { return claim_; }  // 0: not measured yet
    double least() const;                          // a tenth more than was seen

  private:
    struct Seen {
        double bytes_per_s = 0;
        std::uint64_t bytes = 0;
    };
    Seen best() const;
    bool slower_twice() const;

    std::deque<Seen> recent_;
    double claim_ = 0;
};

}  // namespace dedloc::links
