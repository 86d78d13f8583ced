#include "dedloc/allreduce/mean_reducer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "dedloc/allreduce/gathered.h"
#include "dedloc/allreduce/sparse_sums.h"
#include "dedloc/allreduce/weight_divider.h"
#include "dedloc/codec/topk.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::allreduce {
namespace {

using Piece = std::array<float, piece_elements>;

// 2^k as an exact float; k within what scale_exponent returns.
float power_of_two(int exponent) { return std::ldexp(1.0f, exponent); }

bool is_sum(const PartInput& input) { return !input.members.empty(); }

// There are no grids of sparse contributions.
bool is_owners(const consensus::RoundPlan& plan, std::uint32_t part, const PartInput& input) {
    return is_sum(input) && sums_sparsely(plan, part);
}

codec::CodecId codec_of(const consensus::RoundPlan& plan,
                        std::uint32_t part,
                        const PartInput& input) {
    return is_sum(input) ? codec::CodecId::fp32 : allreduce::codec_of(plan, part);
}

float factor_of(const consensus::RoundPlan& plan, std::uint32_t part, const PartInput& input) {
    if (is_sum(input)) return 1.0f;
    return power_of_two(
        scale_exponent(allreduce::codec_of(plan, part), plan.members[input.member].input));
}

// The members that are in these inputs.
Bytes members_of(const consensus::RoundPlan& plan, const std::vector<PartInput>& inputs) {
    Bytes members = consensus::no_members(plan);
    for (const PartInput& input : inputs) {
        if (!is_sum(input)) base::set_bit(members, input.member);
        for (std::size_t i = 0; i < input.members.size(); ++i) members[i] |= input.members[i];
    }
    return members;
}

std::vector<const consensus::MemberInput*> weights_of(const consensus::RoundPlan& plan,
                                                      const Bytes& members) {
    std::vector<const consensus::MemberInput*> weights;
    for (std::size_t i = 0; i < plan.members.size(); ++i)
        if (base::has_bit(members, i)) weights.push_back(&plan.members[i].input);
    return weights;
}

double samples_of(const consensus::RoundPlan& plan, const PartInput& input) {
    double samples = 0;
    for (const consensus::MemberInput* each : weights_of(plan, members_of(plan, {input})))
        samples += static_cast<double>(each->weight_max());
    return samples;
}

// Sums in member order: of the part's elements from `first` on, as many as `sum` holds.
void add_all(const consensus::RoundPlan& plan,
             std::uint32_t part,
             const std::vector<PartInput>& inputs,
             std::size_t first,
             std::span<float> sum) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (const PartInput& input : inputs) {
        const codec::CodecId codec = codec_of(plan, part, input);
        const ByteView encoded = codec::window(codec, *input.encoded, first, sum.size());
        codec::accumulate_verified(codec, encoded, factor_of(plan, part, input), sum);
    }
}

// Any members' sum is then one that may be added.
constexpr double contribution_magnitude_max =
    static_cast<double>(codec::accumulated_magnitude_max) /
    static_cast<double>(consensus::members_max);

// Infinities and NaN do not leave a sum again, and what is too long makes the sum long, unless the
// others make it short again. With any norm allowed, too long is what nobody may add (codec.h): an
// average that carries it would be refused by all, and its owner blamed.
class SumCheck {
  public:
    SumCheck(const consensus::RoundPlan& plan,
             const std::vector<PartInput>& inputs,
             double norm_max) {
        double length = contribution_magnitude_max;
        if (norm_max > 0 && !inputs.empty()) {
            double samples = samples_of(plan, inputs.front());
            for (const PartInput& input : inputs)
                samples = std::min(samples, samples_of(plan, input));
            length = std::min(length, norm_max * samples / 2);
        }
        squares_max_ = length * length;
    }

    void look_at(std::span<const float> sum) { squares_ += tensor::sum_of_squares(sum); }
    bool shows_nothing_wrong() const { return squares_ <= squares_max_; }  // false: NaN, too

  private:
    double squares_max_ = 0;
    double squares_ = 0;
};

// Squares of the sums in an input, as they would be added. Of few numbers only these are looked at.
double sum_of_squares(const consensus::RoundPlan& plan,
                      std::uint32_t part,
                      const PartInput& input) {
    const codec::CodecId codec = codec_of(plan, part, input);
    if (codec == codec::CodecId::sparse)
        return codec::sum_of_squares_sparse(
            *input.encoded, plan.parts[part].count, factor_of(plan, part, input));
    const auto count = static_cast<std::size_t>(plan.parts[part].count);
    const std::size_t piece = piece_elements_of(codec);
    std::vector<float> memory(std::min(count, piece));
    double squares = 0;
    const auto add_squares = [&](std::size_t first, std::size_t piece_count) {
        const std::span<float> alone = std::span(memory).first(piece_count);
        add_all(plan, part, {input}, first, alone);
        squares += tensor::sum_of_squares(alone);
    };
    for_each_piece(count, add_squares, piece);
    return squares;
}

// Why this one is refused; nullptr: it is not.
const char* refusal(const consensus::RoundPlan& plan,
                    std::uint32_t part,
                    const PartInput& input,
                    double norm_max) {
    const auto count = static_cast<std::size_t>(plan.parts[part].count);
    // A group's sum may be as large as the contributions of all its members.
    const float share =
        norm_max > 0 || is_sum(input) ? 1.0f : static_cast<float>(consensus::members_max);
    if (!codec::verify(codec_of(plan, part, input),
                       *input.encoded,
                       count,
                       factor_of(plan, part, input) * share))
        return "its contribution has numbers that are not finite, or far beyond all use";
    // With its own an owner brings what it has left out of everybody's.
    if (norm_max <= 0 || is_owners(plan, part, input)) return nullptr;
    const double squares = sum_of_squares(plan, part, input);
    const double length = norm_max * samples_of(plan, input);
    return squares > length * length
               ? "the norm of its contribution is beyond the run's averaging.norm_max"
               : nullptr;
}

// Returns the inputs that may be added; `refused` says why the others may not.
std::vector<PartInput> accepted(const consensus::RoundPlan& plan,
                                std::uint32_t part,
                                const std::vector<PartInput>& inputs,
                                double norm_max,
                                std::vector<RefusedInput>& refused) {
    std::vector<PartInput> sound;
    for (const PartInput& input : inputs) {
        if (const char* why = refusal(plan, part, input, norm_max))
            refused.push_back({input.member, why});
        else
            sound.push_back(input);
    }
    return sound;
}

enum class Wanted { average, sum };

// LeftOver collects what the encoding of a part's mean leaves out of its sum.
class LeftOver {
  public:
    LeftOver(std::vector<WeightSegment> weights, std::size_t count)
        : multiplier_(std::move(weights)), rest_(std::make_shared<std::vector<float>>(count)) {}

    // Pieces in order: first the sum, then the bytes of its mean.
    void next_sum(std::span<const float> sum) {
        piece_ = std::span(*rest_).subspan(done_, sum.size());
        done_ += sum.size();
        std::ranges::copy(sum, piece_.begin());
    }
    void next_encoded(codec::CodecId codec, ByteView encoded) {
        Piece memory;
        const std::span<float> sent = std::span(memory).first(piece_.size());
        std::ranges::fill(sent, 0.0f);
        codec::accumulate_verified(codec, encoded, 1.0f, sent);
        multiplier_.multiply_next(sent);
        tensor::add_weighted(piece_, sent, -1.0f);
    }
    std::shared_ptr<const std::vector<float>> rest() const { return rest_; }

  private:
    WeightDivider multiplier_;
    std::shared_ptr<std::vector<float>> rest_;
    std::span<float> piece_;
    std::size_t done_ = 0;
};

// Adds up what is wanted of these inputs; `check` sees the sums on the way.
void add_up(const consensus::RoundPlan& plan,
            std::uint32_t part,
            const std::vector<PartInput>& inputs,
            Wanted wanted,
            SumCheck& check,
            ReducedPart& result) {
    const bool averages = wanted == Wanted::average;
    const auto codec = averages ? average_codec_of(plan, part) : codec::CodecId::fp32;
    const auto count = static_cast<std::size_t>(plan.parts[part].count);
    result.included = members_of(plan, inputs);
    const auto weights = total_weights(weights_of(plan, result.included), plan.parts[part].range());
    WeightDivider divider(weights);
    std::optional<LeftOver> left_over;
    if (averages && sums_sparsely(plan, part)) left_over.emplace(weights, count);
    auto [shared, out] = SharedBytes::for_overwrite(codec::encoded_size(codec, count));
    std::span<std::uint8_t> rest = out;
    for_each_piece(count, [&](std::size_t first, std::size_t piece_count) {
        Piece memory;
        const std::span<float> sum = std::span(memory).first(piece_count);
        add_all(plan, part, inputs, first, sum);
        check.look_at(sum);
        if (left_over) left_over->next_sum(sum);
        if (averages) divider.divide_next(sum);
        const auto encoded = rest.first(codec::encoded_size(codec, piece_count));
        codec::encode_into(codec, sum, encoded);
        if (left_over) left_over->next_encoded(codec, encoded);
        rest = rest.subspan(encoded.size());
    });
    result.encoded = std::move(shared);
    if (averages) result.digest = security::hash_list(*result.encoded);
    result.left_out = left_over ? left_over->rest() : nullptr;
}

// Reduces all inputs, or those that may be added if the sum shows that something is wrong.
ReducedPart reduce_sound(const consensus::RoundPlan& plan,
                         std::uint32_t part,
                         const std::vector<PartInput>& inputs,
                         Wanted wanted,
                         double norm_max) {
    ReducedPart result;
    SumCheck check(plan, inputs, norm_max);
    add_up(plan, part, inputs, wanted, check, result);
    if (check.shows_nothing_wrong()) return result;
    const auto sound = accepted(plan, part, inputs, norm_max, result.refused);
    // Else the sum was long because they agree.
    if (!result.refused.empty()) add_up(plan, part, sound, wanted, check, result);
    return result;
}

// Nobody adds for the others: what may be added is passed on.
ReducedPart gather_sound(const consensus::RoundPlan& plan,
                         std::uint32_t part,
                         const std::vector<PartInput>& inputs,
                         double norm_max) {
    ReducedPart result;
    const auto sound = accepted(plan, part, inputs, norm_max, result.refused);
    result.included = members_of(plan, sound);
    result.encoded = gather(plan, part, sound, result.included);
    result.digest = security::hash_list(*result.encoded);
    return result;
}

}  // namespace

ReducedPart reduce_part(const consensus::RoundPlan& plan,
                        std::uint32_t part,
                        const std::vector<PartInput>& inputs,
                        double norm_max) {
    if (is_gathered(plan, part)) return gather_sound(plan, part, inputs, norm_max);
    return reduce_sound(plan, part, inputs, Wanted::average, norm_max);
}

ReducedPart sum_part(const consensus::RoundPlan& plan,
                     std::uint32_t part,
                     const std::vector<PartInput>& inputs,
                     double norm_max) {
    return reduce_sound(plan, part, inputs, Wanted::sum, norm_max);
}

}  // namespace dedloc::allreduce
