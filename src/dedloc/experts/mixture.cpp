#include "dedloc/experts/mixture.h"

#include <algorithm>
#include <cmath>

#include "dedloc/runtime/together.h"

namespace dedloc::experts {
namespace {

// Rows of a tensor in the order of `rows`.
Tensor gathered(const Tensor& from, const std::vector<std::size_t>& rows) {
    Tensor to;
    to.shape = from.shape;
    to.shape.front() = static_cast<std::int64_t>(rows.size());
    to.values.reserve(rows.size() * from.row_elements());
    for (const std::size_t row : rows) {
        const auto values = from.row(row);
        to.values.insert(to.values.end(), values.begin(), values.end());
    }
    return to;
}

// Softmax over the scores of the terms, kept in `weight`.
void normalise(std::vector<MixtureClient::Passed::Term>& terms) {
    double top = terms.front().weight;
    for (const auto& term : terms) top = std::max(top, term.weight);
    double sum = 0;
    for (auto& term : terms) {
        term.weight = std::exp(term.weight - top);
        sum += term.weight;
    }
    for (auto& term : terms) term.weight /= sum;
}

struct Timing {
    runtime::Clock& clock;
    Duration& longest;
    TimePoint begun = clock.now();
    ~Timing() { longest = std::max(longest, clock.now() - begun); }
};

}  // namespace

bool MixtureClient::Passed::any_lost() const {
    return std::find(lost.begin(), lost.end(), true) != lost.end();
}

bool MixtureClient::Passed::all_lost() const {
    return std::find(lost.begin(), lost.end(), false) == lost.end();
}

MixtureClient::MixtureClient(p2p::Host& host,
                             Directory& directory,
                             RemoteExperts& remote,
                             MixtureOptions options)
    : host_(host), directory_(directory), remote_(remote), options_(std::move(options)) {}

std::vector<MixtureClient::Share> MixtureClient::shares_of(
    const Tensor& inputs, const std::vector<std::vector<Chosen>>& chosen) const {
    std::map<ExpertUid, std::size_t> index;
    std::vector<Share> shares;
    for (std::size_t row = 0; row < chosen.size(); ++row)
        for (const Chosen& choice : chosen[row]) {
            const auto [at, is_new] = index.emplace(choice.location.uid, shares.size());
            if (is_new) shares.emplace_back().location = choice.location;
            shares[at->second].rows.push_back(row);
        }
    for (Share& share : shares) share.inputs = gathered(inputs, share.rows);
    return shares;
}

// Nobody rests without a substitute: the only server of a grid is asked whatever it did.
void MixtureClient::leave_out_resting(std::vector<Share>& shares, std::size_t rows_count) const {
    std::vector<std::size_t> others(rows_count);
    for (Share& share : shares) {
        share.left_out = remote_.rests(share.location.server);
        if (share.left_out) continue;
        for (const std::size_t row : share.rows) ++others[row];
    }
    const std::size_t enough = std::max<std::size_t>(1, options_.at_least);
    const auto answered =
        std::ranges::count_if(others, [enough](std::size_t experts) { return experts >= enough; });
    if (2 * static_cast<std::size_t>(answered) >= rows_count) return;
    for (Share& share : shares) share.left_out = false;
}

Task<void> MixtureClient::call_forward(Share* share) {
    ++counts_.calls;
    if (share->left_out) {
        ++counts_.failed;
        directory_.doubt(share->location);
        co_return;
    }
    std::vector<Tensor> inputs;
    inputs.push_back(share->inputs);
    auto outputs = co_await remote_.forward(share->location, std::move(inputs));
    if (!outputs || outputs->front().values.size() != share->inputs.values.size()) {
        ++counts_.failed;
        directory_.doubt(share->location);
        co_return;
    }
    share->outputs = std::move(outputs->front());
    share->answered = true;
}

Task<Result<MixtureClient::Passed>> MixtureClient::forward(Tensor inputs,
                                                           std::vector<GridScores> scores) {
    DEDLOC_CHECK(scores.size() == inputs.rows() && inputs.rows() > 0);
    const Timing timing{host_.clock(), counts_.longest};
    std::vector<GridScores> asked = scores;
    const BeamOptions beam{.best = options_.best, .width = options_.beam_width};
    const TimePoint search_end = timing.begun + options_.search_max;
    const auto chosen =
        co_await beam_search(directory_, options_.grid, std::move(asked), beam, search_end);
    Passed passed;
    passed.shares = shares_of(inputs, chosen);
    leave_out_resting(passed.shares, inputs.rows());
    std::vector<Task<void>> calls;
    for (Share& share : passed.shares) calls.push_back(call_forward(&share));
    const TimePoint end = host_.clock().now() + options_.batch_max;
    Task<void> all = runtime::all_of(std::move(calls));
    co_await runtime::first_of(std::move(all), host_.clock().sleep_until(end));

    passed.outputs = inputs;
    std::fill(passed.outputs.values.begin(), passed.outputs.values.end(), 0.0f);
    passed.terms.resize(inputs.rows());
    passed.lost.assign(inputs.rows(), false);
    for (std::size_t i = 0; i < passed.shares.size(); ++i) {
        const Share& share = passed.shares[i];
        if (!share.answered) continue;
        for (std::size_t j = 0; j < share.rows.size(); ++j) {
            const std::size_t row = share.rows[j];
            passed.terms[row].push_back(
                {.share = i, .row = j, .weight = score_of(share.location.uid, scores[row])});
        }
    }
    const std::size_t width = inputs.row_elements();
    for (std::size_t row = 0; row < passed.terms.size(); ++row) {
        auto& terms = passed.terms[row];
        ++counts_.rows;
        if (terms.size() < std::max<std::size_t>(1, options_.at_least)) {
            terms.clear();
            passed.lost[row] = true;
            ++counts_.rows_lost;
            continue;
        }
        normalise(terms);
        float* out = &passed.outputs.values[row * width];
        for (const auto& term : terms) {
            const auto values = passed.shares[term.share].outputs.row(term.row);
            const auto weight = static_cast<float>(term.weight);
            for (std::size_t j = 0; j < width; ++j) out[j] += weight * values[j];
        }
    }
    co_return passed;
}

Task<void> MixtureClient::call_backward(Share* share,
                                        Tensor gradients,
                                        Tensor* result,
                                        bool* answered) {
    ++counts_.calls;
    std::vector<Tensor> inputs;
    inputs.push_back(share->inputs);
    std::vector<Tensor> outer;
    outer.push_back(std::move(gradients));
    auto inner = co_await remote_.backward(share->location, std::move(inputs), std::move(outer));
    if (!inner || inner->front().values.size() != share->inputs.values.size()) {
        ++counts_.failed;
        directory_.doubt(share->location);
        co_return;
    }
    *result = std::move(inner->front());
    *answered = true;
}

Task<MixtureClient::Gradients> MixtureClient::backward(Passed passed, Tensor output_gradients) {
    const Timing timing{host_.clock(), counts_.longest};
    const std::size_t width = passed.outputs.row_elements();
    Gradients gradients;
    gradients.inputs = passed.outputs;
    std::fill(gradients.inputs.values.begin(), gradients.inputs.values.end(), 0.0f);
    GridScores none;
    for (const std::uint32_t size : options_.grid.sizes) none.emplace_back(size, 0.0f);
    gradients.scores.assign(passed.terms.size(), none);

    std::vector<Tensor> outer;
    for (const Share& share : passed.shares)
        outer.push_back(share.answered
                            ? zeros(share.rows.size(),
                                    std::vector<std::int64_t>{static_cast<std::int64_t>(width)})
                            : Tensor());
    for (std::size_t row = 0; row < passed.terms.size(); ++row) {
        const auto incoming = output_gradients.row(row);
        // The softmax's gradient: each score's slope is its weight times how far its expert's
        // output lies from the mix, along the gradient.
        double mean = 0;
        std::vector<double> along;
        for (const auto& term : passed.terms[row]) {
            const auto values = passed.shares[term.share].outputs.row(term.row);
            double product = 0;
            float* out = &outer[term.share].values[term.row * width];
            for (std::size_t j = 0; j < width; ++j) {
                product += static_cast<double>(incoming[j]) * values[j];
                out[j] = static_cast<float>(term.weight) * incoming[j];
            }
            along.push_back(product);
            mean += term.weight * product;
        }
        for (std::size_t i = 0; i < along.size(); ++i) {
            const auto& term = passed.terms[row][i];
            const ExpertUid& uid = passed.shares[term.share].location.uid;
            const auto slope = static_cast<float>(term.weight * (along[i] - mean));
            for (std::size_t axis = 0; axis < uid.coordinates.size(); ++axis)
                gradients.scores[row][axis][uid.coordinates[axis]] += slope;
        }
    }
    std::vector<Tensor> results(passed.shares.size());
    const auto answered = std::make_unique<bool[]>(passed.shares.size());
    std::vector<Task<void>> calls;
    for (std::size_t i = 0; i < passed.shares.size(); ++i) {
        Share& share = passed.shares[i];
        if (!share.answered) continue;
        outer[i].shape = share.inputs.shape;
        calls.push_back(call_backward(&share, std::move(outer[i]), &results[i], &answered[i]));
    }
    const TimePoint end = host_.clock().now() + options_.batch_max;
    Task<void> all = runtime::all_of(std::move(calls));
    co_await runtime::first_of(std::move(all), host_.clock().sleep_until(end));
    for (std::size_t i = 0; i < passed.shares.size(); ++i) {
        if (!answered[i]) continue;
        const Share& share = passed.shares[i];
        for (std::size_t j = 0; j < share.rows.size(); ++j) {
            float* out = &gradients.inputs.values[share.rows[j] * width];
            const auto values = results[i].row(j);
            for (std::size_t k = 0; k < width; ++k) out[k] += values[k];
        }
    }
    co_return gradients;
}

}  // namespace dedloc::experts
