#include "dedloc/replica/model_state.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "dedloc/allreduce/gathered.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::replica {

namespace {

std::string codes_section(std::string_view moment) { return fmt::format("{}.codes", moment); }
std::string scales_section(std::string_view moment) { return fmt::format("{}.scales", moment); }

optim::MomentSizes sizes_of_moment(const optim::OptimizerConfig& optimizer,
                                   const run::Layout& layout,
                                   std::size_t index) {
    return optim::moment_sizes(optimizer, layout.parameters, layout.parameters_count, index);
}

}  // namespace

std::vector<state::Section> empty_moments(const optim::OptimizerConfig& optimizer,
                                          const run::Layout& layout) {
    std::vector<state::Section> sections;
    for (std::size_t i = 0; i < optim::moments_count(optimizer); ++i) {
        const optim::MomentSizes sizes = sizes_of_moment(optimizer, layout, i);
        const std::string_view name = optim::moment_name(optimizer, i);
        sections.push_back({std::string(name), std::vector<float>(sizes.values, 0.0f)});
        if (!optimizer.moments_8bit) continue;
        sections.push_back({.name = codes_section(name),
                            .values = {},
                            .codes = Bytes(sizes.codes, 0),
                            .dtype = state::Dtype::u8});
        sections.push_back({scales_section(name), std::vector<float>(sizes.scales, 0.0f)});
    }
    return sections;
}

Result<std::shared_ptr<const state::Snapshot>> initial_state(const run::RunFile& run,
                                                             const run::Layout& layout,
                                                             std::vector<float> parameters,
                                                             std::vector<float> buffers,
                                                             Bytes extra) {
    DEDLOC_CHECK(parameters.size() == layout.parameters_count);
    DEDLOC_CHECK(buffers.size() == layout.buffers_count);
    state::SnapshotInfo info;
    info.run = run::run_hash(run);
    info.branch = info.run;
    info.extra = std::move(extra);
    std::vector<state::Section> sections;
    sections.push_back({std::string(parameters_section), std::move(parameters)});
    for (state::Section& moment : empty_moments(run.optimizer, layout))
        sections.push_back(std::move(moment));
    sections.push_back({std::string(buffers_section), std::move(buffers)});
    return state::Snapshot::make(std::move(info), std::move(sections));
}

std::uint64_t state_bytes_most(const run::RunFile& run, const run::Layout& layout) {
    const std::uint64_t numbers = layout.parameters_count + layout.buffers_count;
    return state::prefix_bytes_max + numbers * sizeof(float) +
           optim::moments_count(run.optimizer) * sizes_of_moment(run.optimizer, layout, 0).bytes();
}

Ok check_fragments(const run::RunFile& run, const run::Layout& layout) {
    if (run.fragments() == 1) return {};
    if (run.fragments() > layout.vector_count())
        return make_error(ErrorKind::bad_input,
                          "local.fragments is {}, and this model has {} numbers; take fewer",
                          run.fragments(),
                          layout.vector_count());
    for (const optim::ParameterGroup& group : layout.parameters)
        if (group.unit_rows > 0)
            return make_error(
                ErrorKind::bad_input,
                "this model keeps the rows of '{}' at length 1, which fragments would "
                "cut; take local.fragments out of the run file",
                group.name);
    return {};
}

Ok check_state(const run::RunFile& run,
               const run::Layout& layout,
               const state::Snapshot& snapshot) {
    if (snapshot.info().run != run::run_hash(run))
        return make_error(ErrorKind::bad_input,
                          "the state belongs to run {}, this is run {}",
                          snapshot.info().run.short_hex(),
                          run::run_hash(run).short_hex());
    const auto check = [&](std::string_view name,
                           std::size_t count,
                           state::Dtype dtype = state::Dtype::fp32) -> Ok {
        const state::Section* section = snapshot.find(name);
        if (section == nullptr || section->elements() != count || section->dtype != dtype)
            return make_error(ErrorKind::bad_input,
                              "the state's section '{}' does not fit the model: {} numbers, {} "
                              "expected; the model is built differently here, or by another "
                              "version of the program",
                              name,
                              section == nullptr ? 0 : section->elements(),
                              count);
        return {};
    };
    DEDLOC_TRY_VOID(check(parameters_section, layout.parameters_count));
    DEDLOC_TRY_VOID(check(buffers_section, layout.buffers_count));
    for (const state::Section& moment : empty_moments(run.optimizer, layout))
        DEDLOC_TRY_VOID(check(moment.name, moment.elements(), moment.dtype));
    return {};
}

std::span<const float> parameters_of(const state::Snapshot& snapshot) {
    const state::Section* section = snapshot.find(parameters_section);
    DEDLOC_CHECK(section != nullptr);
    return section->values;
}

std::span<const float> buffers_of(const state::Snapshot& snapshot) {
    const state::Section* section = snapshot.find(buffers_section);
    DEDLOC_CHECK(section != nullptr);
    return section->values;
}

namespace {

Ok decode_part(const consensus::RoundPlan& plan,
               std::size_t part,
               const SharedBytes& encoded,
               std::span<float> out) {
    if (!encoded) return make_error(ErrorKind::not_found, "averaged part {} is missing", part);
    return allreduce::decode_average(plan, static_cast<std::uint32_t>(part), *encoded, out);
}

// With local updates it is the inner steps that have learning rates and weight decay by group.
std::vector<optim::ParameterGroup> without_own_rates(std::vector<optim::ParameterGroup> groups) {
    for (optim::ParameterGroup& group : groups) {
        group.rate_factor = 1;
        group.weight_decay.reset();
    }
    return groups;
}

// A step moves this: elements [first, first + parameters) of the parameters, and buffers from
// `first_buffer` on. `average` is of the former, then of the latter.
struct Moved {
    std::size_t first = 0;
    std::size_t parameters = 0;
    std::size_t first_buffer = 0;
    std::span<const float> average;

    Moved(const run::Layout& layout, consensus::ElementRange range, std::span<const float> all)
        : average(all) {
        const std::uint64_t end = layout.parameters_count;
        first = std::min(range.offset, end);
        parameters = std::min(range.end(), end) - first;
        first_buffer = std::max(range.offset, end) - end;
    }
    std::span<const float> gradient() const { return average.first(parameters); }
    std::span<const float> changes() const { return average.subspan(parameters); }
};

// The groups of a fragment. What is frozen until a global step stays so: `fragment_steps` have been
// made of this one.
std::vector<optim::ParameterGroup> groups_of_fragment(
    const std::vector<optim::ParameterGroup>& groups,
    const Moved& moved,
    std::uint64_t step,
    std::uint64_t fragment_steps) {
    std::vector<optim::ParameterGroup> cut;
    for (optim::ParameterGroup group : groups) {
        const std::size_t begin = std::max(group.offset, moved.first);
        const std::size_t end =
            std::min(group.offset + group.count, moved.first + moved.parameters);
        if (begin >= end) continue;
        group.frozen_until = step < group.frozen_until ? fragment_steps + 1 : 0;
        group.offset = begin - moved.first;
        group.count = end - begin;
        group.columns = 0;
        cut.push_back(std::move(group));
    }
    return cut;
}

// The optimizer's step on a fragment: the rate is that of the global step.
optim::UpdateReport step_fragment(const run::RunFile& run,
                                  const std::vector<optim::ParameterGroup>& groups,
                                  std::uint64_t step,
                                  const Moved& moved,
                                  std::span<float> parameters,
                                  std::vector<optim::MomentView> moments,
                                  const optim::ParallelFor& parallel_for) {
    const std::uint64_t fragment_steps = step / run.fragments();
    optim::OptimizerConfig optimizer = run.optimizer;
    optimizer.schedule = {.kind = optim::ScheduleKind::constant,
                          .peak = optim::learning_rate(run.optimizer.schedule, step)};
    for (optim::MomentView& moment : moments)
        moment.values = moment.values.subspan(moved.first, moved.parameters);
    return optim::step(optimizer,
                       groups_of_fragment(groups, moved, step, fragment_steps),
                       fragment_steps,
                       parameters.subspan(moved.first, moved.parameters),
                       moved.gradient(),
                       moments,
                       parallel_for);
}

// The sections after the step, whatever numbers that gives.
std::vector<state::Section> stepped_sections(const run::RunFile& run,
                                             const run::Layout& layout,
                                             const state::Snapshot& before,
                                             const Moved& moved,
                                             optim::UpdateReport& report,
                                             const optim::ParallelFor& parallel_for) {
    std::vector<state::Section> sections(before.sections().size());
    parallel_for(sections.size(), [&](std::size_t i) {
        const state::Section& old = before.sections()[i];
        sections[i] = old;
        if (old.name == buffers_section && !moved.changes().empty())
            tensor::add_weighted(
                std::span(sections[i].values).subspan(moved.first_buffer, moved.changes().size()),
                moved.changes(),
                1.0f);
    });
    std::span<float> parameters;
    std::vector<optim::MomentView> moments(optim::moments_count(run.optimizer));
    for (state::Section& section : sections) {
        if (section.name == parameters_section) parameters = section.values;
        for (std::size_t i = 0; i < moments.size(); ++i) {
            const std::string_view name = optim::moment_name(run.optimizer, i);
            if (section.name == name) moments[i].values = section.values;
            if (section.name == codes_section(name)) moments[i].codes = section.codes;
            if (section.name == scales_section(name)) moments[i].scales = section.values;
        }
    }
    const std::vector<optim::ParameterGroup> outer =
        run.local ? without_own_rates(layout.parameters) : std::vector<optim::ParameterGroup>();
    if (run.fragments() > 1)
        report = step_fragment(run, outer, before.step(), moved, parameters, moments, parallel_for);
    else
        report = optim::step(run.optimizer,
                             run.local ? outer : layout.parameters,
                             before.step(),
                             parameters,
                             moved.gradient(),
                             moments,
                             parallel_for);
    return sections;
}

bool all_finite(const std::vector<state::Section>& sections,
                const optim::ParallelFor& parallel_for) {
    std::atomic<bool> finite = true;
    parallel_for(sections.size(), [&](std::size_t i) {
        if (!tensor::all_finite(sections[i].values)) finite = false;
    });
    return finite;
}

}  // namespace

Result<AveragedVector> averaged_vector(const run::Layout& layout,
                                       const consensus::RoundPlan& plan,
                                       const std::vector<SharedBytes>& encoded_parts,
                                       const optim::ParallelFor& parallel_for,
                                       std::uint64_t fragments) {
    if (encoded_parts.size() != plan.parts.size())
        return make_error(ErrorKind::peer_broke_protocol,
                          "a step with {} averages for the {} parts of its plan",
                          encoded_parts.size(),
                          plan.parts.size());
    const consensus::ElementRange moved =
        consensus::fragment_of(layout.vector_count(), fragments, plan.instance.step);
    std::uint64_t position = moved.offset;
    for (const consensus::PlanPart& part : plan.parts) {
        if (part.offset != position || part.count > moved.end() - position)
            return make_error(ErrorKind::peer_broke_protocol, "averaged parts that do not fit");
        position += part.count;
    }
    if (position != moved.end())
        return make_error(ErrorKind::peer_broke_protocol,
                          "an average of {} numbers for a model, or fragment, of {}",
                          position - moved.offset,
                          moved.count);
    AveragedVector average;
    average.count = static_cast<std::size_t>(moved.count);
    average.values = std::make_unique_for_overwrite<float[]>(average.count);
    std::vector<Ok> decoded(plan.parts.size());
    parallel_for(plan.parts.size(), [&](std::size_t i) {
        const consensus::PlanPart& part = plan.parts[i];
        const std::span<float> stretch(average.values.get() + (part.offset - moved.offset),
                                       static_cast<std::size_t>(part.count));
        decoded[i] = decode_part(plan, i, encoded_parts[i], stretch);
    });
    for (Ok& one : decoded)
        if (!one) return std::move(one).error();
    return average;
}

void shorten(AveragedVector& average, const run::Layout& layout, double scale) {
    if (scale >= 1) return;
    const auto factor = static_cast<float>(scale);
    const std::size_t end = std::min<std::size_t>(average.count, layout.parameters_count);
    for (std::size_t i = 0; i < end; ++i) average.values[i] = average.values[i] * factor;
}

Result<std::shared_ptr<const state::Snapshot>> next_state(const run::RunFile& run,
                                                          const run::Layout& layout,
                                                          const state::Snapshot& before,
                                                          const consensus::Decision& decision,
                                                          std::span<const float> average,
                                                          StepFacts* facts,
                                                          const optim::ParallelFor& parallel_for) {
    const consensus::ElementRange range =
        consensus::fragment_of(layout.vector_count(), run.fragments(), before.step());
    if (average.size() != range.count)
        return make_error(ErrorKind::peer_broke_protocol,
                          "an average of {} numbers where the step moves {}",
                          average.size(),
                          range.count);
    StepFacts found;
    std::vector<state::Section> sections = stepped_sections(
        run, layout, before, Moved(layout, range, average), found.optimizer, parallel_for);
    found.kept_back = !all_finite(sections, parallel_for);
    if (found.kept_back) sections = before.sections();
    if (facts != nullptr) *facts = found;
    state::SnapshotInfo info = before.info();
    info.branch = decision.instance.branch;
    info.step = decision.instance.step + 1;
    info.samples = static_cast<std::uint64_t>(std::floor(decision.branch_samples));
    return state::Snapshot::make(std::move(info), std::move(sections));
}

}  // namespace dedloc::replica
