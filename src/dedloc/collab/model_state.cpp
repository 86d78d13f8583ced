#include "dedloc/collab/model_state.h"

#include <algorithm>
#include <cmath>

#include "dedloc/codec/codec.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::collab {

Result<std::shared_ptr<const state::Snapshot>> initial_state(const RunFile& run,
                                                             const Layout& layout,
                                                             std::vector<float> parameters,
                                                             std::vector<float> buffers) {
    DEDLOC_CHECK(parameters.size() == layout.parameters_count);
    DEDLOC_CHECK(buffers.size() == layout.buffers_count);
    state::SnapshotInfo info;
    info.run = run_hash(run);
    info.branch = info.run;
    std::vector<state::Section> sections;
    sections.push_back({std::string(parameters_section), std::move(parameters)});
    for (std::size_t i = 0; i < optim::moments_count(run.optimizer); ++i)
        sections.push_back({std::string(optim::moment_name(run.optimizer, i)),
                            std::vector<float>(layout.parameters_count, 0.0f)});
    sections.push_back({std::string(buffers_section), std::move(buffers)});
    return state::Snapshot::make(std::move(info), std::move(sections));
}

Ok check_state(const RunFile& run, const Layout& layout, const state::Snapshot& snapshot) {
    if (snapshot.info().run != run_hash(run))
        return make_error(ErrorKind::bad_input,
                          "the state belongs to run {}, this is run {}",
                          snapshot.info().run.short_hex(),
                          run_hash(run).short_hex());
    const auto check = [&](std::string_view name, std::size_t count) -> Ok {
        const state::Section* section = snapshot.find(name);
        if (section == nullptr || section->values.size() != count)
            return make_error(ErrorKind::bad_input,
                              "the state's section '{}' does not fit the model: {} numbers, {} "
                              "expected (another version of the program made it?)",
                              name,
                              section == nullptr ? 0 : section->values.size(),
                              count);
        return {};
    };
    DEDLOC_TRY_VOID(check(parameters_section, layout.parameters_count));
    DEDLOC_TRY_VOID(check(buffers_section, layout.buffers_count));
    for (std::size_t i = 0; i < optim::moments_count(run.optimizer); ++i)
        DEDLOC_TRY_VOID(check(optim::moment_name(run.optimizer, i), layout.parameters_count));
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

Result<std::vector<float>> averaged_vector(const averaging::Plan& plan,
                                           const std::vector<SharedBytes>& encoded_parts) {
    DEDLOC_CHECK(encoded_parts.size() == plan.parts.size());
    DEDLOC_TRY(const codec::CodecId codec, codec::codec_from_number(plan.codec));
    std::vector<float> average(
        plan.parts.empty() ? 0 : static_cast<std::size_t>(plan.parts.back().range().end()));
    for (std::size_t i = 0; i < plan.parts.size(); ++i) {
        const averaging::PlanPart& part = plan.parts[i];
        const std::span<float> stretch = std::span(average).subspan(
            static_cast<std::size_t>(part.offset), static_cast<std::size_t>(part.count));
        if (!encoded_parts[i])
            return make_error(ErrorKind::not_found, "averaged part {} is missing", i);
        DEDLOC_TRY_VOID(codec::decode(codec, *encoded_parts[i], stretch));
        if (!tensor::all_finite(stretch))
            return make_error(ErrorKind::peer_broke_protocol,
                              "averaged part {} has numbers that are not finite",
                              i);
    }
    return average;
}

Result<std::shared_ptr<const state::Snapshot>> next_state(const RunFile& run,
                                                          const Layout& layout,
                                                          const state::Snapshot& before,
                                                          const averaging::Decision& decision,
                                                          std::span<const float> average,
                                                          bool* kept_back) {
    if (average.size() != layout.vector_count())
        return make_error(ErrorKind::peer_broke_protocol,
                          "an average of {} numbers for a model of {}",
                          average.size(),
                          layout.vector_count());
    std::vector<state::Section> sections = before.sections();
    std::span<float> parameters;
    std::vector<std::span<float>> moments(optim::moments_count(run.optimizer));
    for (state::Section& section : sections) {
        if (section.name == parameters_section) parameters = section.values;
        for (std::size_t i = 0; i < moments.size(); ++i)
            if (section.name == optim::moment_name(run.optimizer, i)) moments[i] = section.values;
        if (section.name == buffers_section) {
            const auto buffers = average.subspan(layout.parameters_count);
            section.values.assign(buffers.begin(), buffers.end());
        }
    }
    optim::step(run.optimizer,
                layout.parameters,
                before.step(),
                parameters,
                average.first(layout.parameters_count),
                moments);
    const bool finite = std::all_of(sections.begin(), sections.end(), [](const auto& section) {
        return tensor::all_finite(section.values);
    });
    if (!finite) sections = before.sections();
    if (kept_back != nullptr) *kept_back = !finite;
    state::SnapshotInfo info = before.info();
    info.branch = decision.instance.branch;
    info.step = decision.instance.step + 1;
    info.samples = static_cast<std::uint64_t>(std::floor(decision.branch_samples));
    return state::Snapshot::make(std::move(info), std::move(sections));
}

}  // namespace dedloc::collab
