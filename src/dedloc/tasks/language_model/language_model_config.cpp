#include "dedloc/tasks/language_model/language_model_config.h"

#include <algorithm>
#include <cmath>

#include "dedloc/replica/kept_averages.h"

namespace dedloc::tasks {

namespace {

constexpr std::int64_t parameters_max = std::int64_t{1} << 33;

}  // namespace

// The run file's reader has bounded each of them.
Ok check(const DecoderConfig& config) {
    if (config.hidden % config.heads != 0)
        return make_error(ErrorKind::bad_input,
                          "language_model.heads: {} heads do not divide a hidden size of {}",
                          config.heads,
                          config.hidden);
    if (config.heads % config.key_value_heads != 0)
        return make_error(ErrorKind::bad_input,
                          "language_model.key_value_heads: {} do not divide {} heads",
                          config.key_value_heads,
                          config.heads);
    if (config.family == DecoderFamily::gpt2 && config.key_value_heads != config.heads)
        return make_error(ErrorKind::bad_input,
                          "language_model.key_value_heads: a gpt2 has as many as heads ({}), not "
                          "{}; groups are a llama's",
                          config.heads,
                          config.key_value_heads);
    if (config.family == DecoderFamily::llama && config.head_width() % 2 != 0)
        return make_error(ErrorKind::bad_input,
                          "language_model.heads: {} heads of a hidden size of {} have an odd "
                          "width, and rotary positions turn pairs of numbers",
                          config.heads,
                          config.hidden);
    if (config.family == DecoderFamily::gpt2 && !config.tied)
        return make_error(ErrorKind::bad_input,
                          "language_model.tied: a gpt2's last product is its word embedding");
    if (config.lora.rank > std::min(config.hidden, config.feed_forward))
        return make_error(ErrorKind::bad_input,
                          "language_model.lora_rank: {} is more than the products have rows",
                          config.lora.rank);
    if (parameters_count(config) > parameters_max)
        return make_error(ErrorKind::bad_input,
                          "language_model: {} parameters are too many; at most {}",
                          parameters_count(config),
                          parameters_max);
    return {};
}

std::int64_t parameters_count(const DecoderConfig& config) {
    const std::int64_t h = config.hidden;
    const std::int64_t f = config.feed_forward;
    const std::int64_t words = (config.tied ? 1 : 2) * config.vocabulary * h;
    if (config.family == DecoderFamily::gpt2) {
        const auto dense = [](std::int64_t from, std::int64_t to) { return from * to + to; };
        const std::int64_t norm = 2 * h;
        const std::int64_t layer =
            2 * norm + dense(h, 3 * h) + dense(h, h) + dense(h, f) + dense(f, h);
        return words + config.positions * h + config.layers * layer + norm;
    }
    const std::int64_t groups = config.key_value_heads * config.head_width();
    const std::int64_t layer = 2 * h + 2 * h * h + 2 * h * groups + 3 * h * f;
    return words + config.layers * layer + h;
}

std::int64_t trained_count(const DecoderConfig& config) {
    if (!config.lora.is_on()) return parameters_count(config);
    const std::int64_t h = config.hidden;
    const std::int64_t f = config.feed_forward;
    const std::int64_t groups = config.key_value_heads * config.head_width();
    const bool all = config.lora.everywhere();
    std::int64_t sides = 0;  // of a layer's adapted products, inputs and outputs together
    if (config.family == DecoderFamily::gpt2)
        sides = 4 * h + (all ? 2 * h + 2 * (h + f) : 0);
    else
        sides = 2 * h + (h + groups) + (all ? (h + groups) + 2 * h + 3 * (h + f) : 0);
    return config.layers * config.lora.rank * sides;
}

double loss_of_ignorance(const DecoderConfig& config) {
    return std::log(static_cast<double>(config.vocabulary));
}

DecoderMemory memory_estimate(const DecoderConfig& config,
                              std::int64_t rows,
                              std::int64_t columns) {
    constexpr std::uint64_t element = 4;
    const auto all = static_cast<std::uint64_t>(parameters_count(config));
    const auto elements = static_cast<std::uint64_t>(trained_count(config));
    const std::uint64_t frozen = config.lora.is_on() ? all : 0;
    const auto tokens = static_cast<std::uint64_t>(rows * columns);
    const auto h = static_cast<std::uint64_t>(config.hidden);
    const auto f = static_cast<std::uint64_t>(config.feed_forward);
    const auto scores = static_cast<std::uint64_t>(config.heads * columns);
    // Memory that libtorch keeps of a layer for the way back, with oneDNN's own copies of inputs.
    const std::uint64_t layer = tokens * (20 * h + 4 * f + 5 * scores);
    const auto layers = static_cast<std::uint64_t>(config.layers);
    const std::uint64_t kept = config.recompute ? layers * tokens * h + layer : layers * layer;
    const std::uint64_t logits = tokens * 3 * static_cast<std::uint64_t>(config.vocabulary);
    DecoderMemory memory;
    memory.parameters = element * (3 * elements + frozen);
    memory.activations = element * (kept + logits + 4 * tokens * h);
    memory.program = 256u << 20;  // libtorch and its threads, text; measured
    // Sums that are handed in, the average, and parameters with two moments: of the newest two
    // steps (state/store.h), and of the one that is being computed; averages of steps before, in
    // fp16.
    memory.collaboration =
        element * (2 + 3 * 3) * elements + replica::kept_averages_bytes(elements, 2);
    return memory;
}

}  // namespace dedloc::tasks
