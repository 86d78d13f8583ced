#include "dedloc/allreduce/plan_check.h"

#include <algorithm>

#include "dedloc/allreduce/chunking.h"
#include "dedloc/allreduce/gathered.h"
#include "dedloc/allreduce/part_codec.h"
#include "dedloc/allreduce/routes.h"
#include "dedloc/allreduce/sparse_sums.h"

namespace dedloc::allreduce {
namespace {

Error bad_plan(const char* why) {
    return make_error(ErrorKind::peer_broke_protocol, "a plan is refused: {}", why);
}

Ok check_left_out(const consensus::RoundPlan& plan) {
    const auto rises = [](const PeerId& a, const PeerId& b) { return a >= b; };
    const bool sorted = std::ranges::adjacent_find(plan.left_out, rises) == plan.left_out.end();
    const bool empty = std::ranges::none_of(plan.members, [&](const consensus::PlanMember& member) {
        return plan.leaves_out(member.peer) && (!member.input.is_empty() || member.aggregator);
    });
    return sorted && empty && !plan.leaves_out(plan.leader) ? Ok() : bad_plan("whom it leaves out");
}

// Parts cover what the step moves, and each of them is all in one codec: in that of its tensors, as
// far as we know them.
Ok check_parts(const consensus::RoundPlan& plan, const TransferOptions& options) {
    const auto number = [](codec::CodecId id) { return static_cast<std::uint32_t>(id); };
    DEDLOC_CHECK(options.codec_ranges.empty() ||
                 options.codec_ranges.back().end() == options.vector_count);
    const consensus::ElementRange moved = options.range_of(plan.instance.step);
    std::uint64_t position = moved.offset;
    auto range = options.codec_ranges.begin();
    for (const consensus::PlanPart& part : plan.parts) {
        const std::uint32_t said = plan.codec_of(part);
        const auto is_said = [&](codec::CodecId id) { return number(id) == said; };
        if (!is_said(options.codec) && std::ranges::none_of(options.other_codecs, is_said))
            return bad_plan("its codec");
        const auto codec = static_cast<codec::CodecId>(said);
        if (part.offset != position || part.count == 0 ||
            part.count > longest_part(options, codec, plan.members.size(), plan.groups > 0) ||
            part.count > moved.end() - position || part.owner >= plan.members.size())
            return bad_plan("its parts do not cover the vector");
        if (codec::is_sparse(codec) && part.offset % codec::block_elements(codec) != 0)
            return bad_plan("a part begins inside a chunk of its codec");
        position += part.count;
        if (options.codec_ranges.empty()) continue;
        while (range->end() <= part.offset) ++range;
        if (range->codec != codec || range->end() < position) return bad_plan("a part's codec");
    }
    return position == moved.end() ? Ok() : bad_plan("its parts do not cover the vector");
}

// Sparse contributions of many are added by owners that bring something themselves: with that they
// send what they leave out.
Ok check_sums(const consensus::RoundPlan& plan, const TransferOptions& options) {
    if (plan.sum_codec == 0) return {};
    const auto codec = options.sum_codec(contributors_in(plan));
    if (!codec || static_cast<std::uint32_t>(*codec) != plan.sum_codec)
        return bad_plan("the codec of its sums");
    const auto brings = [&](std::uint32_t member) { return brings_something(plan, member); };
    return owners_bring_something(plan) && std::ranges::all_of(plan.standby, brings)
               ? Ok()
               : bad_plan("an owner of sparse sums brings nothing");
}

}  // namespace

Ok check_plan(const consensus::RoundPlan& plan, const TransferOptions& options) {
    if (plan.members.empty() || plan.members.size() > consensus::members_max)
        return bad_plan("its member count");
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
        if (i > 0 && plan.members[i - 1].peer >= plan.members[i].peer)
            return bad_plan("its members are not sorted");
        DEDLOC_TRY_VOID(consensus::check_input(
            plan.members[i].input, options.vector_count, options.samples_max));
        if (plan.members[i].aggregator &&
            (!plan.members[i].input.is_empty() || plan.members[i].peer == plan.leader))
            return bad_plan("an aggregator contributes or leads");
        if (plan.members[i].weightless &&
            (options.adds_up() || plan.members[i].peer == plan.leader))
            return bad_plan("who weighs nothing in it");
    }
    DEDLOC_TRY_VOID(check_left_out(plan));
    if (plan.whole_count != (options.fragments > 1 ? options.vector_count : 0))
        return bad_plan("the length of the whole vector");
    if (plan.reducer != options.reducer_number()) return bad_plan("its reducer");
    if (plan.groups > 0 && !options.may_have_grids())
        return bad_plan("a grid of what does not add up");
    if (plan.codec != static_cast<std::uint32_t>(options.codec)) return bad_plan("its codec");
    if (plan.bounded_count != options.bounded_count) return bad_plan("where norms are bounded");
    DEDLOC_TRY_VOID(check_parts(plan, options));
    for (const std::uint32_t standby : plan.standby)
        if (standby >= plan.members.size()) return bad_plan("a standby owner is no member");
    DEDLOC_TRY_VOID(check_sums(plan, options));
    DEDLOC_TRY_VOID(check_grid(plan));
    const auto round_max = std::chrono::ceil<std::chrono::milliseconds>(options.deadline_max);
    if (plan.round_ms == 0 || plan.reduce_ms > plan.round_ms || plan.predicted_ms > plan.round_ms ||
        plan.round_ms > round_max.count())
        return bad_plan("its deadlines");
    return {};
}

bool fits_commit(const consensus::RoundPlan& plan,
                 const Digest& digest,
                 const std::vector<consensus::FinishedPart>& averages,
                 const TransferOptions& options) {
    if (averages.size() != plan.parts.size() || !check_plan(plan, options)) return false;
    for (std::uint32_t part = 0; part < averages.size(); ++part)
        if (averages[part].part != part || !consensus::fits_plan(averages[part], plan, digest))
            return false;
    return true;
}

Task<bool> is_sound(runtime::Workers& workers,
                    const consensus::RoundPlan& plan,
                    consensus::FinishedPart header,
                    SharedBytes encoded) {
    if (!is_average_size(plan, header, encoded->size())) co_return false;
    // A worker may outlive the plan: it takes what it reads of it.
    consensus::RoundPlan of_part;
    of_part.codec = plan.codec;
    of_part.sum_codec = plan.sum_codec;
    of_part.parts = {plan.parts[header.part]};
    if (is_gathered(plan, header.part)) of_part.members = plan.members;
    header.part = 0;
    auto work = [plan = std::move(of_part),
                 header = std::move(header),
                 encoded = std::move(encoded)] { return is_sound_average(plan, header, *encoded); };
    const bool sound = co_await workers.run(std::move(work));
    co_return sound;
}

}  // namespace dedloc::allreduce
