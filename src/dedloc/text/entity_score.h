// How well named entities were found: precision, recall and F1 over whole entities.
//
// Labels are IOB2 ("B-PER", "I-PER", "O"). An entity counts as found if its first word, its last
// word and its type are right. A label sequence that breaks IOB2, as predictions may, is read as
// the CoNLL-2000 evaluation script reads it: "I-X" after anything but the same type begins an
// entity.
//
// Source: the CoNLL shared tasks' conlleval; the figures equal those of the Python package seqeval
// 1.2.2 in its default mode (tests/oracles/finetune compares). Cost: linear. Thread: any; pure.

#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dedloc::text {

struct Entity {
    std::string type;
    std::size_t first = 0;  // word
    std::size_t last = 0;

    friend auto operator<=>(const Entity&, const Entity&) = default;
};

// The entities of one sentence, in order.
std::vector<Entity> entities_of(const std::vector<std::string>& labels);

struct EntityCounts {
    std::uint64_t found = 0;      // of the predictions, right ones
    std::uint64_t predicted = 0;  // right or wrong
    std::uint64_t present = 0;    // in the truth

    double precision() const { return predicted == 0 ? 0 : double(found) / double(predicted); }
    double recall() const { return present == 0 ? 0 : double(found) / double(present); }
    double f1() const {
        const double both = precision() + recall();
        return both == 0 ? 0 : 2 * precision() * recall() / both;
    }
};

// Adds up sentences; entities never reach from one to the next.
class EntityScore {
  public:
    // Both have the same length, one label a word.
    void add(const std::vector<std::string>& truth, const std::vector<std::string>& predicted);

    const EntityCounts& total() const { return total_; }
    const std::map<std::string, EntityCounts>& by_type() const { return by_type_; }
    // The part of all words whose label is right.
    double accuracy() const { return words_ == 0 ? 0 : double(right_) / double(words_); }

  private:
    EntityCounts total_;
    std::map<std::string, EntityCounts> by_type_;
    std::uint64_t words_ = 0;
    std::uint64_t right_ = 0;
};

}  // namespace dedloc::text
