#include "dedloc/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "dedloc/base/float_environment.h"
#include "dedloc/optim/lamb8_kernels.h"
#include "dedloc/optim/muon_kernels.h"
#include "dedloc/optim/optimizer_kernels.h"
#include "dedloc/optim/orthogonal.h"
#include "dedloc/optim/stretches.h"

namespace dedloc::optim {
namespace {

constexpr std::array<std::string_view, 4> optimizer_names = {"sgd", "adamw", "lamb", "muon"};
// By it a step of muon is about as long as one of AdamW with the same learning rate (Liu et al.).
constexpr double muon_scale = 0.2;

// A piece of one group: the unit of parallel work and of sums.
struct Chunk {
    std::size_t group;
    std::size_t begin;
    std::size_t count;
};

std::vector<Chunk> chunks_of(std::span<const ParameterGroup> groups, std::uint64_t global_step) {
    std::vector<Chunk> chunks;
    for (std::size_t group = 0; group < groups.size(); ++group) {
        if (global_step < groups[group].frozen_until) continue;
        for (std::size_t done = 0; done < groups[group].count; done += chunk_elements) {
            const std::size_t count = std::min(chunk_elements, groups[group].count - done);
            chunks.push_back({group, groups[group].offset + done, count});
        }
    }
    return chunks;
}

// Where a moment of a group is.
struct Place {
    bool coded = false;
    std::size_t first = 0;  // in the codes, or in the values
    std::size_t first_block = 0;
};

bool is_matrix(const OptimizerConfig& config, const ParameterGroup& group) {
    return config.kind == OptimizerKind::muon && group.columns > 0;
}

// Matrices have no second moment in Muon.
bool has_gaps(const OptimizerConfig& config, std::size_t index) {
    return config.kind == OptimizerKind::muon && index == 1;
}

std::vector<Place> places_of(const OptimizerConfig& config,
                             std::span<const ParameterGroup> groups,
                             std::size_t index,
                             MomentSizes& sizes) {
    std::vector<Place> places{};
    const bool gaps = has_gaps(config, index);
    for (const ParameterGroup& group : groups) {
        if (gaps) {
            places.push_back({.first = sizes.values});
            if (!is_matrix(config, group)) sizes.values += group.count;
        } else if (!config.moments_8bit) {
            places.push_back({.first = group.offset});
        } else if (group.count < coded_elements_min) {
            places.push_back({.first = sizes.values});
            sizes.values += group.count;
        } else {
            places.push_back({.coded = true, .first = sizes.codes, .first_block = sizes.scales});
            sizes.codes += group.count;
            sizes.scales += (group.count + block8_elements - 1) / block8_elements;
        }
    }
    return places;
}

// One step in progress: what every phase needs.
struct Step {
    const OptimizerConfig& config;
    std::span<const ParameterGroup> groups;
    std::uint64_t bias_steps;  // t of the bias corrections, from 1
    std::span<float> parameters;
    std::span<const float> gradient;
    std::span<const MomentView> moments;
    const ParallelFor& parallel_for;
    std::vector<Chunk> chunks;
    std::array<std::vector<Place>, moments_max> places{};  // by moment
    double rate = 0;
    float gradient_scale = 1;

    template <typename Body>
    void for_each_chunk(Body body) const {
        const std::function<void(std::size_t)> task = [&](std::size_t index) {
            const FloatEnvironmentGuard guard;  // the task may be on another thread
            body(index, chunks[index]);
        };
        parallel_for(chunks.size(), task);
    }

    // value(index, chunk) summed over the chunks of each group, in order.
    template <typename Value>
    std::vector<double> sum_by_group(Value value) const {
        std::vector<double> by_chunk(chunks.size());
        for_each_chunk(
            [&](std::size_t index, const Chunk& chunk) { by_chunk[index] = value(index, chunk); });
        std::vector<double> by_group(groups.size());
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            by_group[chunks[i].group] = by_group[chunks[i].group] + by_chunk[i];
        }
        return by_group;
    }

    template <typename T>
    std::vector<double> sums_of_squares(std::span<T> x) const {
        return sum_by_group([&](std::size_t, const Chunk& chunk) {
            return chunk_sum_of_squares(x.data() + chunk.begin, chunk.count);
        });
    }

    double decay_of(std::size_t group) const {
        return groups[group].weight_decay.value_or(groups[group].decay ? config.weight_decay : 0.0);
    }

    double rate_of(std::size_t group) const { return rate * groups[group].rate_factor; }

    // The values of a moment in a chunk that is not coded.
    float* moment(std::size_t index, const Chunk& chunk) const {
        const std::size_t inside = chunk.begin - groups[chunk.group].offset;
        return moments[index].values.data() + places[index][chunk.group].first + inside;
    }

    Moments8 moments8(const Chunk& chunk) const {
        const Place& place = places[0][chunk.group];  // both moments lie alike
        const std::size_t inside = chunk.begin - groups[chunk.group].offset;
        const std::size_t block = place.first_block + inside / block8_elements;
        return {.exp_avg_codes = moments[0].codes.data() + place.first + inside,
                .exp_avg_scales = moments[0].scales.data() + block,
                .exp_avg_sq_codes = moments[1].codes.data() + place.first + inside,
                .exp_avg_sq_scales = moments[1].scales.data() + block};
    }
};
static_assert(chunk_elements % block8_elements == 0, "a chunk begins where a block does");

void clip(Step& step, UpdateReport& report) {
    double squares = 0;
    for (const double sum : step.sums_of_squares(step.gradient)) squares = squares + sum;
    report.gradient_norm = std::sqrt(squares);
    if (step.config.gradient_norm_max <= 0) return;
    const double scale = step.config.gradient_norm_max / (report.gradient_norm + 1e-6);
    report.clipped = scale < 1;
    if (report.clipped) step.gradient_scale = static_cast<float>(scale);
}

// Weight decay and scale of one group under LARC. As apex has it, a group with a norm of zero is
// neither decayed nor scaled.
void apply_larc(const Step& step,
                std::size_t group,
                double parameter_squares,
                double gradient_squares,
                SgdScalars& scalars) {
    const OptimizerConfig& config = step.config;
    const double parameter_norm = std::sqrt(parameter_squares);
    const double gradient_norm =
        std::sqrt(gradient_squares) * static_cast<double>(step.gradient_scale);
    if (!(parameter_norm > 0 && gradient_norm > 0)) {
        scalars.weight_decay = 0;
        return;
    }
    const double decayed = parameter_norm * step.decay_of(group);
    const double layer_rate =
        config.larc_trust * parameter_norm / (gradient_norm + decayed + config.larc_epsilon);
    if (!config.larc_clip) {
        scalars.larc_scale = static_cast<float>(layer_rate);
    } else if (layer_rate < step.rate_of(group)) {
        scalars.larc_scale = static_cast<float>(layer_rate / step.rate_of(group));
    }
}

void step_sgd(const Step& step) {
    const OptimizerConfig& config = step.config;
    std::vector<SgdScalars> scalars(step.groups.size());
    std::vector<double> parameter_squares;
    std::vector<double> gradient_squares;
    if (config.larc) {
        parameter_squares = step.sums_of_squares(step.parameters);
        gradient_squares = step.sums_of_squares(step.gradient);
    }
    for (std::size_t group = 0; group < scalars.size(); ++group) {
        scalars[group] = {.gradient_scale = step.gradient_scale,
                          .weight_decay = static_cast<float>(step.decay_of(group)),
                          .larc_scale = 1,
                          .momentum = static_cast<float>(config.momentum),
                          .minus_rate = static_cast<float>(-step.rate_of(group)),
                          .nesterov = config.nesterov};
        if (config.larc && step.groups[group].trust) {
            apply_larc(
                step, group, parameter_squares[group], gradient_squares[group], scalars[group]);
        }
    }
    step.for_each_chunk([&](std::size_t, const Chunk& chunk) {
        chunk_sgd(scalars[chunk.group],
                  chunk.count,
                  step.parameters.data() + chunk.begin,
                  step.gradient.data() + chunk.begin,
                  step.moments.empty() ? nullptr : step.moment(0, chunk));
    });
}

AdamScalars adam_scalars(const Step& step) {
    const OptimizerConfig& config = step.config;
    AdamScalars scalars{};
    scalars.gradient_scale = step.gradient_scale;
    scalars.beta1 = static_cast<float>(config.beta1);
    scalars.one_less_beta1 = static_cast<float>(1.0 - config.beta1);
    scalars.beta2 = static_cast<float>(config.beta2);
    scalars.one_less_beta2 = static_cast<float>(1.0 - config.beta2);
    scalars.epsilon = static_cast<float>(config.epsilon);
    return scalars;
}

// AdamW moves the groups that no other optimizer does.
void step_adamw(const Step& step) {
    const OptimizerConfig& config = step.config;
    const double bias1 = 1.0 - integer_power(config.beta1, step.bias_steps);
    const double bias2 = 1.0 - integer_power(config.beta2, step.bias_steps);
    std::vector<AdamScalars> scalars(step.groups.size(), adam_scalars(step));
    for (std::size_t group = 0; group < scalars.size(); ++group) {
        const double rate = step.rate_of(group);
        const double decayed = rate * step.decay_of(group);
        scalars[group].keep = static_cast<float>(1.0 - decayed);
        scalars[group].bias2_root = static_cast<float>(std::sqrt(bias2));
        scalars[group].minus_rate = static_cast<float>(-(rate / bias1));
    }
    step.for_each_chunk([&](std::size_t, const Chunk& chunk) {
        if (is_matrix(config, step.groups[chunk.group])) return;
        chunk_adamw(scalars[chunk.group],
                    chunk.count,
                    step.parameters.data() + chunk.begin,
                    step.gradient.data() + chunk.begin,
                    step.moment(0, chunk),
                    step.moment(1, chunk));
    });
}

// One matrix: its direction, made orthogonal, of the length that AdamW's step would have.
void step_matrix(const Step& step, std::size_t index, std::span<float> direction) {
    const ParameterGroup& group = step.groups[index];
    const MuonScalars scalars{.gradient_scale = step.gradient_scale,
                              .momentum = static_cast<float>(step.config.momentum),
                              .one_less_momentum = static_cast<float>(1.0 - step.config.momentum),
                              .nesterov = step.config.nesterov};
    float* momentum = step.moments[0].values.data() + step.places[0][index].first;
    const auto turn = [&](std::size_t begin, std::size_t count) {
        chunk_muon_direction(scalars,
                             count,
                             step.gradient.data() + group.offset + begin,
                             momentum + begin,
                             direction.data() + begin);
    };
    in_stretches(group.count, chunk_elements, step.parallel_for, turn);
    orthogonalize(direction, group.columns, step.config.orthogonal_steps, step.parallel_for);
    const double rate = step.rate_of(index);
    const std::size_t longest = std::max(group.columns, group.count / group.columns);
    const double length = muon_scale * std::sqrt(static_cast<double>(longest));
    const auto keep = static_cast<float>(1.0 - rate * step.decay_of(index));
    const auto minus_rate = static_cast<float>(-(rate * length));
    scale_and_add(step.parameters.subspan(group.offset, group.count),
                  keep,
                  minus_rate,
                  direction,
                  step.parallel_for);
}

// Matrices one after the other, so that only one needs memory beside the state.
void step_muon(const Step& step, std::uint64_t global_step) {
    step_adamw(step);
    std::vector<float> direction;
    for (std::size_t i = 0; i < step.groups.size(); ++i) {
        const ParameterGroup& group = step.groups[i];
        if (!is_matrix(step.config, group) || global_step < group.frozen_until) continue;
        direction.resize(std::max(direction.size(), group.count));
        step_matrix(step, i, std::span(direction).first(group.count));
    }
}

double trust_ratio(const OptimizerConfig& config, double parameter_squares, double step_squares) {
    const double parameter_norm = std::min(std::sqrt(parameter_squares), config.norm_clamp);
    const double step_norm = std::sqrt(step_squares);
    return parameter_norm > 0 && step_norm > 0 ? parameter_norm / step_norm : 1.0;
}

// The sum of squares of each group's direction; fp32 moments are updated.
std::vector<double> lamb_squares(const Step& step, const std::vector<AdamScalars>& scalars) {
    return step.sum_by_group([&](std::size_t, const Chunk& chunk) {
        const float* parameters = step.parameters.data() + chunk.begin;
        const float* gradient = step.gradient.data() + chunk.begin;
        const AdamScalars& of_group = scalars[chunk.group];
        if (step.places[0][chunk.group].coded)
            return chunk_lamb8_squares(
                of_group, chunk.count, parameters, gradient, step.moments8(chunk));
        return chunk_lamb_moments(of_group,
                                  chunk.count,
                                  parameters,
                                  gradient,
                                  step.moment(0, chunk),
                                  step.moment(1, chunk));
    });
}

void apply_lamb(const Step& step, const std::vector<AdamScalars>& scalars) {
    step.for_each_chunk([&](std::size_t, const Chunk& chunk) {
        float* parameters = step.parameters.data() + chunk.begin;
        const AdamScalars& of_group = scalars[chunk.group];
        if (step.places[0][chunk.group].coded) {
            chunk_lamb8_apply(of_group,
                              chunk.count,
                              parameters,
                              step.gradient.data() + chunk.begin,
                              step.moments8(chunk));
        } else {
            chunk_lamb_apply(
                of_group, chunk.count, parameters, step.moment(0, chunk), step.moment(1, chunk));
        }
    });
}

void step_lamb(const Step& step) {
    const OptimizerConfig& config = step.config;
    double correction = 1;
    if (config.debias) {
        const double bias1 = 1.0 - integer_power(config.beta1, step.bias_steps);
        const double bias2 = 1.0 - integer_power(config.beta2, step.bias_steps);
        correction = std::sqrt(bias2) / bias1;
    }
    std::vector<AdamScalars> scalars(step.groups.size(), adam_scalars(step));
    for (std::size_t group = 0; group < scalars.size(); ++group) {
        scalars[group].weight_decay = static_cast<float>(step.decay_of(group));
    }
    const std::vector<double> parameter_squares = step.sums_of_squares(step.parameters);
    const std::vector<double> step_squares = lamb_squares(step, scalars);
    for (std::size_t group = 0; group < scalars.size(); ++group) {
        const double trust =
            step.groups[group].trust
                ? trust_ratio(config, parameter_squares[group], step_squares[group])
                : 1.0;
        scalars[group].minus_rate = static_cast<float>(-(step.rate_of(group) * correction * trust));
    }
    apply_lamb(step, scalars);
}

// Rows of a group to length 1, frozen or not, each summed as any sum of squares; a row of zeros
// stays.
void scale_rows(const Step& step) {
    for (const ParameterGroup& group : step.groups) {
        if (group.unit_rows == 0) continue;
        const std::size_t length = group.unit_rows;
        step.parallel_for(group.count / length, [&](std::size_t row) {
            const FloatEnvironmentGuard guard;
            const auto values = step.parameters.subspan(group.offset + row * length, length);
            const double norm = std::sqrt(chunk_sum_of_squares(values.data(), length));
            if (!(norm > 0)) return;
            for (float& value : values)
                value = static_cast<float>(static_cast<double>(value) / norm);
        });
    }
}

// low <= value < high, as most fields of a configuration must be.
Ok check_range(std::string_view field, double value, double low, double high) {
    if (value >= low && value < high) return {};
    return make_error(ErrorKind::bad_input,
                      "{} is {}; it must be at least {} and below {}",
                      field,
                      value,
                      low,
                      high);
}

}  // namespace

std::string_view to_string(OptimizerKind kind) {
    const auto index = static_cast<std::size_t>(kind);
    DEDLOC_CHECK(index < optimizer_names.size());
    return optimizer_names[index];
}

Result<OptimizerKind> optimizer_from_string(std::string_view text) {
    for (std::size_t i = 0; i < optimizer_names.size(); ++i) {
        if (optimizer_names[i] == text) return static_cast<OptimizerKind>(i);
    }
    return make_error(ErrorKind::bad_input,
                      "'{}' is not an optimizer; use one of sgd, adamw, lamb, muon",
                      text.substr(0, 32));
}

Ok check(const OptimizerConfig& config) {
    constexpr double large = 1e9;
    DEDLOC_TRY_VOID(check(config.schedule));
    DEDLOC_TRY_VOID(check_range("weight_decay", config.weight_decay, 0, large));
    DEDLOC_TRY_VOID(check_range("gradient_norm_max", config.gradient_norm_max, 0, large));
    DEDLOC_TRY_VOID(check_range("momentum", config.momentum, 0, 1));
    DEDLOC_TRY_VOID(check_range("larc_trust", config.larc_trust, 0, large));
    DEDLOC_TRY_VOID(check_range("larc_epsilon", config.larc_epsilon, 0, large));
    DEDLOC_TRY_VOID(check_range("beta1", config.beta1, 0, 1));
    DEDLOC_TRY_VOID(check_range("beta2", config.beta2, 0, 1));
    DEDLOC_TRY_VOID(check_range("epsilon", config.epsilon, 1e-30, large));
    DEDLOC_TRY_VOID(check_range("norm_clamp", config.norm_clamp, 0, 1e30));
    if (config.nesterov && config.momentum == 0) {
        return make_error(ErrorKind::bad_input, "nesterov needs a momentum above 0");
    }
    if (config.kind == OptimizerKind::muon &&
        (config.orthogonal_steps < 1 || config.orthogonal_steps > 100)) {
        return make_error(ErrorKind::bad_input,
                          "orthogonal_steps is {}; it must be from 1 to 100",
                          config.orthogonal_steps);
    }
    if (config.moments_8bit && config.kind != OptimizerKind::lamb) {
        return make_error(ErrorKind::bad_input, "moments_8bit needs the optimizer lamb");
    }
    return {};
}

Ok check(std::span<const ParameterGroup> groups, std::size_t elements_count) {
    std::size_t end = 0;
    for (const ParameterGroup& group : groups) {
        if (group.offset < end) {
            return make_error(ErrorKind::bad_input,
                              "parameter group '{}' starts at {}, inside the group before it",
                              group.name,
                              group.offset);
        }
        if (group.offset > elements_count || group.count > elements_count - group.offset) {
            return make_error(ErrorKind::bad_input,
                              "parameter group '{}' ends beyond the {} parameters",
                              group.name,
                              elements_count);
        }
        if (group.unit_rows != 0 && group.count % group.unit_rows != 0) {
            return make_error(ErrorKind::bad_input,
                              "parameter group '{}' has {} elements, no whole rows of {}",
                              group.name,
                              group.count,
                              group.unit_rows);
        }
        if (group.columns != 0 && group.count % group.columns != 0) {
            return make_error(ErrorKind::bad_input,
                              "parameter group '{}' has {} elements, no matrix with rows of {}",
                              group.name,
                              group.count,
                              group.columns);
        }
        const double factor = group.rate_factor;
        if (!(factor >= 0 && factor <= group_factor_max)) {
            return make_error(ErrorKind::bad_input,
                              "the learning rate of '{}' has the factor {}; it must be from 0 to "
                              "{}",
                              group.name,
                              factor,
                              group_factor_max);
        }
        const double decay = group.weight_decay.value_or(0);
        if (!(decay >= 0 && decay <= group_decay_max)) {
            return make_error(ErrorKind::bad_input,
                              "the weight decay of '{}' is {}; it must be from 0 to {}",
                              group.name,
                              decay,
                              group_decay_max);
        }
        end = group.offset + group.count;
    }
    return {};
}

std::size_t moments_count(const OptimizerConfig& config) {
    if (config.kind == OptimizerKind::sgd) return config.momentum != 0 ? 1 : 0;
    return 2;
}

std::string_view moment_name(const OptimizerConfig& config, std::size_t index) {
    DEDLOC_CHECK(index < moments_count(config));
    if (config.kind == OptimizerKind::sgd) return "momentum";
    return index == 0 ? "exp_avg" : "exp_avg_sq";
}

void run_in_order(std::size_t tasks_count, const std::function<void(std::size_t)>& task) {
    for (std::size_t i = 0; i < tasks_count; ++i) task(i);
}

MomentSizes moment_sizes(const OptimizerConfig& config,
                         std::span<const ParameterGroup> groups,
                         std::size_t elements_count,
                         std::size_t index) {
    MomentSizes sizes;
    (void)places_of(config, groups, index, sizes);
    if (!config.moments_8bit && !has_gaps(config, index)) sizes.values = elements_count;
    return sizes;
}

UpdateReport step(const OptimizerConfig& config,
                  std::span<const ParameterGroup> groups,
                  std::uint64_t global_step,
                  std::span<float> parameters,
                  std::span<const float> gradient,
                  std::span<const std::span<float>> moments,
                  const ParallelFor& parallel_for) {
    std::vector<MomentView> views;
    for (const std::span<float> moment : moments) views.push_back({.values = moment});
    return step(config,
                groups,
                global_step,
                parameters,
                gradient,
                std::span<const MomentView>(views),
                parallel_for);
}

UpdateReport step(const OptimizerConfig& config,
                  std::span<const ParameterGroup> groups,
                  std::uint64_t global_step,
                  std::span<float> parameters,
                  std::span<const float> gradient,
                  std::span<const MomentView> moments,
                  const ParallelFor& parallel_for) {
    const Ok sound = check(groups, parameters.size());
    DEDLOC_CHECK(sound.has_value(), "{}", sound ? "" : sound.error().message());
    DEDLOC_CHECK(gradient.size() == parameters.size());
    DEDLOC_CHECK(moments.size() == moments_count(config), "{} moments", moments.size());
    for (std::size_t i = 0; i < moments.size(); ++i) {
        const MomentSizes sizes = moment_sizes(config, groups, parameters.size(), i);
        DEDLOC_CHECK(moments[i].values.size() == sizes.values &&
                     moments[i].codes.size() == sizes.codes &&
                     moments[i].scales.size() == sizes.scales);
    }

    const FloatEnvironmentGuard guard;
    Step current{.config = config,
                 .groups = groups,
                 .bias_steps = global_step + 1,
                 .parameters = parameters,
                 .gradient = gradient,
                 .moments = moments,
                 .parallel_for = parallel_for,
                 .chunks = chunks_of(groups, global_step),
                 .rate = learning_rate(config.schedule, global_step)};
    for (std::size_t i = 0; i < current.places.size(); ++i) {
        MomentSizes unused;
        current.places[i] = places_of(config, groups, i, unused);
    }
    UpdateReport report{.learning_rate = current.rate};
    clip(current, report);
    switch (config.kind) {
        case OptimizerKind::sgd:
            step_sgd(current);
            break;
        case OptimizerKind::adamw:
            step_adamw(current);
            break;
        case OptimizerKind::lamb:
            step_lamb(current);
            break;
        case OptimizerKind::muon:
            step_muon(current, global_step);
            break;
    }
    scale_rows(current);
    return report;
}

}  // namespace dedloc::optim
