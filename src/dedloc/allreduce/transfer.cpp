#include "dedloc/allreduce/transfer.h"

#include "dedloc/allreduce/part_codec.h"

namespace dedloc::allreduce {
namespace {

constexpr Duration clipped_told_every = 1min;

struct Encoded {
    SharedBytes bytes;
    bool clipped = false;
};

std::span<const float> own_sum(const Transfer& transfer, std::uint32_t part) {
    const consensus::PlanPart& range = transfer.plan.parts[part];
    return std::span(transfer.input->sum)
        .subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.count));
}

void tell_of_clipped(const Transfer& transfer, codec::CodecId codec) {
    std::optional<TimePoint>& told = transfer.state.clipped_told;
    if (told && transfer.now() - *told < clipped_told_every) return;
    told = transfer.now();
    transfer.environment.teller.tell(
        events::ValuesClipped{},
        {},
        fmt::format("gradients of this peer are beyond the range of {} and are cut off there; "
                    "scale the loss down, clip them, or take another averaging.codec",
                    codec::to_string(codec)));
}

}  // namespace

Task<SharedBytes> encode_own(Transfer& transfer, std::uint32_t part) {
    if (const auto encoded = transfer.encoded_own.find(part); encoded != transfer.encoded_own.end())
        co_return encoded->second;
    const codec::CodecId codec = codec_of(transfer.plan, part);
    const std::span<const float> sum = own_sum(transfer, part);
    if (SharedBytes lies = contribution_as_it_lies(codec, sum, transfer.input)) co_return lies;
    auto work = [input = transfer.input, codec, sum] {
        SharedBytes encoded = encode_contribution(codec, sum, input->input);
        const bool clipped = codec::is_at_its_range(codec, *encoded);
        return Encoded{std::move(encoded), clipped};
    };
    Encoded own = co_await transfer.environment.node.workers.run(std::move(work));
    if (own.clipped) tell_of_clipped(transfer, codec);
    if (codec::is_sparse(codec)) transfer.encoded_own.insert_or_assign(part, own.bytes);
    co_return std::move(own.bytes);
}

SharedBytes own_whole(const Transfer& transfer, std::uint32_t part) {
    const std::span<const float> sum = own_sum(transfer, part);
    SharedBytes lies = contribution_as_it_lies(codec::CodecId::fp32, sum, transfer.input);
    return lies ? lies : encode_contribution(codec::CodecId::fp32, sum, transfer.input->input);
}

}  // namespace dedloc::allreduce
