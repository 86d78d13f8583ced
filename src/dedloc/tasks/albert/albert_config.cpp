#include "dedloc/tasks/albert/albert_config.h"

#include <cmath>
#include <utility>

#include "dedloc/replica/kept_averages.h"

namespace dedloc::tasks {

namespace {

constexpr std::int64_t size_max = 1 << 20;
constexpr std::int64_t layers_max = 1024;
constexpr std::int64_t parameters_max = std::int64_t{1} << 33;

Ok check_size(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value >= low && value <= high) return {};
    return make_error(
        ErrorKind::bad_input, "albert.{} must be from {} to {}, not {}", field, low, high, value);
}

Ok check_fraction(const char* field, double value) {
    if (value >= 0 && value < 1) return {};
    return make_error(
        ErrorKind::bad_input, "albert.{} must be from 0 to below 1, not {}", field, value);
}

}  // namespace

Ok check(const AlbertConfig& config) {
    // Below six, the special pieces leave nothing to predict.
    DEDLOC_TRY_VOID(check_size("vocabulary", config.vocabulary, 6, size_max));
    DEDLOC_TRY_VOID(check_size("embedding", config.embedding, 1, size_max));
    DEDLOC_TRY_VOID(check_size("hidden", config.hidden, 1, size_max));
    DEDLOC_TRY_VOID(check_size("layers", config.layers, 1, layers_max));
    DEDLOC_TRY_VOID(check_size("heads", config.heads, 1, size_max));
    DEDLOC_TRY_VOID(check_size("feed_forward", config.feed_forward, 1, size_max));
    DEDLOC_TRY_VOID(check_size("positions", config.positions, 5, size_max));
    DEDLOC_TRY_VOID(check_fraction("dropout", config.dropout));
    DEDLOC_TRY_VOID(check_fraction("attention_dropout", config.attention_dropout));
    DEDLOC_TRY_VOID(check_fraction("classifier_dropout", config.classifier_dropout));
    if (config.hidden % config.heads != 0)
        return make_error(ErrorKind::bad_input,
                          "albert.heads: {} heads do not divide a hidden size of {}",
                          config.heads,
                          config.hidden);
    if (config.xl && config.hidden / config.heads % 2 != 0)
        return make_error(ErrorKind::bad_input,
                          "albert.heads: {} heads of a hidden size of {} have an odd width, and "
                          "rotary positions turn pairs of numbers",
                          config.heads,
                          config.hidden);
    if (parameters_count(config) > parameters_max)
        return make_error(ErrorKind::bad_input,
                          "albert: {} parameters are too many; at most {}",
                          parameters_count(config),
                          parameters_max);
    return {};
}

std::int64_t parameters_count(const AlbertConfig& config) {
    const auto dense = [](std::int64_t from, std::int64_t to) { return from * to + to; };
    const auto norm = [](std::int64_t width) { return 2 * width; };
    const std::int64_t e = config.embedding;
    const std::int64_t h = config.hidden;
    const std::int64_t f = config.feed_forward;
    const std::int64_t positions = config.xl ? 0 : config.positions;
    const std::int64_t pooler = config.xl ? 0 : dense(h, h);
    const std::int64_t widened = config.xl ? 2 * f : f;
    return (config.vocabulary + positions + albert_token_types) * e + norm(e) +
           dense(e, h) +                                                            // embeddings
           4 * dense(h, h) + norm(h) + dense(h, widened) + dense(f, h) + norm(h) +  // the layer
           pooler + dense(h, 2) +                      // sentence order
           dense(h, e) + norm(e) + config.vocabulary;  // masked words
}

double loss_of_ignorance(const AlbertConfig& config) {
    return std::log(static_cast<double>(config.vocabulary)) + std::log(2.0);
}

AlbertMemory memory_estimate(const AlbertConfig& config,
                             std::int64_t rows,
                             std::int64_t columns,
                             std::int64_t masked) {
    constexpr std::uint64_t element = 4;
    const auto elements = static_cast<std::uint64_t>(parameters_count(config));
    const auto tokens = static_cast<std::uint64_t>(rows * columns);
    const auto h = static_cast<std::uint64_t>(config.hidden);
    const auto f = static_cast<std::uint64_t>(config.feed_forward);
    const auto e = static_cast<std::uint64_t>(config.embedding);
    // Memory that libtorch keeps of a layer for the way back, with oneDNN's own copies of inputs
    // and what is there for a moment. Measured on the CPU (hidden 256, 6 layers, 512 columns): 211
    // MiB a sample where this says 227.
    const std::uint64_t layer = tokens * (20 * h + (config.xl ? 6 : 3) * f +
                                          5 * static_cast<std::uint64_t>(config.heads * columns));
    const std::uint64_t head = static_cast<std::uint64_t>(masked) *
                               (3 * static_cast<std::uint64_t>(config.vocabulary) + 5 * e + h);
    AlbertMemory memory;
    memory.parameters = element * 3 * elements;
    memory.activations =
        element * (static_cast<std::uint64_t>(config.layers) * layer + head + tokens * (4 * e + h));
    memory.program = 256u << 20;  // libtorch and its threads, text; measured
    // Sums that are handed in, the average, and parameters with two moments: of the newest two
    // steps (state/store.h), and of the one that is being computed; averages of steps before, in
    // fp16.
    memory.collaboration =
        element * (2 + 3 * 3) * elements + replica::kept_averages_bytes(elements, 2);
    return memory;
}

double operations_count(const AlbertConfig& config,
                        std::int64_t rows,
                        std::int64_t columns,
                        std::int64_t masked) {
    const auto h = static_cast<double>(config.hidden);
    const auto f = static_cast<double>(config.feed_forward);
    const auto e = static_cast<double>(config.embedding);
    const auto tokens = static_cast<double>(rows * columns);
    const double layer =
        tokens * (4 * h * h + (config.xl ? 3 : 2) * h * f + 2 * static_cast<double>(columns) * h);
    const double head =
        static_cast<double>(masked) * e * (h + static_cast<double>(config.vocabulary));
    constexpr double multiply_and_add = 2;
    constexpr double forward_and_back = 3;
    return multiply_and_add * forward_and_back *
           (static_cast<double>(config.layers) * layer + tokens * e * h + head);
}

}  // namespace dedloc::tasks
