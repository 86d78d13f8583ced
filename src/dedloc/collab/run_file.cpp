// One list of fields (visit_fields) says keys, bounds and order; reading, writing, comparing and
// the search for misspelt keys all walk that list.

#include "dedloc/collab/run_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <utility>

#include "dedloc/base/edit_distance.h"
#include "dedloc/base/printable.h"
#include "dedloc/collab/ascii_toml.h"
#include "dedloc/security/hash.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace dedloc::collab {
namespace {

constexpr std::uint64_t steps_max = std::uint64_t{1} << 40;
constexpr std::uint64_t samples_per_step_max = std::uint64_t{1} << 32;
constexpr std::uint64_t codec_threshold_min = 4096;  // shorter ranges of one codec are not made
constexpr std::uint64_t integer_max = std::numeric_limits<std::int64_t>::max();  // TOML's

struct Integers {
    std::uint64_t min = 0;
    std::uint64_t max = integer_max;
};
struct IntegersOrAuto {  // "auto" is 0
    std::uint64_t min = 1;
    std::uint64_t max = integer_max;
};
struct Numbers {
    double min = 0;
    double max = 0;
};
struct Durations {
    Duration min{0};
    Duration max{0};
};
struct Text {
    std::size_t bytes_max = 64;
    bool required = false;
};
struct Choice {
    std::vector<std::string_view> words;
};
struct Enumeration {};  // the words are those of to_string and from_string of the type

constexpr std::string_view adaptive = "adaptive";  // averaging.codec: chosen by tensor

std::string_view word_of(std::optional<codec::CodecId> id) {
    return id ? codec::to_string(*id) : adaptive;
}
std::string_view word_of(optim::OptimizerKind kind) { return optim::to_string(kind); }
std::string_view word_of(optim::ScheduleKind kind) { return optim::to_string(kind); }

Ok set_from_word(std::optional<codec::CodecId>& id, std::string_view word) {
    id.reset();
    if (word == adaptive) return {};
    const auto known = codec::codec_from_string(word);
    if (!known)
        return make_error(known.error().kind(), "{}, or {}", known.error().message(), adaptive);
    id = *known;
    return {};
}
Ok set_from_word(optim::OptimizerKind& kind, std::string_view word) {
    DEDLOC_TRY(kind, optim::optimizer_from_string(word));
    return {};
}
Ok set_from_word(optim::ScheduleKind& kind, std::string_view word) {
    DEDLOC_TRY(kind, optim::schedule_from_string(word));
    return {};
}

// Versions are written, so that they are hashed, and may be asked for; they cannot be chosen.
struct Versions {
    std::uint64_t format = run_format;
    std::uint64_t numerics = numerics_version;
    std::uint64_t optimizer_numerics = optim::numerics_version;
};

template <typename Visitor>
void visit_versions(Visitor& visit, const Versions& versions) {
    visit("format", versions.format);
    visit("numerics", versions.numerics);
    visit("optimizer_numerics", versions.optimizer_numerics);
}

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
    if (optimizer.larc) visit(key("optimizer.larc_clip"), optimizer.larc_clip);
    visit(key("optimizer.larc_trust"), optimizer.larc_trust, Numbers{1e-9, 10});
    visit(key("optimizer.larc_epsilon"), optimizer.larc_epsilon, Numbers{0, 1});
    visit(key("optimizer.beta1"), optimizer.beta1, Numbers{0, 0.99999});
    visit(key("optimizer.beta2"), optimizer.beta2, Numbers{0, 0.9999999});
    visit(key("optimizer.epsilon"), optimizer.epsilon, Numbers{1e-16, 1});
    visit(key("optimizer.debias"), optimizer.debias);
    visit(key("optimizer.norm_clamp"), optimizer.norm_clamp, Numbers{1e-9, 1e9});
    if (optimizer.kind == optim::OptimizerKind::lamb)
        visit(key("optimizer.moments_8bit"), optimizer.moments_8bit);
    visit(key("schedule.kind"), optimizer.schedule.kind, Enumeration{});
    visit(key("schedule.peak"), optimizer.schedule.peak, Numbers{0, 1000});  // learning rate
    visit(key("schedule.warmup_steps"), optimizer.schedule.warmup_steps, Integers{0, steps_max});
    if (optimizer.schedule.warmup_steps > 0)
        visit(key("schedule.warmup_start"), optimizer.schedule.warmup_start, Numbers{0, 1000});
    visit(key("schedule.total_steps"), optimizer.schedule.total_steps, Integers{0, steps_max});
    visit(key("schedule.final_fraction"), optimizer.schedule.final_fraction, Numbers{0, 1});
}

template <typename Visitor, typename Local>
void visit_local(Visitor& visit, Local& local) {
    visit("local.batch", local.batch, Integers{1, samples_per_step_max});
    visit_optimizer(visit, local.optimizer, "local.");
}

template <typename Visitor, typename Averaging>
void visit_averaging(Visitor& visit, Averaging& averaging) {
    visit("averaging.codec", averaging.codec, Enumeration{});
    if (!averaging.codec)
        visit("averaging.codec_threshold",
              averaging.codec_threshold,
              Integers{.min = codec_threshold_min});
    visit("averaging.part_elements_max", averaging.part_elements_max, Integers{256, 1u << 20});
    visit("averaging.group_max", averaging.group_max, Integers{2, 256});
    visit("averaging.round_deadline_min", averaging.round_deadline_min, Durations{100ms, 1h});
    visit("averaging.round_deadline_max", averaging.round_deadline_max, Durations{100ms, 1h});
    visit("averaging.quorum_timeout", averaging.quorum_timeout, Durations{1s, 24h});
    visit("averaging.voter_after_contributions",
          averaging.voter_after_contributions,
          Integers{1, 1000});
    visit("averaging.norm_max", averaging.norm_max, Numbers{0, 1e30});
    visit("averaging.delayed", averaging.delayed);
    visit("averaging.leave_out_slow", averaging.leave_out_slow);
}

template <typename Visitor, typename Robust>
void visit_robust(Visitor& visit, Robust& robust) {
    visit("robust.reducer", robust.reducer, Choice{{"centered_clip"}});
    visit("robust.tau", robust.tau, Numbers{0, 1e9});
    visit("robust.iterations_max", robust.iterations_max, Integers{1, 10'000});
    visit("robust.eps", robust.eps, Numbers{1e-9, 0.1});
    visit("robust.weight_cap", robust.weight_cap, Numbers{1, 1000});
}

template <typename Visitor, typename Albert>
void visit_albert(Visitor& visit, Albert& albert) {
    constexpr std::uint64_t size_max = 1u << 20;
    visit("albert.vocabulary", albert.vocabulary, Integers{6, size_max});
    visit("albert.embedding", albert.embedding, Integers{1, size_max});
    visit("albert.hidden", albert.hidden, Integers{1, size_max});
    visit("albert.layers", albert.layers, Integers{1, 1024});
    visit("albert.heads", albert.heads, Integers{1, size_max});
    visit("albert.feed_forward", albert.feed_forward, Integers{1, size_max});
    visit("albert.positions", albert.positions, Integers{8, 8192});
    visit("albert.dropout", albert.dropout, Numbers{0, 0.99});
    visit("albert.attention_dropout", albert.attention_dropout, Numbers{0, 0.99});
    visit("albert.classifier_dropout", albert.classifier_dropout, Numbers{0, 0.99});
}

template <typename Visitor, typename TextSection>
void visit_text(Visitor& visit, TextSection& text) {
    visit("text.tokenizer", text.tokenizer, Text{.bytes_max = 256});
    visit("text.tokenizer_hash", text.tokenizer_hash, Text{.bytes_max = 64});
    visit("text.corpus_hash", text.corpus_hash, Text{.bytes_max = 64});
    visit("text.length", text.length, Integers{8, 8192});
    visit("text.pad_multiple", text.pad_multiple, Integers{1, 1024});
    visit("text.masked", text.masked, Numbers{0, 1});
    visit("text.masked_as_mask", text.masked_as_mask, Numbers{0, 1});
    visit("text.masked_as_random", text.masked_as_random, Numbers{0, 1});
    visit("text.held_out", text.held_out, Numbers{0, 0.5});
    visit("text.held_out_samples", text.held_out_samples, Integers{1, 1u << 20});
    visit("text.window_samples", text.window_samples, Integers{1, 1u << 20});
}

// Which fields there are depends on task.kind, on whether there are sections [local] and
// [robust], and on whether codecs are adaptive; these are therefore looked at before them.
template <typename Visitor, typename Run>
void visit_fields(Visitor& visit, Run& run) {
    visit("name", run.name, Text{.bytes_max = 64, .required = true});
    visit("protocol", run.protocol, Choice{{"native"}});
    visit("task.kind", run.task.kind, Text{});
    visit("task.model", run.task.model, Text{});
    visit("task.data", run.task.data, Text{.bytes_max = 1024});
    visit("task.seed", run.task.seed, Integers{});
    visit("task.precision", run.task.precision, Choice{{"fp32", "bf16"}});
    if (run.task.kind == "albert") {
        visit_albert(visit, run.task.albert);
        visit_text(visit, run.task.text);
    }
    visit("batch.target", run.batch.target, Integers{1, samples_per_step_max});
    visit("batch.micro", run.batch.micro, IntegersOrAuto{1, samples_per_step_max});
    visit_optimizer(visit, run.optimizer);
    if (run.local) visit_local(visit, *run.local);
    visit_averaging(visit, run.averaging);
    if (run.robust) visit_robust(visit, *run.robust);
    visit("stop.steps", run.stop.steps, Integers{0, steps_max});
    visit("stop.samples", run.stop.samples, Integers{});
    visit("stop.accuracy", run.stop.accuracy, Numbers{0, 1});
    visit("checkpoint.every", run.checkpoint_every, Integers{0, steps_max});
    visit("evaluate.every", run.evaluate_every, Integers{0, steps_max});
}

std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 32 || c == 127)
            out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        else
            out += c;
    }
    return out + '"';
}

std::string to_word(double value) {
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

struct Unit {
    std::string_view name;
    std::int64_t nanoseconds;
};
constexpr Unit units[] = {{"h", 3600'000'000'000},
                          {"min", 60'000'000'000},
                          {"s", 1'000'000'000},
                          {"ms", 1'000'000},
                          {"us", 1'000},
                          {"ns", 1}};

std::string to_word(Duration value) {
    for (const Unit& unit : units)
        if (unit.name != "h" && unit.name != "min" && value.count() % unit.nanoseconds == 0)
            return fmt::format("\"{}{}\"", value.count() / unit.nanoseconds, unit.name);
    return {};
}

std::optional<Duration> duration_from(std::string_view text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
    const std::string_view name(end, static_cast<std::size_t>(text.data() + text.size() - end));
    for (const Unit& unit : units) {
        const double nanoseconds = number * static_cast<double>(unit.nanoseconds);
        if (unit.name == name && nanoseconds < 1e18)
            return Duration(static_cast<std::int64_t>(std::llround(nanoseconds)));
    }
    return std::nullopt;
}

std::string join_words(const std::vector<std::string_view>& words) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
        text += in_quotes(words[i]);
    }
    return text;
}

// --- writing and comparing: every field as (key, TOML word) ---

struct Word {
    std::string key;
    std::string text;
};

struct WordCollector {
    std::vector<Word> words;

    void operator()(std::string_view key, std::uint64_t value, const Integers&) {
        words.push_back({std::string(key), fmt::format("{}", value)});
    }
    void operator()(std::string_view key, std::uint64_t value, const IntegersOrAuto&) {
        words.push_back(
            {std::string(key), value == 0 ? in_quotes("auto") : fmt::format("{}", value)});
    }
    void operator()(std::string_view key, double value, const Numbers&) {
        words.push_back({std::string(key), to_word(value)});
    }
    void operator()(std::string_view key, Duration value, const Durations&) {
        words.push_back({std::string(key), to_word(value)});
    }
    template <typename Rule>
    void operator()(std::string_view key, const std::string& value, const Rule&) {
        words.push_back({std::string(key), in_quotes(value)});
    }
    template <typename Kind>
    void operator()(std::string_view key, Kind value, const Enumeration&) {
        words.push_back({std::string(key), in_quotes(word_of(value))});
    }
    void operator()(std::string_view key, const bool& value) {
        words.push_back({std::string(key), value ? "true" : "false"});
    }
    void operator()(std::string_view key, const std::uint64_t& version) {
        words.push_back({std::string(key), fmt::format("{}", version)});
    }
};

std::vector<Word> words_of(const RunFile& run) {
    WordCollector collector;
    visit_versions(collector, Versions{});
    visit_fields(collector, run);
    return std::move(collector.words);
}

// --- reading ---

std::string_view last_part(std::string_view key) {
    return key.substr(key.rfind('.') + 1);  // npos + 1 == 0
}

std::string_view section_of(std::string_view key) {
    const auto dot = key.rfind('.');
    return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

// "; did you mean 'batch.target'?" or nothing.
std::string suggestion(std::string_view unknown, const std::vector<Word>& known) {
    constexpr std::size_t key_bytes_max = 64;
    if (unknown.size() > key_bytes_max) return {};
    std::string_view best;
    std::size_t best_distance = unknown.size() / 3 + 1;
    for (const Word& word : known) {
        std::size_t distance = base::edit_distance(unknown, word.key);
        if (last_part(unknown) == last_part(word.key))
            distance = std::min<std::size_t>(distance, 2);
        if (distance < best_distance) {
            best_distance = distance;
            best = word.key;
        }
    }
    return best.empty() ? std::string() : fmt::format("; did you mean '{}'?", best);
}

class Reader {
  public:
    Reader(const toml::table& root, std::string_view file) : root_(root), file_(file) {}

    std::optional<Error> error;

    template <std::unsigned_integral Integer>
    void operator()(std::string_view key, Integer& value, const Integers& rule) {
        const toml::node* node = find(key);
        if (!node) return;
        const auto* integer = node->as_integer();
        if (!integer) return wrong_type(key, *node, "a whole number");
        const std::int64_t number = integer->get();
        if (number < 0 || static_cast<std::uint64_t>(number) < rule.min ||
            static_cast<std::uint64_t>(number) > rule.max)
            return fail(
                *node,
                fmt::format("'{}' must be from {} to {}, not {}", key, rule.min, rule.max, number));
        value = static_cast<Integer>(number);  // rule.max fits it
    }

    void operator()(std::string_view key, std::uint64_t& value, const IntegersOrAuto& rule) {
        const toml::node* node = find(key);
        if (!node) return;
        const auto* text = node->as_string();
        if (text && text->get() == "auto") {
            value = 0;
            return;
        }
        if (!node->is_integer()) return wrong_type(key, *node, "a whole number, or \"auto\"");
        (*this)(key, value, Integers{rule.min, rule.max});
    }

    void operator()(std::string_view key, double& value, const Numbers& rule) {
        const toml::node* node = find(key);
        if (!node) return;
        const auto number = node->value<double>();
        if (!number || !node->is_number()) return wrong_type(key, *node, "a number");
        if (!(*number >= rule.min && *number <= rule.max))
            return fail(
                *node,
                fmt::format(
                    "'{}' must be from {} to {}, not {}", key, rule.min, rule.max, *number));
        value = *number == 0 ? 0 : *number;  // no negative zero: one value, one hash
    }

    void operator()(std::string_view key, Duration& value, const Durations& rule) {
        const toml::node* node = find(key);
        if (!node) return;
        const auto* text = node->as_string();
        const auto duration = text ? duration_from(text->get()) : std::nullopt;
        if (!duration)
            return wrong_type(key, *node, "a duration in quotes like \"10s\" or \"500ms\"");
        if (*duration < rule.min || *duration > rule.max)
            return fail(*node,
                        fmt::format("'{}' must be from {} to {}, not {}",
                                    key,
                                    to_word(rule.min),
                                    to_word(rule.max),
                                    to_word(*duration)));
        value = *duration;
    }

    void operator()(std::string_view key, std::string& value, const Text& rule) {
        const toml::node* node = find(key);
        if (!node) {
            if (rule.required && !error)
                error = make_error(ErrorKind::bad_input,
                                   "{}:1:1: '{}' is missing; write: {} = \"…\"",
                                   file_,
                                   key,
                                   key);
            return;
        }
        const auto* text = node->as_string();
        if (!text) return wrong_type(key, *node, "a text in quotes");
        if (text->get().empty() || text->get().size() > rule.bytes_max)
            return fail(*node,
                        fmt::format("'{}' must have 1 to {} letters, not {}",
                                    key,
                                    rule.bytes_max,
                                    text->get().size()));
        // Names and words of a run come to the terminals of all who are asked to join it.
        if (!base::is_printable(text->get()))
            return fail(*node,
                        fmt::format("'{}' must not contain control characters, nor marks that "
                                    "turn the direction of writing",
                                    key));
        value = text->get();
    }

    void operator()(std::string_view key, std::string& value, const Choice& rule) {
        const toml::node* node = find(key);
        if (!node) return;
        const auto* text = node->as_string();
        if (!text ||
            std::find(rule.words.begin(), rule.words.end(), text->get()) == rule.words.end())
            return not_one_of(key, *node, rule.words);
        value = text->get();
    }

    template <typename Kind>
    void operator()(std::string_view key, Kind& value, const Enumeration&) {
        const toml::node* node = find(key);
        if (!node) return;
        const auto* text = node->as_string();
        if (!text) return wrong_type(key, *node, "a word in quotes");
        if (const Ok set = set_from_word(value, text->get()); !set)
            fail(*node, fmt::format("'{}': {}", key, set.error().message()));
    }

    void operator()(std::string_view key, const std::uint64_t& version) {
        const toml::node* node = find(key);
        if (!node) return;
        const auto* integer = node->as_integer();
        if (!integer) return wrong_type(key, *node, "a whole number");
        if (integer->get() < 0 || static_cast<std::uint64_t>(integer->get()) != version)
            fail(*node,
                 fmt::format("'{}' is {} in this file, but this dedloc computes with {}; use the "
                             "version of dedloc that the run was made with",
                             key,
                             integer->get(),
                             version));
    }

    void operator()(std::string_view key, bool& value) {
        const toml::node* node = find(key);
        if (!node) return;
        if (!node->is_boolean()) return wrong_type(key, *node, "true or false");
        value = node->as_boolean()->get();
    }

    void fail(const toml::node& node, std::string_view sentence) {
        if (error) return;  // the first one
        const auto& at = node.source().begin;
        error =
            make_error(ErrorKind::bad_input, "{}:{}:{}: {}", file_, at.line, at.column, sentence);
    }

    void fail_key(std::string_view key, std::string_view sentence) {
        if (const toml::node* node = find(key)) return fail(*node, sentence);
        if (!error) error = make_error(ErrorKind::bad_input, "{}:1:1: {}", file_, sentence);
    }

    const toml::node* find(std::string_view key) const {
        const toml::table* table = &root_;
        for (;;) {
            const auto dot = key.find('.');
            const toml::node* node = table->get(key.substr(0, dot));
            if (!node || dot == std::string_view::npos) return node;
            table = node->as_table();
            if (!table) return nullptr;
            key.remove_prefix(dot + 1);
        }
    }

  private:
    void wrong_type(std::string_view key, const toml::node& node, std::string_view wanted) {
        fail(node, fmt::format("'{}' must be {}", key, wanted));
    }
    void not_one_of(std::string_view key,
                    const toml::node& node,
                    const std::vector<std::string_view>& words) {
        const auto* text = node.as_string();
        const std::string got =
            text && text->get().size() < 64 ? fmt::format(", not {}", in_quotes(text->get())) : "";
        fail(node, fmt::format("'{}' must be {}{}", key, join_words(words), got));
    }

    const toml::table& root_;
    std::string_view file_;
};

// Looks for the first key of the file that nobody asked for.
class UnknownKey {
  public:
    UnknownKey(std::string_view file, const std::vector<Word>& known)
        : file_(file), known_(known) {}

    // Of a table whose own path is `above`, empty or with a dot at its end.
    std::optional<Error> look(const toml::table& table, const std::string& above = {}) const {
        for (const auto& [key, node] : table) {
            const std::string path = above + std::string(key.str());
            // "batch.target" in quotes is one key and no section with one.
            if (key.str().find('.') != std::string_view::npos) return complain(key, "key", path);
            if (is_known(path)) continue;
            const toml::table* inner = node.as_table();
            if (is_section(path)) {
                if (!inner) return complain(key, "key", path);
                if (auto unknown = look(*inner, path + ".")) return unknown;
                continue;
            }
            // A misspelt section: name the first key in it, whose neighbour is easier to guess.
            if (inner && !inner->empty())
                return complain(inner->begin()->first,
                                "key",
                                path + "." + std::string(inner->begin()->first.str()));
            return complain(key, inner ? "section" : "key", path);
        }
        return std::nullopt;
    }

  private:
    bool is_known(std::string_view key) const {
        return std::any_of(
            known_.begin(), known_.end(), [&](const Word& word) { return word.key == key; });
    }
    bool is_section(std::string_view key) const {
        const std::string start = std::string(key) + ".";
        return std::any_of(known_.begin(), known_.end(), [&](const Word& word) {
            return word.key.starts_with(start);
        });
    }
    Error complain(const toml::key& key, std::string_view what, std::string path) const {
        const auto& at = key.source().begin;
        for (char& c : path)
            if (static_cast<unsigned char>(c) < 32) c = '?';
        return make_error(ErrorKind::bad_input,
                          "{}:{}:{}: unknown {} '{}'{}",
                          file_,
                          at.line,
                          at.column,
                          what,
                          path.substr(0, 80),
                          suggestion(path, known_));
    }

    std::string_view file_;
    const std::vector<Word>& known_;
};

void check_local(const RunFile& run, Reader& reader) {
    const LocalConfig& local = *run.local;
    if (local.batch == 0)
        reader.fail_key("local",
                        "[local] needs 'batch', the samples of one inner step of one peer; write: "
                        "batch = 64");
    if (run.batch.micro != micro_auto && local.batch % run.batch.micro != 0)
        reader.fail_key("local.batch",
                        fmt::format("'local.batch' ({}) must be a multiple of 'batch.micro' ({})",
                                    local.batch,
                                    run.batch.micro));
    if (local.batch > run.batch.target)
        reader.fail_key("local.batch",
                        fmt::format("'local.batch' ({}) must not exceed 'batch.target' ({}), which "
                                    "is what all peers together compute between two averages",
                                    local.batch,
                                    run.batch.target));
    if (const Ok schedule = optim::check(local.optimizer.schedule); !schedule)
        reader.fail_key("local.schedule.total_steps", schedule.error().message());
    if (const Ok optimizer = optim::check(local.optimizer); !optimizer)
        reader.fail_key("local.optimizer.kind", optimizer.error().message());
    if (local.optimizer.moments_8bit)
        reader.fail_key("local.optimizer.moments_8bit",
                        "local updates keep their moments in fp32: only [optimizer] has 8 bits");
    if (run.averaging.delayed)
        reader.fail_key("averaging.delayed",
                        "'averaging.delayed' and [local] exclude each other: a peer that makes "
                        "steps of its own cannot do so while the last ones are averaged; with "
                        "[local] a larger 'batch.target' makes averages rarer");
}

void check_robust(const RunFile& run, Reader& reader) {
    if (run.robust->tau <= 0)
        reader.fail_key("robust.tau",
                        "'robust.tau' (0) clips every gradient to nothing: write about the length "
                        "of an honest mean gradient, such as 4");
    if (run.local)
        reader.fail_key("robust",
                        "[robust] and [local] exclude each other: what a peer hands in after steps "
                        "of its own is no gradient that others could clip to a common length");
}

void check_together(const RunFile& run, Reader& reader) {
    if (run.batch.micro > run.batch.target)
        reader.fail_key("batch.micro",
                        fmt::format("'batch.micro' ({}) must not exceed 'batch.target' ({})",
                                    run.batch.micro,
                                    run.batch.target));
    if (const Ok schedule = optim::check(run.optimizer.schedule); !schedule)
        reader.fail_key("schedule.total_steps", schedule.error().message());
    if (const Ok optimizer = optim::check(run.optimizer); !optimizer)
        reader.fail_key("optimizer.kind", optimizer.error().message());
    if (run.averaging.round_deadline_min > run.averaging.round_deadline_max)
        reader.fail_key("averaging.round_deadline_min",
                        fmt::format("'averaging.round_deadline_min' ({}) must not exceed "
                                    "'averaging.round_deadline_max' ({})",
                                    to_word(run.averaging.round_deadline_min),
                                    to_word(run.averaging.round_deadline_max)));
    if (run.local) check_local(run, reader);
    if (run.robust) check_robust(run, reader);
}

// What decides on further keys of [optimizer] and [schedule].
void look_ahead(const toml::table& section, optim::OptimizerConfig& optimizer) {
    const std::string_view kind = section["optimizer"]["kind"].value_or(std::string_view());
    if (const auto known = optim::optimizer_from_string(kind)) optimizer.kind = *known;
    optimizer.larc = section["optimizer"]["larc"].value_or(false);
    const std::int64_t steps = section["schedule"]["warmup_steps"].value_or(std::int64_t{0});
    optimizer.schedule.warmup_steps = steps > 0 ? 1 : 0;
}

std::string_view section_or_none(bool there) { return there ? "a section" : "none"; }

}  // namespace

Result<RunFile> parse_run_file(std::string_view text, std::string_view file_name) {
    if (text.size() > run_file_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "{}: {} bytes are too many for a run file; at most {} are read",
                          file_name,
                          text.size(),
                          run_file_bytes_max);
    DEDLOC_TRY(const std::string safe, ascii_toml(text, file_name));
    const toml::parse_result parsed = toml::parse(safe, std::string(file_name));
    if (!parsed) {
        const auto& at = parsed.error().source().begin;
        return make_error(ErrorKind::bad_input,
                          "{}:{}:{}: {}",
                          file_name,
                          at.line,
                          at.column,
                          parsed.error().description());
    }
    const toml::table& root = parsed.table();
    RunFile run;
    run.task.kind = root["task"]["kind"].value_or(run.task.kind);
    look_ahead(root, run.optimizer);
    if (root.contains("local")) run.local.emplace();
    if (const toml::table* local = root["local"].as_table())
        look_ahead(*local, run.local->optimizer);
    if (root.contains("robust")) run.robust.emplace();
    if (root["averaging"]["codec"].value_or(std::string_view()) == adaptive)
        run.averaging.codec.reset();
    Reader reader(root, file_name);
    visit_versions(reader, Versions{});
    // First of all: in a file of another version a key that nobody knows here is no misspelt one.
    if (reader.error) return *std::move(reader.error);
    const std::vector<Word> known = words_of(run);
    if (auto unknown = UnknownKey(file_name, known).look(root)) return *std::move(unknown);
    visit_fields(reader, run);
    if (!reader.error) check_together(run, reader);
    if (reader.error) return *std::move(reader.error);
    return run;
}

std::string to_toml(const RunFile& run) {
    const std::vector<Word> words = words_of(run);
    std::string text;
    std::string_view section;
    for (const Word& word : words) {
        const std::string_view here = section_of(word.key);
        if (here != section) {
            text += fmt::format("\n[{}]\n", here);
            section = here;
        }
        text += fmt::format("{} = {}\n", last_part(word.key), word.text);
    }
    return text;
}

Digest run_hash(const RunFile& run) { return security::sha256(as_bytes(to_toml(run))); }

std::vector<std::string> differences(const RunFile& here, const RunFile& there) {
    const std::vector<Word> ours = words_of(here);
    const std::vector<Word> theirs = words_of(there);
    std::vector<std::string> sentences;
    if (here.local.has_value() != there.local.has_value())
        sentences.push_back(fmt::format("local: {} here, {} there",
                                        section_or_none(here.local.has_value()),
                                        section_or_none(there.local.has_value())));
    if (here.robust.has_value() != there.robust.has_value())
        sentences.push_back(fmt::format("robust: {} here, {} there",
                                        section_or_none(here.robust.has_value()),
                                        section_or_none(there.robust.has_value())));
    for (const Word& our : ours) {
        const auto their = std::find_if(
            theirs.begin(), theirs.end(), [&](const Word& word) { return word.key == our.key; });
        // Fields that only one of them has follow from task.kind, from [local] or from the codec.
        if (their != theirs.end() && their->text != our.text)
            sentences.push_back(
                fmt::format("{}: {} here, {} there", our.key, our.text, their->text));
    }
    return sentences;
}

}  // namespace dedloc::collab
