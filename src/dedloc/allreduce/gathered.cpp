#include "dedloc/allreduce/gathered.h"

#include <algorithm>
#include <array>

#include "dedloc/allreduce/part_codec.h"
#include "dedloc/allreduce/part_means.h"
#include "dedloc/allreduce/weight_divider.h"
#include "dedloc/base/bits.h"
#include "dedloc/codec/topk.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::allreduce {
namespace {

std::size_t part_count(const consensus::RoundPlan& plan, std::uint32_t part) {
    return static_cast<std::size_t>(plan.parts[part].count);
}

std::size_t contribution_size(const consensus::RoundPlan& plan, std::uint32_t part) {
    return codec::encoded_size(codec_of(plan, part), part_count(plan, part));
}

std::size_t bitmap_size(const consensus::RoundPlan& plan) {
    return consensus::no_members(plan).size();
}

std::size_t count_before(const Bytes& included, std::size_t member) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < member; ++i) count += base::has_bit(included, i) ? 1 : 0;
    return count;
}

// The contributions in the bytes of a gathered average, as inputs of a reduction.
// Errors: peer_broke_protocol: no such bytes.
Result<std::vector<std::pair<std::uint32_t, ByteView>>> contributions_in(
    const consensus::RoundPlan& plan, std::uint32_t part, ByteView encoded) {
    const std::size_t bitmap = bitmap_size(plan);
    const std::size_t each = contribution_size(plan, part);
    std::vector<std::pair<std::uint32_t, ByteView>> found;
    if (encoded.size() >= bitmap && base::are_bits_of(encoded.first(bitmap), plan.members.size())) {
        const ByteView included = encoded.first(bitmap);
        ByteView rest = encoded.subspan(bitmap);
        for (std::uint32_t i = 0; i < plan.members.size(); ++i) {
            if (!base::has_bit(included, i)) continue;
            if (rest.size() < each || plan.members[i].input.is_empty())
                return make_error(ErrorKind::peer_broke_protocol,
                                  "an average has another contribution than it says");
            found.emplace_back(i, rest.first(each));
            rest = rest.subspan(each);
        }
        if (rest.empty()) return found;
    }
    return make_error(ErrorKind::peer_broke_protocol, "an average of the wrong length");
}

Error not_finite(std::uint32_t part) {
    return make_error(
        ErrorKind::peer_broke_protocol, "averaged part {} has numbers that are not finite", part);
}

// A bit for each element of a piece that a contribution has a number for.
using NamedElements = std::array<std::uint64_t, codec::topk_chunk / 64>;

Ok decode_gathered(const consensus::RoundPlan& plan,
                   std::uint32_t part,
                   ByteView encoded,
                   std::span<float> out) {
    DEDLOC_TRY(const auto contributions, contributions_in(plan, part, encoded));
    const codec::CodecId codec = codec_of(plan, part);
    std::vector<const consensus::MemberInput*> weights;
    for (const auto& [member, bytes] : contributions)
        weights.push_back(&plan.members[member].input);
    WeightDivider divider(total_weights(weights, plan.parts[part].range()));
    bool finite = true;
    const auto add_piece = [&](std::size_t first, std::size_t count) {
        const std::span<float> sum = out.subspan(first, count);
        std::ranges::fill(sum, 0.0f);
        const auto weight = codec == codec::CodecId::sparse ? divider.skip(count) : std::nullopt;
        if (weight) {
            NamedElements named{};
            for (const auto& [member, bytes] : contributions)
                codec::add_weighted_sparse(sum,
                                           codec::window(codec, bytes, first, count),
                                           scale_of(plan, part, member),
                                           named);
            finite = codec::divide_named(sum, named, static_cast<float>(*weight)) && finite;
            return;
        }
        for (const auto& [member, bytes] : contributions)
            codec::accumulate_verified(codec,
                                       codec::window(codec, bytes, first, count),
                                       scale_of(plan, part, member),
                                       sum);
        divider.divide_next(sum);
        finite = finite && tensor::all_finite(sum);
    };
    for_each_piece(out.size(), add_piece, piece_elements_of(codec));
    if (finite) return {};
    return not_finite(part);
}

}  // namespace

bool is_gathered(const consensus::RoundPlan& plan, std::uint32_t part) {
    return codec::is_sparse(codec_of(plan, part)) && plan.sum_codec == 0;
}

SharedBytes gather(const consensus::RoundPlan& plan,
                   std::uint32_t part,
                   const std::vector<PartInput>& inputs,
                   const Bytes& included) {
    const std::size_t each = contribution_size(plan, part);
    auto [shared, out] = SharedBytes::for_overwrite(included.size() + each * inputs.size());
    auto to = std::ranges::copy(included, out.begin()).out;
    for (const PartInput& input : inputs) to = std::ranges::copy(*input.encoded, to).out;
    return shared;
}

bool is_average_size(const consensus::RoundPlan& plan,
                     const consensus::FinishedPart& header,
                     std::size_t bytes) {
    if (!is_gathered(plan, header.part))
        return bytes == codec::encoded_size(average_codec_of(plan, header.part),
                                            part_count(plan, header.part));
    return bytes == bitmap_size(plan) + contribution_size(plan, header.part) *
                                            count_before(header.included, plan.members.size());
}

bool is_sound_average(const consensus::RoundPlan& plan,
                      const consensus::FinishedPart& header,
                      ByteView encoded) {
    const std::uint32_t part = header.part;
    if (!is_gathered(plan, part))
        return is_sound_average(
            average_codec_of(plan, part), encoded, part_count(plan, part), header.digest);
    const codec::CodecId codec = codec_of(plan, part);
    const auto contributions = contributions_in(plan, part, encoded);
    if (!contributions || security::hash_list(encoded) != header.digest ||
        !std::ranges::equal(encoded.first(bitmap_size(plan)), header.included))
        return false;
    return std::ranges::all_of(*contributions, [&](const auto& one) {
        const float magnitude =
            scale_of(plan, part, one.first) * static_cast<float>(consensus::members_max);
        return codec::verify(codec, one.second, part_count(plan, part), magnitude).has_value();
    });
}

Ok decode_average(const consensus::RoundPlan& plan,
                  std::uint32_t part,
                  ByteView encoded,
                  std::span<float> out) {
    DEDLOC_TRY_VOID(codec::codec_from_number(plan.codec_of(plan.parts[part])));
    if (is_gathered(plan, part)) return decode_gathered(plan, part, encoded, out);
    DEDLOC_TRY(const codec::CodecId codec,
               codec::codec_from_number(static_cast<std::uint64_t>(average_codec_of(plan, part))));
    DEDLOC_TRY_VOID(codec::decode(codec, encoded, out));
    if (tensor::all_finite(out)) return {};
    return not_finite(part);
}

std::optional<OwnStretch> stretch_of(const consensus::RoundPlan& plan,
                                     const consensus::FinishedPart& header,
                                     std::uint32_t member) {
    if (!is_gathered(plan, header.part) || !header.includes(member)) return std::nullopt;
    const std::size_t each = contribution_size(plan, header.part);
    return OwnStretch{bitmap_size(plan) + each * count_before(header.included, member), each};
}

SharedBytes without(const SharedBytes& encoded, const OwnStretch& stretch) {
    auto [shared, out] = SharedBytes::for_overwrite(encoded->size() - stretch.size);
    const ByteView whole = *encoded;
    const auto to = std::ranges::copy(whole.first(stretch.offset), out.begin()).out;
    std::ranges::copy(whole.subspan(stretch.offset + stretch.size), to);
    return shared;
}

SharedBytes with(ByteView rest, const OwnStretch& stretch, ByteView own) {
    auto [shared, out] = SharedBytes::for_overwrite(rest.size() + own.size());
    auto to = std::ranges::copy(rest.first(stretch.offset), out.begin()).out;
    to = std::ranges::copy(own, to).out;
    std::ranges::copy(rest.subspan(stretch.offset), to);
    return shared;
}

}  // namespace dedloc::allreduce
