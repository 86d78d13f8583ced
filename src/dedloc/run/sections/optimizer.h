// [optimizer] and [schedule], also below [local].

#pragma once
#include "dedloc/optim/optimizer.h"
#include "dedloc/run/field_rules.h"

namespace dedloc::run {

// Keys that came later are written only where they say something: older files keep their hash.
// `above`: where the sections [optimizer] and [schedule] are, "local." for [local.optimizer].
template <typename Visitor, typename Optimizer>
void visit_optimizer(Visitor& visit, Optimizer& optimizer, std::string_view above = "") {
    const auto key = [&](std::string_view name) { return fmt::format("{}{}", above, name); };
    visit(key("optimizer.kind"), optimizer.kind, Enumeration{});
    visit(key("optimizer.weight_decay"), optimizer.weight_decay, Numbers{0, 10});
    visit(key("optimizer.gradient_norm_max"), optimizer.gradient_norm_max, Numbers{0, 1e9});
    visit(key("optimizer.momentum"), optimizer.momentum, Numbers{0, 0.9999});
    visit(key("optimizer.nesterov"), optimizer.nesterov);
    visit(key("optimizer.larc"), optimizer.larc);
    if (visit.all || !optimizer.larc_clip) visit(key("optimizer.larc_clip"), optimizer.larc_clip);
    visit(key("optimizer.larc_trust"), optimizer.larc_trust, Numbers{1e-9, 10});
    visit(key("optimizer.larc_epsilon"), optimizer.larc_epsilon, Numbers{0, 1});
    visit(key("optimizer.beta1"), optimizer.beta1, Numbers{0, 0.99999});
    visit(key("optimizer.beta2"), optimizer.beta2, Numbers{0, 0.9999999});
    visit(key("optimizer.epsilon"), optimizer.epsilon, Numbers{1e-16, 1});
    visit(key("optimizer.debias"), optimizer.debias);
    visit(key("optimizer.norm_clamp"), optimizer.norm_clamp, Numbers{1e-9, 1e9});
    if (visit.all || optimizer.moments_8bit)
        visit(key("optimizer.moments_8bit"), optimizer.moments_8bit);
    if (visit.all || optimizer.kind == optim::OptimizerKind::muon)
        visit(key("optimizer.orthogonal_steps"), optimizer.orthogonal_steps, Integers{1, 100});
    visit(key("schedule.kind"), optimizer.schedule.kind, Enumeration{});
    visit(key("schedule.peak"), optimizer.schedule.peak, Numbers{0, 1000});  // learning rate
    visit(key("schedule.warmup_steps"), optimizer.schedule.warmup_steps, Integers{0, steps_max});
    if (visit.all || optimizer.schedule.warmup_start != 0)
        visit(key("schedule.warmup_start"), optimizer.schedule.warmup_start, Numbers{0, 1000});
    visit(key("schedule.total_steps"), optimizer.schedule.total_steps, Integers{0, steps_max});
    visit(key("schedule.final_fraction"), optimizer.schedule.final_fraction, Numbers{0, 1});
    if (visit.all || optimizer.schedule.kind == optim::ScheduleKind::step) {
        visit(key("schedule.decay_every"), optimizer.schedule.decay_every, Integers{0, steps_max});
        visit(key("schedule.decay_factor"), optimizer.schedule.decay_factor, Numbers{0, 1});
    }
}

}  // namespace dedloc::run
