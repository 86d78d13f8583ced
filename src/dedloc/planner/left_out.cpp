#include "dedloc/planner/left_out.h"

#include <algorithm>
#include <cmath>

#include "dedloc/planner/optimum.h"
#include "dedloc/planner/roles.h"

namespace dedloc::planner {
namespace {

// The next count of those left out that is tried: all small ones, then in steps.
std::size_t next_count(std::size_t count) { return count + std::max<std::size_t>(1, count / 6); }

class Search {
  public:
    explicit Search(const LeaveOutQuestion& question) : question_(question) {
        for (std::size_t i = 0; i < question.peers.size(); ++i)
            if (question.candidates[i] != Candidate::no) order_.push_back(i);
        std::ranges::stable_sort(order_, {}, [&](std::size_t i) {
            const PeerRates& peer = question.peers[i];
            return std::min(peer.upload_per_s, peer.download_per_s);
        });
    }

    Result<LeaveOutAnswer> run() {
        LeaveOutAnswer answer;
        answer.parts.assign(question_.peers.size(), Part::whole);
        DEDLOC_TRY(const double total, total_of(answer.parts));
        if (!(total > 0) || std::isinf(total)) return answer;
        answer.seconds_of_all = answer.seconds = question_.elements_count / total;
        least_samples_ = samples(answer.parts) * samples_share_least;
        double best = pace(answer.parts, answer.seconds) * question_.worth_it;
        // Not even a round in no time at all would be worth it.
        if (!(samples(answer.parts) / question_.computing_s > best)) return answer;
        for (std::size_t count = 1; count <= order_.size(); count = next_count(count)) {
            DEDLOC_TRY(const Trial trial, without(count));
            const double now = pace(trial.parts, trial.seconds);
            if (now <= best || !is_enough(trial.parts)) continue;
            best = now;
            answer.parts = trial.parts;
            answer.seconds = trial.seconds;
        }
        return answer;
    }

  private:
    struct Trial {
        std::vector<Part> parts;
        double seconds = 0;
    };

    // The slowest `count` are left out; whose download is no hindrance still receives.
    Result<Trial> without(std::size_t count) const {
        Trial trial{std::vector<Part>(question_.peers.size(), Part::whole), 0};
        for (std::size_t k = 0; k < count; ++k) trial.parts[order_[k]] = Part::none;
        DEDLOC_TRY(double total, total_of(trial.parts));
        for (std::size_t k = 0; k < count; ++k) {
            const std::size_t i = order_[k];
            const bool must = question_.candidates[i] == Candidate::if_it_receives;
            if (question_.peers[i].receives && (must || question_.peers[i].download_per_s >=
                                                            question_.peers[i].receiving() * total))
                trial.parts[i] = Part::receives;
        }
        DEDLOC_TRY(total, total_of(trial.parts));
        trial.seconds = total > 0 ? question_.elements_count / total : unlimited;
        return trial;
    }

    Result<double> total_of(const std::vector<Part>& parts) const {
        std::vector<PeerRates> peers;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            if (parts[i] == Part::none) continue;
            peers.push_back(question_.peers[i]);
            if (parts[i] == Part::whole) continue;
            peers.back().contributes = false;
            peers.back().owns_allowed = false;
        }
        return largest_total(peers, {});
    }

    double samples(const std::vector<Part>& parts) const {
        double sum = 0;
        for (std::size_t i = 0; i < parts.size(); ++i)
            if (parts[i] == Part::whole && question_.peers[i].contributes)
                sum += question_.samples[i];
        return sum;
    }
    std::size_t contributors(const std::vector<Part>& parts) const {
        std::size_t count = 0;
        for (std::size_t i = 0; i < parts.size(); ++i)
            if (parts[i] == Part::whole && question_.peers[i].contributes) ++count;
        return count;
    }
    bool is_enough(const std::vector<Part>& parts) const {
        return contributors(parts) >= contributors_least && samples(parts) >= least_samples_;
    }
    double pace(const std::vector<Part>& parts, double seconds) const {
        return samples(parts) / step_seconds(question_.computing_s, seconds, question_.delayed);
    }

    const LeaveOutQuestion& question_;
    std::vector<std::size_t> order_;
    double least_samples_ = 0;
};

}  // namespace

Result<LeaveOutAnswer> choose_left_out(const LeaveOutQuestion& question) {
    DEDLOC_CHECK(question.samples.size() == question.peers.size() &&
                 question.candidates.size() == question.peers.size() &&
                 question.elements_count > 0);
    return Search(question).run();
}

}  // namespace dedloc::planner
