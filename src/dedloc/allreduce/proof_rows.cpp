#include "dedloc/allreduce/proof_rows.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "dedloc/allreduce/part_means.h"
#include "dedloc/base/float_environment.h"
#include "dedloc/robust/centered_clip.h"
#include "dedloc/robust/spread.h"

namespace dedloc::allreduce {
namespace {

// A codec's error counts up to this share of tau, so that an owner gains no room by an average of
// absurd length. Who is beyond it honestly is reduced once more, and found right.
constexpr double codec_error_max = 0.05;

// The squared error that rounding to 8 bits left, at most.
double squared_error_of_blocks(std::span<const float> values) {
    constexpr double of_range = 0.002;  // of a block's
    double error = 0;
    const std::size_t block = codec::block_elements(codec::CodecId::blockwise8);
    for (std::size_t first = 0; first < values.size(); first += block) {
        const auto of_block = values.subspan(first, std::min(block, values.size() - first));
        const auto [least, most] = std::ranges::minmax(of_block);
        const double each = of_range * (static_cast<double>(most) - static_cast<double>(least));
        error += each * each * static_cast<double>(of_block.size());
    }
    return error;
}

// The error of the other codecs, as codec/codec.h states it.
double squared_error(codec::CodecId codec, double squared_length, std::size_t elements) {
    switch (codec) {
        case codec::CodecId::fp32:
            return squared_length * std::ldexp(1.0, -44);
        case codec::CodecId::fp16:
            return squared_length * std::ldexp(1.0, -22) +
                   static_cast<double>(elements) * std::ldexp(1.0, -50);
        case codec::CodecId::bf16:
            return squared_length * std::ldexp(1.0, -16);
        case codec::CodecId::blockwise8:
        case codec::CodecId::sparse:  // robust runs refuse them
        case codec::CodecId::sparse_sum:
        case codec::CodecId::low_rank:
            break;
    }
    return 0;
}

}  // namespace

ProofRows::ProofRows(std::shared_ptr<const consensus::RoundPlan> plan,
                     const CenteredClipRule& rule,
                     const Digest& seed,
                     std::vector<ReducedAverage> averages,
                     runtime::Workers& workers)
    : whole_plan_(std::move(plan)),
      plan_(*whole_plan_),
      rule_(rule),
      projections_(seed),
      averages_(std::move(averages)),
      workers_(workers),
      polled_at_(averages_.size()) {
    std::set<std::uint32_t> owners;
    for (const ReducedAverage& average : averages_) owners.insert(average.header.owner);
    owners_.assign(owners.begin(), owners.end());
    workers_.parallel_for(averages_.size(),
                          [this](std::size_t part) { look_at(static_cast<std::uint32_t>(part)); });
}

void ProofRows::look_at(std::uint32_t part) {
    Average& average = polled_at_[part];
    for (std::uint32_t member = 0; member < plan_.members.size(); ++member) {
        const bool in = averages_[part].header.includes(member);
        average.weights.push_back(in ? reduction_weight(plan_, part, member) : 0.0);
    }
    average.weights = robust::capped_weights(average.weights, rule_.weight_cap);
    if (!is_proved(part) || !averages_[part].encoded) return;
    average.tau = tau_of(plan_, part, rule_);
    const codec::CodecId codec = codec_of(plan_, part);
    const auto elements = static_cast<std::size_t>(plan_.parts[part].count);
    robust::Projections::Sums sums;
    double error = 0;
    std::vector<float> piece(std::min(elements, robust::piece_elements));
    for (std::size_t first = 0; first < elements; first += piece.size()) {
        piece.resize(std::min(piece.size(), elements - first));
        std::ranges::fill(piece, 0.0f);
        codec::accumulate_verified(
            codec, codec::window(codec, *averages_[part].encoded, first, piece.size()), 1, piece);
        projections_.add(plan_.parts[part].offset + first, piece, {}, sums);
        if (codec == codec::CodecId::blockwise8) error += squared_error_of_blocks(piece);
    }
    error += squared_error(codec, sums.squared_distance, elements);
    average.projected = sums.projected;
    average.squared_length = sums.squared_distance;
    average.codec_error = std::min(std::sqrt(error), codec_error_max * average.tau);
}

std::vector<std::uint32_t> ProofRows::parts_of(std::uint32_t owner, std::uint32_t member) const {
    std::vector<std::uint32_t> parts;
    for (std::uint32_t part = 0; part < averages_.size(); ++part)
        if (averages_[part].header.owner == owner && averages_[part].header.includes(member) &&
            is_proved(part))
            parts.push_back(part);
    return parts;
}

bool ProofRows::weighs_anywhere(std::uint32_t member) const {
    return std::ranges::any_of(
        polled_at_, [member](const Average& average) { return average.weights[member] > 0; });
}

robust::Projections::Sums ProofRows::sums_of(std::uint32_t part,
                                             std::uint32_t member,
                                             const SharedBytes& encoded) const {
    robust::Projections::Sums sums;
    const std::vector<PartInput> inputs{{member, encoded}};
    std::vector<RefusedInput> refused;
    if (sound_inputs(plan_, part, inputs, refused).empty()) return sums;
    const PartMeans means(plan_, part, inputs);
    const codec::CodecId codec = codec_of(plan_, part);
    const auto elements = static_cast<std::size_t>(plan_.parts[part].count);
    std::vector<float> mean(std::min(elements, robust::piece_elements));
    std::vector<float> average(mean.size());
    for (std::size_t first = 0; first < elements; first += robust::piece_elements) {
        mean.resize(std::min(robust::piece_elements, elements - first));
        average.assign(mean.size(), 0.0f);
        codec::accumulate_verified(
            codec, codec::window(codec, *averages_[part].encoded, first, mean.size()), 1, average);
        means.read(0, first, mean);
        projections_.add(plan_.parts[part].offset + first, mean, average, sums);
    }
    return sums;
}

// By what weights in rows are divided, so that a row is no longer than a clipped difference.
double ProofRows::weight_of_one() const {
    std::uint64_t most = 1;
    for (const consensus::PlanMember& member : plan_.members)
        most = std::max(most, member.input.weight_max());
    return static_cast<double>(most);
}

Result<robust::Row> ProofRows::row(std::uint32_t owner,
                                   std::uint32_t member,
                                   const InputOf& input) const {
    const std::vector<std::uint32_t> parts = parts_of(owner, member);
    std::vector<SharedBytes> encoded;
    for (const std::uint32_t part : parts) {
        encoded.push_back(input(part));
        if (!averages_[part].encoded || !encoded.back() ||
            encoded.back()->size() !=
                codec::encoded_size(codec_of(plan_, part),
                                    static_cast<std::size_t>(plan_.parts[part].count)))
            return make_error(ErrorKind::not_found, "a part of a contribution is not to be had");
    }
    std::vector<robust::Projections::Sums> sums(parts.size());
    workers_.parallel_for(parts.size(),
                          [&](std::size_t i) { sums[i] = sums_of(parts[i], member, encoded[i]); });
    robust::RowMaker maker(projections_);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const Average& average = polled_at_[parts[i]];
        maker.add_part(
            sums[i], average.tau, average.projected, average.weights[member] / weight_of_one());
    }
    return maker.row();
}

// In all parts that have rows.
bool ProofRows::is_whole(std::uint32_t member) const {
    for (std::uint32_t part = 0; part < polled_at_.size(); ++part)
        if (is_proved(part) && !(polled_at_[part].weights[member] > 0)) return false;
    return true;
}

// A contribution that is not in all parts is further from the others than it was.
robust::StepSize ProofRows::size(
    const std::map<std::uint32_t, std::vector<robust::Row>>& rows) const {
    const FloatEnvironmentGuard guard;
    std::vector<std::vector<robust::Row>> whole;
    std::vector<std::vector<robust::Row>> all;
    for (const auto& [member, of_member] : rows) {
        if (!weighs_anywhere(member)) continue;
        all.push_back(of_member);
        if (is_whole(member)) whole.push_back(of_member);
    }
    double squares = 0;
    for (const Average& average : polled_at_) squares = squares + average.squared_length;
    robust::StepSize size;
    size.length = std::sqrt(squares);
    size.distance = robust::typical_distance(whole.size() < 2 ? all : whole);
    if (all.size() < 2) size.distance = size.length;
    return size;
}

Ok ProofRows::check_sums(std::uint32_t owner, const std::vector<const robust::Row*>& rows) const {
    std::vector<robust::PartAllowance> allowances;
    std::set<std::uint32_t> included;
    for (std::uint32_t part = 0; part < averages_.size(); ++part) {
        if (averages_[part].header.owner != owner || !is_proved(part)) continue;
        const Average& average = polled_at_[part];
        double weight = 0;
        for (std::uint32_t member = 0; member < average.weights.size(); ++member) {
            weight += average.weights[member];
            if (average.weights[member] > 0) included.insert(member);
        }
        allowances.push_back({weight, average.tau, average.codec_error});
    }
    std::vector<robust::WeightedRow> weighted;
    for (const std::uint32_t member : included) {
        if (rows[member] == nullptr)
            return make_error(ErrorKind::conflict, "a row about an owner is missing");
        weighted.push_back({weight_of_one(), rows[member]});
    }
    return robust::check_sums(weighted, allowances, rule_.eps);
}

}  // namespace dedloc::allreduce
