#include "experiments/codecs_command.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/codec/codec.h"
#include "dedloc/codec/error_feedback.h"
#include "dedloc/codec/hivemind.h"
#include "dedloc/codec/power_sgd.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/tensor/kernels.h"

#include "tests/common/exit_codes.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t error_elements = 1 << 18;  // also the elements of one part
constexpr int feedback_steps = 100;
constexpr double seconds_per_measure = 0.15;
constexpr int repetitions_least = 5;  // one alone may have been interrupted
constexpr double block8_error_bound = 0.012;
constexpr std::size_t hivemind_columns = 1024;

using codec::CodecId;

// One row of the table. Buffers are the caller's, so that only the codec's own work is timed.
struct Subject {
    std::string name;
    std::function<Bytes(std::span<const float>)> encode;
    std::function<void(std::span<const float>, Bytes&)> encode_again;  // into bytes of that length
    std::function<void(ByteView, std::span<float>)> decode;
    std::function<void(ByteView, std::span<float>)> accumulate;
    bool is_dense = true;
};

void must(const Ok& outcome) { DEDLOC_CHECK(outcome.has_value(), "our own bytes"); }

Subject native(CodecId id) {
    Subject subject;
    subject.name = std::string(codec::to_string(id));
    subject.encode = [id](std::span<const float> values) { return codec::encode(id, values); };
    subject.encode_again = [id](std::span<const float> values, Bytes& out) {
        codec::encode_into(id, values, out);
    };
    subject.decode = [id](ByteView bytes, std::span<float> out) {
        must(codec::decode(id, bytes, out));
    };
    subject.accumulate = [id](ByteView bytes, std::span<float> sum) {
        must(codec::decode_accumulate(id, bytes, 0.5f, sum));
    };
    return subject;
}

Subject hivemind(codec::HivemindCompression compression) {
    Subject subject;
    subject.name = "hivemind " + std::string(codec::to_string(compression));
    subject.encode = [compression](std::span<const float> values) {
        return *codec::encode_hivemind(compression, values, hivemind_columns);
    };
    subject.encode_again = [compression](std::span<const float> values, Bytes& out) {
        out = *codec::encode_hivemind(compression, values, hivemind_columns);
    };
    subject.decode = [compression](ByteView bytes, std::span<float> out) {
        must(codec::decode_hivemind(compression, bytes, hivemind_columns, out));
    };
    auto buffer = std::make_shared<std::vector<float>>();
    subject.accumulate = [decode = subject.decode, buffer](ByteView bytes, std::span<float> sum) {
        buffer->resize(sum.size());
        decode(bytes, *buffer);
        tensor::add_weighted(sum, *buffer, 0.5f);
    };
    return subject;
}

Subject topk(codec::TopK codec) {
    Subject subject;
    subject.name = "top-" + std::to_string(codec.kept) + " of 4096";
    subject.encode = [codec](std::span<const float> values) { return *codec.encode(values); };
    subject.encode_again = [codec](std::span<const float> values, Bytes& out) {
        out = *codec.encode(values);
    };
    subject.decode = [codec](ByteView bytes, std::span<float> out) {
        must(codec.decode(bytes, out));
    };
    subject.accumulate = [codec](ByteView bytes, std::span<float> sum) {
        must(codec.decode_accumulate(bytes, 0.5f, sum));
    };
    subject.is_dense = false;
    return subject;
}

std::vector<float> make_data(const std::string& kind, std::size_t size, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) {
        double value = random.normal();
        if (kind == "laplace") value = random.exponential(1) * (random.chance(0.5) ? 1 : -1);
        if (kind == "spread") value *= std::ldexp(1.0, static_cast<int>(i / 1000 % 8));
        values[i] = static_cast<float>(value * 1e-2);
    }
    return values;
}

double relative_error(std::span<const float> got, std::span<const double> exact) {
    double error = 0;
    double whole = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double difference = static_cast<double>(got[i]) - exact[i];
        error += difference * difference;
        whole += exact[i] * exact[i];
    }
    return std::sqrt(error / whole);
}

double error_once(const Subject& subject, std::span<const float> values) {
    std::vector<float> back(values.size());
    subject.decode(subject.encode(values), back);
    return relative_error(back, std::vector<double>(values.begin(), values.end()));
}

double error_of_average(const Subject& subject, const CodecsCommand& command, std::size_t peers) {
    std::vector<double> exact(error_elements, 0.0);
    std::vector<float> sum(error_elements, 0.0f);
    std::vector<float> decoded(error_elements);
    for (std::size_t peer = 0; peer < peers; ++peer) {
        const auto values = make_data(command.data, error_elements, command.seed + 1000 + peer);
        for (std::size_t i = 0; i < error_elements; ++i)
            exact[i] += static_cast<double>(values[i]) / static_cast<double>(peers);
        subject.decode(subject.encode(values), decoded);
        tensor::add_weighted(sum, decoded, 1.0f);
    }
    tensor::divide(sum, static_cast<float>(peers));
    subject.decode(subject.encode(sum), decoded);
    return relative_error(decoded, exact);
}

double error_with_feedback(codec::StatelessCodec wrapped, std::span<const float> values) {
    codec::ErrorFeedback feedback(wrapped, values.size());
    std::vector<float> sum(values.size(), 0.0f);
    for (int step = 0; step < feedback_steps; ++step) {
        must(wrapped.decode_accumulate(*feedback.encode(values), 1.0f / feedback_steps, sum));
        feedback.settle(true);
    }
    return relative_error(sum, std::vector<double>(values.begin(), values.end()));
}

// ---- speed --------------------------------------------------------------------------------------

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// GB of fp32 a second; the best of the repetitions, since others use this machine too.
double measure(std::size_t elements, const std::function<void()>& body) {
    body();
    double best = 1e9;
    const double end = seconds_now() + seconds_per_measure;
    for (int turn = 0; turn < repetitions_least || seconds_now() < end; ++turn) {
        const double begin = seconds_now();
        body();
        best = std::min(best, seconds_now() - begin);
    }
    return static_cast<double>(elements) * 4e-9 / best;
}

CodecSpeed speed_of(const Subject& subject, std::span<const float> values) {
    std::vector<float> out(values.size(), 0.0f);
    Bytes bytes = subject.encode(values);
    CodecSpeed speed;
    speed.copy = measure(values.size(),
                         [&] { std::memcpy(out.data(), values.data(), values.size_bytes()); });
    speed.encode = measure(values.size(), [&] { subject.encode_again(values, bytes); });
    speed.decode = measure(values.size(), [&] { subject.decode(bytes, out); });
    std::fill(out.begin(), out.end(), 0.0f);
    speed.accumulate = measure(values.size(), [&] { subject.accumulate(bytes, out); });
    return speed;
}

// ---- rows ---------------------------------------------------------------------------------------

constexpr std::size_t groups[] = {2, 8, 32};

CodecRow row_of(const Subject& subject,
                const CodecsCommand& command,
                std::span<const float> values) {
    CodecRow row;
    row.name = subject.name;
    const std::span<const float> part = values.first(error_elements);
    row.bytes_per_element =
        static_cast<double>(subject.encode(part).size()) / static_cast<double>(part.size());
    row.once = error_once(subject, part);
    if (subject.is_dense)
        for (const std::size_t peers : groups)
            row.averages.push_back(error_of_average(subject, command, peers));
    row.memory = speed_of(subject, values);
    row.part = speed_of(subject, part);
    return row;
}

// A square matrix; "encode" is both factors, "decode" the way back with its subtraction.
CodecRow power_sgd_row(std::size_t rank, std::span<const float> values) {
    constexpr std::size_t side = 512;
    static_assert(side * side == error_elements);
    const std::span<const float> matrix = values.first(error_elements);
    codec::PowerSgd power({side, side}, rank, 1);
    std::vector<float> average(error_elements);
    std::vector<float> sum(error_elements, 0.0f);
    CodecRow row;
    row.name = "PowerSGD rank " + std::to_string(rank);
    row.bytes_per_element = 4.0 * static_cast<double>(power.p_count() + power.q_count()) /
                            static_cast<double>(error_elements);
    const std::vector<double> exact(matrix.begin(), matrix.end());
    double encode_best = 1e9;
    double decode_best = 1e9;
    for (int step = 0; step < feedback_steps; ++step) {
        const double begin = seconds_now();
        const std::vector<float> p = *power.first_factor(matrix);
        const std::vector<float> q = *power.second_factor(p);
        const double middle = seconds_now();
        must(power.finish(q, true, average));
        encode_best = std::min(encode_best, middle - begin);
        decode_best = std::min(decode_best, seconds_now() - middle);
        tensor::add_weighted(sum, average, 1.0f / feedback_steps);
        if (step == 0) row.once = relative_error(average, exact);
    }
    row.feedback = relative_error(sum, exact);
    row.part.encode = 4e-9 * error_elements / encode_best;
    row.part.decode = 4e-9 * error_elements / decode_best;
    return row;
}

std::vector<CodecRow> measure_all(const CodecsCommand& command) {
    const std::size_t elements =
        std::max(command.mebibytes * (std::size_t{1} << 18), error_elements);
    const std::vector<float> values = make_data(command.data, elements, command.seed);
    const std::span<const float> part = std::span(values).first(error_elements);
    std::vector<CodecRow> rows;
    const auto add = [&](const Subject& subject) {
        std::fprintf(stderr, "measuring %s …\n", subject.name.c_str());
        rows.push_back(row_of(subject, command, values));
    };
    for (const CodecId id : codec::all_codecs()) {
        add(native(id));
        if (id != CodecId::fp32)
            rows.back().feedback = error_with_feedback(codec::stateless_codec(id), part);
    }
    for (const auto compression : codec::all_hivemind_compressions())
        if (compression != codec::HivemindCompression::none) add(hivemind(compression));
    for (const std::size_t kept : {std::size_t{64}, std::size_t{410}}) {
        add(topk(codec::TopK{kept}));
        rows.back().feedback = error_with_feedback(codec::stateless_codec(codec::TopK{kept}), part);
    }
    for (const std::size_t rank : {std::size_t{1}, std::size_t{4}, std::size_t{32}})
        rows.push_back(power_sgd_row(rank, values));
    return rows;
}

std::string percent(std::optional<double> fraction) {
    char text[32];
    if (!fraction) return "-";
    std::snprintf(text, sizeof text, *fraction < 1e-3 ? "%.1e" : "%.3g", 100 * *fraction);
    return text;
}

std::string speed_text(double gb_per_s) {
    char text[32];
    if (gb_per_s <= 0) return "-";
    std::snprintf(text, sizeof text, "%.2f", gb_per_s);
    return text;
}

void print_table(const std::vector<CodecRow>& rows, std::FILE* file) {
    std::fprintf(file,
                 "%-24s %8s %8s %8s %8s %8s %8s | %6s %6s %6s %6s | %6s %6s %6s %6s\n",
                 "codec",
                 "bytes",
                 "rmse %",
                 "of 2 %",
                 "of 8 %",
                 "of 32 %",
                 "feedbk %",
                 "memcpy",
                 "enc",
                 "dec",
                 "dec+=",
                 "memcpy",
                 "enc",
                 "dec",
                 "dec+=");
    for (const CodecRow& row : rows) {
        std::fprintf(file,
                     "%-24s %8.4f %8s",
                     row.name.c_str(),
                     row.bytes_per_element,
                     percent(row.once).c_str());
        for (std::size_t i = 0; i < std::size(groups); ++i)
            std::fprintf(
                file, " %8s", row.averages.empty() ? "-" : percent(row.averages[i]).c_str());
        std::fprintf(file, " %8s", percent(row.feedback).c_str());
        for (const CodecSpeed* speed : {&row.memory, &row.part}) {
            std::fprintf(file, " |");
            for (const double value :
                 {speed->copy, speed->encode, speed->decode, speed->accumulate})
                std::fprintf(file, " %6s", speed_text(value).c_str());
        }
        std::fprintf(file, "\n");
    }
    std::fprintf(file,
                 "bytes: per element. of P: average of P peers, encoded twice. feedbk: mean of 100 "
                 "with error feedback.\nGB/s of fp32, one thread; left from memory, right a part "
                 "of 1 MiB in the cache.\n");
}

nlohmann::json json_of(const CodecRow& row) {
    nlohmann::json object = {
        {"name", row.name}, {"bytes_per_element", row.bytes_per_element}, {"rmse", row.once}};
    for (std::size_t i = 0; i < row.averages.size(); ++i)
        object["rmse_average_" + std::to_string(groups[i])] = row.averages[i];
    if (row.feedback) object["rmse_feedback"] = *row.feedback;
    const auto add = [&](const std::string& suffix, const CodecSpeed& speed) {
        if (speed.copy > 0) object["memcpy" + suffix] = speed.copy;
        if (speed.encode > 0) object["encode" + suffix] = speed.encode;
        if (speed.decode > 0) object["decode" + suffix] = speed.decode;
        if (speed.accumulate > 0) object["decode_accumulate" + suffix] = speed.accumulate;
    };
    add("_gb_per_s", row.memory);
    add("_part_gb_per_s", row.part);
    return object;
}

}  // namespace

bool block8_within(std::span<const CodecRow> rows) {
    const auto row =
        std::ranges::find(rows, codec::to_string(CodecId::blockwise8), &CodecRow::name);
    return row != rows.end() && row->averages.size() == std::size(groups) &&
           std::ranges::all_of(row->averages,
                               [](double error) { return error <= block8_error_bound; });
}

int run_codecs(const CodecsCommand& command) {
    if (command.data != "normal" && command.data != "laplace" && command.data != "spread") {
        std::fprintf(stderr,
                     "dedloc: --data is normal, laplace or spread, not '%s'\n",
                     command.data.c_str());
        return exit_bad_input;
    }
    const std::vector<CodecRow> rows = measure_all(command);
    print_table(rows, command.json ? stderr : stdout);
    const bool within = block8_within(rows);
    const bool decides = command.data == "normal";
    if (!within)
        std::fprintf(stderr,
                     "dedloc: blockwise8 is worse than 1.2 %%%s\n",
                     decides ? "" : ", which is a promise for normal data only");
    if (command.json) {
        nlohmann::json report = {{"data", command.data},
                                 {"seed", command.seed},
                                 {"mebibytes", command.mebibytes},
                                 {"blockwise8_within_1_2_percent", within},
                                 {"codecs", nlohmann::json::array()}};
        for (const CodecRow& row : rows) report["codecs"].push_back(json_of(row));
        std::printf("%s\n", monitor::json_line(report).c_str());
    }
    return within || !decides ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
