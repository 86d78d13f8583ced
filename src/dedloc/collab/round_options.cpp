#include "dedloc/collab/round_options.h"

#include <algorithm>
#include <memory>

#include "dedloc/allreduce/centered_clip_reducer.h"
#include "dedloc/collab/averaging_backend.h"
#include "dedloc/run/vector_codecs.h"

namespace dedloc::collab {
namespace {

void set_codecs(averaging::RoundOptions& round, const CollaborationOptions& options) {
    const std::optional<codec::CodecId> one = options.run.averaging.codec;
    round.codec = one.value_or(run::codec_of_large_tensors);
    // An aggregator has no layout, and takes any of them.
    round.other_codecs = {run::codec_of_buffers};
    if (!one) round.other_codecs.push_back(run::codec_of_small_tensors);
    auto ranges = run::vector_codecs(options.run.averaging, options.layout);
    if (one && ranges.size() <= 1) return;
    round.codec_ranges = std::move(ranges);
    if (options.layout.buffers_count > 0) round.bounded_count = options.layout.parameters_count;
}

// Clips, and proves it.
void set_robust(averaging::RoundOptions& round, const run::RobustConfig& robust) {
    allreduce::CenteredClipRule& rule = round.clip_rule;
    rule.tau = robust.tau;
    rule.iterations_max = static_cast<std::uint32_t>(robust.iterations_max);
    rule.eps = robust.eps;
    rule.weight_cap = robust.weight_cap;
    round.reducer = std::make_shared<allreduce::CenteredClipReducer>(rule);
    round.proves = true;
    round.byzantine_quorum = robust.quorum == "byzantine";
}

}  // namespace

// A batch, and one that is carried: nobody computes on when the whole batch is
// there. Of each, two micro-batches may have been in the making then (one computed ahead), and a
// machine's own may be larger than the run's. A fragment's contribution is of as many steps as
// there are fragments.
std::uint64_t samples_max(const run::RunFile& run) {
    const run::BatchConfig& batch = run.batch;
    const std::uint64_t in_the_making =
        batch.micro == run::micro_auto ? batch.target * 2 : batch.micro * 8;
    return (batch.target * 2 + in_the_making) * run.fragments();
}

averaging::RoundOptions round_options(const CollaborationOptions& options, const Planted& planted) {
    averaging::RoundOptions round;
    set_codecs(round, options);
    round.vector_count = options.layout.vector_count();
    round.fragments = options.run.fragments();
    round.part_elements_max = options.run.averaging.part_elements_max;
    // A share below one whole part is not worth its messages, however small the run's parts are.
    // A part of such a codec is some kilobytes.
    constexpr std::uint64_t sparse_elements_min = 1u << 17;
    if (codec::is_sparse(round.codec)) round.part_elements_min = sparse_elements_min;
    round.part_elements_min = std::min(round.part_elements_min, round.part_elements_max);
    round.samples_max = samples_max(options.run);
    round.batch_target = options.run.batch.target;
    round.norm_max = options.run.averaging.norm_max;
    round.leave_out_slow = options.run.averaging.leave_out_slow;
    round.delayed = options.run.averaging.delayed;
    round.members_max = options.members_max;
    round.gather_max = static_cast<std::size_t>(options.run.averaging.gather_max);
    round.group_max = static_cast<std::size_t>(options.run.averaging.group_max);
    round.deadline_min = options.run.averaging.round_deadline_min;
    round.deadline_max = options.run.averaging.round_deadline_max;
    round.quorum_timeout = options.run.averaging.quorum_timeout;
    round.voter_after_contributions = options.run.averaging.voter_after_contributions;
    round.upload_max = options.upload_max;
    round.download_max = options.download_max;
    if (options.role == membership::Role::aggregator)
        round.reduce_bytes_max = options.reduce_bytes_max;
    if (options.run.robust) {
        set_robust(round, *options.run.robust);
        round.checks = options.checks_others && options.run.is_checked() &&
                       options.role == membership::Role::trainer;
    }
    if (planted.reducer) round.reducer = planted.reducer;
    round.bugs = planted.bugs;
    return round;
}

averaging::RoundEnvironment round_environment(const BackendContext& context,
                                              consensus::Ledger& ledger,
                                              allreduce::PartStore& parts,
                                              const averaging::Roster& roster,
                                              averaging::RoundListener& listener,
                                              consensus::OrderJudge& judge) {
    return {context.node,
            context.host,
            context.signer,
            context.verifier,
            ledger,
            parts,
            roster,
            listener,
            context.teller,
            round_options(context.options, context.planted),
            judge};
}

consensus::ProtectionRules protection_rules(const run::RunFile& run) {
    consensus::ProtectionRules rules;
    if (!run.robust) return rules;
    rules.on = true;
    rules.tau = run.robust->tau;
    rules.weight_cap = run.robust->weight_cap;
    // Time alone proves nothing.
    if (run.is_checked()) rules.trust_after = run.robust->trust_after;
    return rules;
}

bool checks_newcomers(const run::RunFile& run) {
    return run.is_checked() && run.robust->probation > 0;
}

std::size_t kept_bytes(const CollaborationOptions& options) {
    const averaging::RoundOptions round = round_options(options, {});
    return replica::kept_averages_bytes(
        round.vector_count, round.element_bytes(), options.kept_bytes_max, options.kept_bytes_most);
}

}  // namespace dedloc::collab
