// How values of the run file are spelt: one spelling a value, as the hash is taken over it.
//
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/codec/codec.h"
#include "dedloc/optim/optimizer.h"
#include "dedloc/run/field_rules.h"

namespace dedloc::run {

inline constexpr std::string_view adaptive = "adaptive";  // averaging.codec: chosen by tensor

std::string_view word_of(std::optional<codec::CodecId> id);
std::string_view word_of(optim::OptimizerKind kind);
std::string_view word_of(optim::ScheduleKind kind);
Ok set_from_word(std::optional<codec::CodecId>& id, std::string_view word);
Ok set_from_word(optim::OptimizerKind& kind, std::string_view word);
Ok set_from_word(optim::ScheduleKind& kind, std::string_view word);

std::string in_quotes(std::string_view text);
std::string to_word(double value);
std::string to_word(Duration value);
std::optional<Duration> duration_from(std::string_view text);
// "a", "b" or "c", in quotes.
std::string join_words(const std::vector<std::string_view>& words);

// A field as it stands in the canonical form: "batch.target", "1024".
struct Word {
    std::string key;
    std::string text;
};

// Collects the words of the fields that it visits.
struct WordCollector {
    std::vector<Word> words;
    bool all = false;  // also keys that are not written while they have their default

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
    void operator()(std::string_view key, double value, const NumbersOrAuto&) {
        words.push_back({std::string(key), value == 0 ? in_quotes("auto") : to_word(value)});
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

// Splits "local.optimizer.kind": "kind", and "local.optimizer".
std::string_view last_part(std::string_view key);
std::string_view section_of(std::string_view key);

}  // namespace dedloc::run
