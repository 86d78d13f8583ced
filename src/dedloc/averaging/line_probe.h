// LineProbe: how much this machine's line carries, found by filling it for a moment with what
// several other peers take, and give, at once (DESIGN promise 6).
//
// Rounds alone do not tell: a plan that believes a line to be slow asks little of it, and among
// slow peers a fast line is never full, whatever is asked of it. So a peer fills its line when it
// has come, and again when rounds have shown much less for a while (LineEstimate), while nobody of
// those who take part is in a round; a round that begins ends it. What counts is what came, where
// it came: acknowledgements that wait in a partner's full line arrive in bursts, and a slow line
// seemed 1.4 times as fast. Who probes serves nobody meanwhile.
//
//   /dedloc/round/1/probe (stream): ProbeRequest; from the partner one byte: ready; one byte:
//   begin; then blocks, from whoever sends, until one has had enough. A partner that was
//   sent everything answers with a ProbeReport. Who is busy fails the stream.
//
// Cost: 1.5 s of the line each way, 4 s of a slow one; at most 8 MiB with each of eight others, the
// first time, then sixteen. What a partner says can hardly make a line seem faster than it is: no
// more counts than it was sent. Vectors that take a line no time are not worth a probe, and peers
// on the same machine have no line between them. Where the user grants less than everything, the
// line below keeps to it (p2p), and what is measured is what it leaves.
//
// Thread: the network thread.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dedloc/averaging/context.h"
#include "dedloc/averaging/rates.h"

namespace dedloc::averaging {

class LineProbe {
  public:
    // `idle`: is this peer in no round? `pauses`: between two tries, the longer the oftener they
    // fail. An aggregator that no plan names is idle all the time, while others are in rounds; if
    // it filled its line meanwhile, its announcements would come too late for the next plan as
    // well.
    struct Pauses {
        Duration min;
        Duration max;
    };
    static constexpr Pauses of_trainers{1s, 4s};
    static constexpr Pauses of_aggregators{4s, 64s};
    LineProbe(RoundContext& context, std::function<bool()> idle, Pauses pauses = of_trainers);

    // Measures when there is need, until it is cancelled; ends where it never pays.
    Task<void> run();
    // Somebody else's probe.
    Task<void> serve(std::unique_ptr<p2p::MessageStream> stream);
    // For who knows it from plans alone; until then nothing is worth a probe.
    void vector_is(std::uint64_t elements) { vector_count_ = elements; }
    // The line may be another one than it was.
    void ask_again() {
        upload_.ask_again();
        download_.ask_again();
    }
    // What the last round showed.
    void round_gave(const LineRates& rates, bool as_planned = false);

    // Is there nothing to wait for: is the line measured, or not to be?
    bool settled() const { return same_machine_ || !pays() || !wanted(); }
    double upload_bytes_per_s() const { return upload_.bytes_per_s(); }  // 0: not measured yet
    double download_bytes_per_s() const { return download_.bytes_per_s(); }
    int probes() const { return upload_.probes() + download_.probes(); }
    // The last probe filled the line downwards: those who sent could have sent much more, by what
    // they say of their lines.
    bool download_was_filled() const { return download_filled_; }
    bool was_probed() const { return upload_.was_probed() && download_.was_probed(); }

  private:
    enum class Way { up, down };
    struct Filling;

    bool pays() const;
    std::uint64_t line_bytes() const;
    bool line_is_used() const;
    LineEstimate& estimate(Way way) { return way == Way::up ? upload_ : download_; }
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

    RoundContext& context_;
    std::function<bool()> idle_;
    Pauses pauses_;
    std::uint64_t vector_count_;
    Random random_;
    LineEstimate upload_;
    LineEstimate download_;
    bool download_filled_ = false;
    bool probing_ = false;
    std::size_t serving_ = 0;                              // probes of others
    bool line_seen_ = false;                               // something went over a line, once
    bool same_machine_ = false;                            // nothing did, so far
    std::uint64_t line_bytes_before_ = 0;                  // when that was found
    std::map<std::pair<PeerId, bool>, TimePoint> served_;  // and whether it sent
};

}  // namespace dedloc::averaging
