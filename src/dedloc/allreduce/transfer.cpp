#include "dedloc/allreduce/transfer.h"

#include "dedloc/allreduce/part_codec.h"

namespace dedloc::allreduce {

Task<SharedBytes> encode_own(const Transfer& transfer, std::uint32_t part) {
    const consensus::PlanPart& range = transfer.plan.parts[part];
    const codec::CodecId codec = codec_of(transfer.plan, part);
    const std::span<const float> sum =
        std::span(transfer.input->sum)
            .subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.count));
    if (SharedBytes lies = contribution_as_it_lies(codec, sum, transfer.input)) co_return lies;
    auto work = [input = transfer.input, codec, sum] {
        return encode_contribution(codec, sum, input->input);
    };
    SharedBytes encoded = co_await transfer.environment.node.workers.run(std::move(work));
    co_return encoded;
}

}  // namespace dedloc::allreduce
