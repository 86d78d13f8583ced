// MixtureClient: a layer of a network whose experts live on other machines.
//
// Per row the gate gives scores of the grid's coordinates; the `best` experts of a beam search are
// called side by side, each once with all rows that chose it. Who has not answered by its deadline,
// or answered wrongly, is left out: the weights of a row are the softmax of the scores of those
// that answered, and only these are called back. A row with fewer than `at_least` answers is
// `lost`: its output is zeros; where the layer may not give zeros, the caller leaves the whole
// micro-batch out. A server that failed a moment ago is not asked again where others answer for it:
// as long as at least half of the rows have enough experts without it.
//
//   forward   inputs [rows, width], scores -> outputs [rows, width], and what backward needs
//   backward  gradients of the outputs -> gradients of inputs and scores; experts update
//
// The gate itself is the caller's (experts::Gate for loops without libtorch).
//
// Source: Learning@home (arXiv 2002.04013) §3.1; hivemind's moe.py. Errors: those of the table when
// no expert can be found at all. Thread: the network thread; arithmetic is rows × experts × width.

#pragma once
#include <memory>
#include <vector>

#include "dedloc/experts/beam_search.h"
#include "dedloc/experts/remote_experts.h"

namespace dedloc::experts {

struct MixtureOptions {
    ExpertGrid grid;
    std::size_t best = 4;      // experts a row
    std::size_t at_least = 1;  // of them that must answer
    std::size_t beam_width = 0;
    Duration search_max = std::chrono::seconds(5);
    // Wait for all answers of a batch at most so long, whatever single deadlines say.
    Duration batch_max = std::chrono::seconds(5);
    // Where no expert at all has answered for so long, who calls gives up.
    Duration nobody_max = std::chrono::minutes(10);
};

struct MixtureCounts {
    std::uint64_t calls = 0;  // of experts, both ways
    std::uint64_t failed = 0;
    std::uint64_t rows = 0;
    std::uint64_t rows_lost = 0;
    Duration longest{0};  // a forward or backward pass took
};

class MixtureClient {
  public:
    MixtureClient(p2p::Host& host,
                  Directory& directory,
                  RemoteExperts& remote,
                  MixtureOptions options);

    // One expert's share of a batch.
    struct Share {
        Location location;
        std::vector<std::size_t> rows;  // of the batch that chose it
        Tensor inputs;
        Tensor outputs;         // as it answered
        bool left_out = false;  // its server rests
        bool answered = false;
    };
    struct Passed {
        Tensor outputs;
        std::vector<bool> lost;  // a row
        std::vector<Share> shares;
        // For each row: which shares answered, as which row of the share, with which weight.
        struct Term {
            std::size_t share = 0;
            std::size_t row = 0;
            double weight = 0;
        };
        std::vector<std::vector<Term>> terms;
        bool any_lost() const;
        bool all_lost() const;  // nobody answered
    };
    struct Gradients {
        Tensor inputs;
        std::vector<GridScores> scores;
    };

    Task<Result<Passed>> forward(Tensor inputs, std::vector<GridScores> scores);
    // Experts that fail now leave their part of the inputs' gradient out.
    Task<Gradients> backward(Passed passed, Tensor output_gradients);

    const MixtureOptions& options() const { return options_; }
    const MixtureCounts& counts() const { return counts_; }

  private:
    void leave_out_resting(std::vector<Share>& shares, std::size_t rows_count) const;
    Task<void> call_forward(Share* share);
    Task<void> call_backward(Share* share, Tensor gradients, Tensor* result, bool* answered);
    std::vector<Share> shares_of(const Tensor& inputs,
                                 const std::vector<std::vector<Chosen>>& chosen) const;

    p2p::Host& host_;
    Directory& directory_;
    RemoteExperts& remote_;
    MixtureOptions options_;
    MixtureCounts counts_;
};

}  // namespace dedloc::experts
