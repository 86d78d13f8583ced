// A rule says what a field of the run file may hold. A section lists its fields once, each with its
// rule; that list is read, written, compared and searched for misspelt keys (run_file.cpp).
//
//   template <typename Visitor, typename Batch>
//   void visit_batch(Visitor& visit, Batch& batch) {
//       visit("batch.target", batch.target, Integers{1, samples_per_step_max});
//   }
//
// A bool has no rule: visit("averaging.delayed", averaging.delayed).
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "dedloc/base/time.h"

namespace dedloc::run {

inline constexpr std::uint64_t integer_max = std::numeric_limits<std::int64_t>::max();  // TOML's
inline constexpr std::uint64_t steps_max = std::uint64_t{1} << 40;
inline constexpr std::uint64_t samples_per_step_max = std::uint64_t{1} << 32;

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
struct NumbersOrAuto {  // "auto" is 0
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
struct Enumeration {};  // the words are those of word_of() and set_from_word() (field_words.h)

}  // namespace dedloc::run
