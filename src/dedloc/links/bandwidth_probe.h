// BandwidthProbe: how much this machine's link carries, found by filling it for a moment with what
// several other peers take, and give, at once (docs/plan.md).
//
// Rounds alone do not tell: a plan that believes a link to be slow asks little of it, and among
// slow peers a fast link is never full, whatever is asked of it. So a peer fills its link when it
// has come, and again when rounds have shown much less for a while (LinkEstimate), while nobody of
// those who take part is in a round; a round that begins ends it. What counts is what came, where
// it came: acknowledgements that wait in a partner's full link arrive in bursts, and a slow link
// seemed 1.4 times as fast. Who probes serves nobody meanwhile.
//
//   /dedloc/round/1/probe (stream): ProbeRequest; from the partner one byte: ready; one byte:
//   begin; then blocks, from whoever sends, until one has had enough. A partner that was
//   sent everything answers with a ProbeReport. Who is busy fails the stream.
//
// Cost: 1.5 s of the link each way, 4 s of a slow one; at most 8 MiB with each of eight others, the
// first time, then sixteen. What a partner says can hardly make a link seem faster than it is: no
// more counts than it was sent. Vectors that take a link no time are not worth a probe, and peers
// on the same machine have no link between them. Where the user grants less than everything, the
// link below keeps to it (p2p), and what is measured is what it leaves.
//
// Thread: the network thread.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/links/rates.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/node.h"

namespace dedloc::links {

struct BandwidthProbeOptions {
    double vector_bytes = 0;       // of a vector as it travels; 0: not known yet (vector_takes)
    double rate_unknown = 12.5e6;  // bytes per second, while nobody has measured anything
    bool granted_is_true = false;  // what the user grants counts, whatever was measured
    // Between two tries, the longer the oftener they fail. An aggregator that no plan names is idle
    // all the time, while others are in rounds; if it filled its link meanwhile, its announcements
    // would come too late for the next plan as well.
    struct Pauses {
        Duration min;
        Duration max;
    };
    static constexpr Pauses of_trainers{1s, 4s};
    static constexpr Pauses of_aggregators{4s, 64s};
    Pauses pauses = of_trainers;
    std::function<bool()> idle;                      // is this peer in no round?
    std::function<std::vector<PeerId>()> partners;   // live peers that answer probes
    std::function<double(const PeerId&)> uplink_of;  // as it says, bytes per second; 0: unknown
};

class BandwidthProbe {
  public:
    BandwidthProbe(runtime::Node node, p2p::Host& host, BandwidthProbeOptions options);

    // Measures when there is need, until it is cancelled; ends where it never pays.
    Task<void> run();
    // Somebody else's probe.
    Task<void> serve(std::unique_ptr<p2p::MessageStream> stream);
    // For one that knows it from plans alone; until then nothing is worth a probe.
    void vector_takes(double bytes) { options_.vector_bytes = bytes; }
    // The link may be another one than it was.
    void ask_again() {
        upload_.ask_again();
        download_.ask_again();
    }
    // Tells what the last round showed.
    void round_gave(const LinkRates& rates, bool as_planned = false);

    // Is there nothing to wait for: is the link measured, or not to be?
    bool settled() const { return same_machine_ || !pays() || !wanted(); }
    double upload_bytes_per_s() const { return upload_.bytes_per_s(); }  // 0: not measured yet
    double download_bytes_per_s() const { return download_.bytes_per_s(); }
    int probes() const { return upload_.probes() + download_.probes(); }
    // The last probe filled the link downwards: those who sent could have sent much more, by what
    // they say of their links.
    bool download_was_filled() const { return download_filled_; }
    bool was_probed() const { return upload_.was_probed() && download_.was_probed(); }

  private:
    enum class Way { up, down };
    struct Filling;

    bool pays() const;
    std::uint64_t link_bytes() const;
    bool link_is_used() const;
    LinkEstimate& estimate(Way way) { return way == Way::up ? upload_ : download_; }
    bool wants(Way way) const;
    bool wanted() const { return wants(Way::up) || wants(Way::down); }
    std::vector<PeerId> candidates() const;
    bool goes_on(const Filling& filling) const;
    Task<bool> probe();
    Task<double> fill(Way way);
    bool gave_less_than_they_could(const Filling& filling, double rate) const;
    Task<void> ask(std::shared_ptr<Filling> filling, PeerId partner);
    Task<void> fill_one(std::shared_ptr<Filling> filling,
                        std::shared_ptr<p2p::MessageStream> stream);
    Task<void> give(std::shared_ptr<Filling> filling, std::shared_ptr<p2p::MessageStream> stream);
    Task<Result<std::uint64_t>> give_blocks(std::shared_ptr<Filling> filling,
                                            std::shared_ptr<p2p::MessageStream> stream);
    Task<void> take(std::shared_ptr<Filling> filling, std::shared_ptr<p2p::MessageStream> stream);
    Task<void> watch(std::shared_ptr<Filling> filling);
    bool has_time_for(const PeerId& peer, bool peer_sends);
    Task<Result<void>> answer(std::shared_ptr<p2p::MessageStream> stream);
    Task<Result<void>> serve_giving(std::shared_ptr<p2p::MessageStream> stream);
    Task<Result<void>> serve_taking(std::shared_ptr<p2p::MessageStream> stream);

    runtime::Node node_;
    p2p::Host& host_;
    BandwidthProbeOptions options_;
    Random random_;
    LinkEstimate upload_;
    LinkEstimate download_;
    bool download_filled_ = false;
    bool probing_ = false;
    std::size_t serving_ = 0;                              // probes of others
    bool link_seen_ = false;                               // something went over a link, once
    bool same_machine_ = false;                            // nothing did, so far
    std::uint64_t link_bytes_before_ = 0;                  // when that was found
    std::map<std::pair<PeerId, bool>, TimePoint> served_;  // and whether it sent
};

}  // namespace dedloc::links
