#include "dedloc/experts/ffn_expert.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dedloc/base/random.h"

namespace dedloc::experts {
namespace {

constexpr float norm_epsilon = 1e-12f;
constexpr float gelu_scale = 0.7978845608f;
constexpr float gelu_cube = 0.044715f;

enum Group : std::size_t { weight1, bias1, weight2, bias2, norm_weight, norm_bias, groups_count };

std::vector<float> transposed(std::span<const float> matrix,
                              std::size_t rows,
                              std::size_t columns) {
    std::vector<float> out(matrix.size());
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < columns; ++j) out[j * rows + i] = matrix[i * columns + j];
    return out;
}

// row[j] += the sum of factor · line[j], one line after the other: four lines a turn, so that the
// row is read and written less often. The order of every sum stays that of one line a turn.
struct Line {
    float factor;
    const float* values;
};

void add_lines(const std::array<Line, 4>& lines, std::size_t count, float* row) {
    for (std::size_t j = 0; j < count; ++j) {
        float sum = row[j];
        for (const Line& line : lines) sum += line.factor * line.values[j];
        row[j] = sum;
    }
}

void add_line(const Line& line, std::size_t count, float* row) {
    for (std::size_t j = 0; j < count; ++j) row[j] += line.factor * line.values[j];
}

// out [rows, to] += a [rows, from] · b [from, to].
void add_product(std::span<const float> a,
                 std::span<const float> b,
                 std::size_t rows,
                 std::size_t from,
                 std::size_t to,
                 std::span<float> out) {
    const auto line = [&](std::size_t i, std::size_t k) {
        return Line{.factor = a[i * from + k], .values = &b[k * to]};
    };
    for (std::size_t i = 0; i < rows; ++i) {
        std::size_t k = 0;
        for (; k + 4 <= from; k += 4)
            add_lines(
                {line(i, k), line(i, k + 1), line(i, k + 2), line(i, k + 3)}, to, &out[i * to]);
        for (; k < from; ++k) add_line(line(i, k), to, &out[i * to]);
    }
}

// out [from, to] += a [rows, from] transposed · b [rows, to].
void add_outer(std::span<const float> a,
               std::span<const float> b,
               std::size_t rows,
               std::size_t from,
               std::size_t to,
               std::span<float> out) {
    const auto line = [&](std::size_t i, std::size_t k) {
        return Line{.factor = a[i * from + k], .values = &b[i * to]};
    };
    std::size_t i = 0;
    for (; i + 4 <= rows; i += 4)
        for (std::size_t k = 0; k < from; ++k)
            add_lines(
                {line(i, k), line(i + 1, k), line(i + 2, k), line(i + 3, k)}, to, &out[k * to]);
    for (; i < rows; ++i)
        for (std::size_t k = 0; k < from; ++k) add_line(line(i, k), to, &out[k * to]);
}

void add_bias(std::span<const float> bias, std::size_t rows, std::span<float> out) {
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < bias.size(); ++j) out[i * bias.size() + j] += bias[j];
}

void add_rows(std::span<const float> matrix, std::size_t rows, std::span<float> out) {
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < out.size(); ++j) out[j] += matrix[i * out.size() + j];
}

float gelu(float x) {
    return 0.5f * x * (1.0f + std::tanh(x * gelu_scale * (1.0f + gelu_cube * x * x)));
}

float gelu_slope(float x) {
    const float t = std::tanh(x * gelu_scale * (1.0f + gelu_cube * x * x));
    const float inner = gelu_scale * (1.0f + 3.0f * gelu_cube * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

}  // namespace

struct FfnExpert::Pass {
    std::size_t rows = 0;
    std::vector<float> before_gelu;  // [rows, hidden]
    std::vector<float> after_gelu;
    std::vector<float> normal;   // [rows, width]: what the norm scales
    std::vector<float> spread;   // [rows]: 1 / standard deviation
    std::vector<float> outputs;  // [rows, width]
};

std::size_t FfnExpert::parameters_count(std::size_t width, std::size_t hidden) {
    return 2 * width * hidden + hidden + 3 * width;
}

FfnExpert::FfnExpert(const ExpertUid& uid, FfnOptions options) : options_(std::move(options)) {
    if (options_.hidden == 0) options_.hidden = 4 * options_.width;
    const std::size_t width = options_.width;
    const std::size_t hidden = options_.hidden;
    const TensorSpec spec{.sample = {static_cast<std::int64_t>(width)}};
    schema_ = {.inputs = {spec}, .outputs = {spec}};
    const std::pair<const char*, std::size_t> parts[groups_count] = {
        {"ffn.weight", hidden * width},
        {"ffn.bias", hidden},
        {"ffn_output.weight", width * hidden},
        {"ffn_output.bias", width},
        {"layer_norm.weight", width},
        {"layer_norm.bias", width}};
    std::size_t offset = 0;
    for (const auto& [name, count] : parts) {
        const bool matrix = std::string_view(name).ends_with("ffn.weight") ||
                            std::string_view(name).ends_with("ffn_output.weight");
        groups_.push_back(
            {.name = name, .offset = offset, .count = count, .decay = matrix, .trust = matrix});
        offset += count;
    }
    parameters_.resize(offset);
    Random random = Random(options_.seed).fork(uid.text());
    // torch's initial values of a linear layer: uniform in ± 1 / sqrt(inputs).
    for (std::size_t group = weight1; group <= bias2; ++group) {
        const double bound = 1.0 / std::sqrt(static_cast<double>(group <= bias1 ? width : hidden));
        for (std::size_t i = 0; i < groups_[group].count; ++i)
            parameters_[groups_[group].offset + i] =
                static_cast<float>(random.uniform(-bound, bound));
    }
    std::fill_n(parameters_.begin() + static_cast<std::ptrdiff_t>(groups_[norm_weight].offset),
                width,
                1.0f);
    moments_.assign(optim::moments_count(options_.optimizer), std::vector<float>(offset));
}

std::span<const float> FfnExpert::part(std::size_t group) const {
    return std::span(parameters_).subspan(groups_[group].offset, groups_[group].count);
}

FfnExpert::Pass FfnExpert::run(const Tensor& inputs) const {
    const std::size_t width = options_.width;
    const std::size_t hidden = options_.hidden;
    Pass pass;
    pass.rows = inputs.rows();
    pass.before_gelu.resize(pass.rows * hidden);
    add_bias(part(bias1), pass.rows, pass.before_gelu);
    const std::vector<float> first = transposed(part(weight1), hidden, width);
    add_product(inputs.values, first, pass.rows, width, hidden, pass.before_gelu);
    pass.after_gelu.resize(pass.before_gelu.size());
    std::transform(pass.before_gelu.begin(), pass.before_gelu.end(), pass.after_gelu.begin(), gelu);
    std::vector<float> sum = inputs.values;
    add_bias(part(bias2), pass.rows, sum);
    const std::vector<float> second = transposed(part(weight2), width, hidden);
    add_product(pass.after_gelu, second, pass.rows, hidden, width, sum);

    pass.normal.resize(sum.size());
    pass.outputs.resize(sum.size());
    pass.spread.resize(pass.rows);
    const auto scale = part(norm_weight);
    const auto shift = part(norm_bias);
    for (std::size_t i = 0; i < pass.rows; ++i) {
        const float* row = &sum[i * width];
        double mean = 0;
        for (std::size_t j = 0; j < width; ++j) mean += row[j];
        mean /= static_cast<double>(width);
        double variance = 0;
        for (std::size_t j = 0; j < width; ++j) variance += (row[j] - mean) * (row[j] - mean);
        variance /= static_cast<double>(width);
        pass.spread[i] = static_cast<float>(1.0 / std::sqrt(variance + norm_epsilon));
        for (std::size_t j = 0; j < width; ++j) {
            const std::size_t at = i * width + j;
            pass.normal[at] = static_cast<float>(row[j] - mean) * pass.spread[i];
            pass.outputs[at] = pass.normal[at] * scale[j] + shift[j];
        }
    }
    return pass;
}

Result<std::vector<Tensor>> FfnExpert::forward(const std::vector<Tensor>& inputs) {
    Pass pass = run(inputs.front());
    std::vector<Tensor> outputs(1);
    outputs.front().shape = inputs.front().shape;
    outputs.front().values = std::move(pass.outputs);
    return outputs;
}

Result<ExpertGradient> FfnExpert::gradient(const std::vector<Tensor>& inputs,
                                           const std::vector<Tensor>& output_gradients) {
    const std::size_t width = options_.width;
    const std::size_t hidden = options_.hidden;
    const Pass pass = run(inputs.front());
    const std::vector<float>& outer = output_gradients.front().values;
    std::vector<float> gradient(parameters_.size());
    const auto of = [&](std::size_t group) {
        return std::span(gradient).subspan(groups_[group].offset, groups_[group].count);
    };
    // Through the norm.
    std::vector<float> sum(outer.size());
    const auto scale = part(norm_weight);
    for (std::size_t i = 0; i < pass.rows; ++i) {
        double mean = 0;
        double mean_normal = 0;
        for (std::size_t j = 0; j < width; ++j) {
            const std::size_t at = i * width + j;
            of(norm_weight)[j] += outer[at] * pass.normal[at];
            mean += outer[at] * scale[j];
            mean_normal += outer[at] * scale[j] * pass.normal[at];
        }
        mean /= static_cast<double>(width);
        mean_normal /= static_cast<double>(width);
        for (std::size_t j = 0; j < width; ++j) {
            const std::size_t at = i * width + j;
            sum[at] = pass.spread[i] * static_cast<float>(outer[at] * scale[j] - mean -
                                                          pass.normal[at] * mean_normal);
        }
    }
    add_rows(outer, pass.rows, of(norm_bias));
    // Through the two layers.
    add_rows(sum, pass.rows, of(bias2));
    add_outer(sum, pass.after_gelu, pass.rows, width, hidden, of(weight2));
    std::vector<float> inner(pass.rows * hidden);
    add_product(sum, part(weight2), pass.rows, width, hidden, inner);
    for (std::size_t i = 0; i < inner.size(); ++i) inner[i] *= gelu_slope(pass.before_gelu[i]);
    add_rows(inner, pass.rows, of(bias1));
    add_outer(inner, inputs.front().values, pass.rows, hidden, width, of(weight1));
    add_product(inner, part(weight1), pass.rows, hidden, width, sum);

    ExpertGradient result;
    result.inputs.push_back({.shape = inputs.front().shape, .values = std::move(sum)});
    result.parameters = std::move(gradient);
    const auto is_finite = [](float value) { return std::isfinite(value); };
    if (!all_finite(result.inputs) || !std::ranges::all_of(result.parameters, is_finite))
        return make_error(ErrorKind::cannot_compute, "the expert's gradient is not finite");
    return result;
}

void FfnExpert::apply(std::span<const float> gradient) {
    std::vector<std::span<float>> moments(moments_.begin(), moments_.end());
    (void)optim::step(options_.optimizer, groups_, updates_, parameters_, gradient, moments);
    ++updates_;
}

std::vector<state::Section> snapshot_sections(const optim::OptimizerConfig& optimizer,
                                              const std::vector<float>& parameters,
                                              const std::vector<std::vector<float>>& moments) {
    std::vector<state::Section> sections;
    sections.push_back({.name = "parameters", .values = parameters});
    for (std::size_t i = 0; i < moments.size(); ++i)
        sections.push_back(
            {.name = std::string(optim::moment_name(optimizer, i)), .values = moments[i]});
    return sections;
}

Ok load_sections(const std::vector<state::Section>& sections,
                 std::vector<float>& parameters,
                 std::vector<std::vector<float>>& moments) {
    bool fits = sections.size() == moments.size() + 1;
    for (const state::Section& section : sections)
        fits = fits && section.values.size() == parameters.size();
    if (!fits) return make_error(ErrorKind::bad_input, "the snapshot is of another expert");
    std::copy(sections[0].values.begin(), sections[0].values.end(), parameters.begin());
    for (std::size_t i = 0; i < moments.size(); ++i) moments[i] = sections[i + 1].values;
    return {};
}

std::vector<state::Section> FfnExpert::snapshot() const {
    return snapshot_sections(options_.optimizer, parameters_, moments_);
}

Ok FfnExpert::load(const std::vector<state::Section>& sections, std::uint64_t updates) {
    DEDLOC_TRY_VOID(load_sections(sections, parameters_, moments_));
    updates_ = updates;
    return {};
}

std::uint64_t FfnExpert::bytes() const {
    return parameters_.size() * sizeof(float) * (1 + moments_.size());
}

optim::OptimizerConfig default_optimizer() {
    optim::OptimizerConfig config;
    config.kind = optim::OptimizerKind::adamw;
    config.schedule.peak = 1e-3;
    return config;
}

}  // namespace dedloc::experts
