#include "dedloc/collab/gradient_checks.h"

namespace dedloc::collab {
namespace {

validation::ValidatorOptions validator_options(const BackendContext& context,
                                               const allreduce::CenteredClipRule& rule) {
    const CollaborationOptions& options = context.options;
    const run::RobustConfig& robust = *options.run.robust;
    validation::ValidatorOptions made;
    made.check = robust.check;
    made.tolerance = run::recheck_tolerance(options.run);
    if (context.planted.bugs.loose_tolerance) made.tolerance *= 100;
    if (robust.probation > 0) made.right_needed = static_cast<std::uint32_t>(robust.probation);
    made.rule = rule;
    made.stubborn = options.stubborn;
    return made;
}

validation::ValidatorHooks validator_hooks(averaging::Coordinator& engine,
                                           const averaging::Roster& roster,
                                           const OrderNews& names) {
    validation::ValidatorHooks hooks;
    hooks.propose = [&engine](robust::Order order, Bytes evidence) {
        engine.pending_orders().add({std::move(order), std::move(evidence)});
    };
    hooks.audience = [&roster] { return roster.live_trainers(); };
    hooks.name_of = [&names](const PeerId& peer) { return names.name_of(peer); };
    return hooks;
}

}  // namespace

GradientChecks::GradientChecks(const BackendContext& context,
                               averaging::Coordinator& engine,
                               const averaging::Roster& roster,
                               const OrderNews& names)
    : GradientChecks(context,
                     engine,
                     roster,
                     names,
                     validator_options(context, engine.environment().options.clip_rule)) {}

GradientChecks::GradientChecks(const BackendContext& context,
                               averaging::Coordinator& engine,
                               const averaging::Roster& roster,
                               const OrderNews& names,
                               const validation::ValidatorOptions& options)
    : validators_(context.node,
                  context.host,
                  context.signer,
                  context.verifier,
                  engine.environment().ledger,
                  engine.environment().parts,
                  engine.evidence(),
                  context.teller,
                  options,
                  validator_hooks(engine, roster, names)) {
    validation::GradientRules rules;
    rules.tolerance = options.tolerance;
    rules.right_needed = options.right_needed;
    validation::add_gradient_rules(engine.pending_orders().rules(), rules);
}

void GradientChecks::decided(const consensus::Decision& decision) {
    validators_.check_own_orders();
    validators_.check_voters(voters_);
    voters_ = decision.next_voters;
}

void GradientChecks::certified(const consensus::Link& commit,
                               std::shared_ptr<const state::Snapshot> state) {
    validators_.certified(commit.decision, commit.plan, std::move(state));
}

}  // namespace dedloc::collab
