#include "dedloc/text/byte_pairs_training.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <unordered_set>

#include "dedloc/text/tokenizer_json.h"
#include "dedloc/text/word_patterns.h"

namespace dedloc::text {

namespace {

struct Pair {
    std::uint32_t left = 0;
    std::uint32_t right = 0;
    friend bool operator==(const Pair&, const Pair&) = default;
    friend auto operator<=>(const Pair&, const Pair&) = default;
};
struct PairHash {
    std::size_t operator()(const Pair& pair) const {
        return std::hash<std::uint64_t>()(std::uint64_t{pair.left} << 32 | pair.right);
    }
};

struct Counted {
    std::int64_t count = 0;
    Pair pair;
    // For a heap: the commonest first, then the lower ids.
    bool operator<(const Counted& other) const {
        return count != other.count ? count < other.count : pair > other.pair;
    }
};

// Words as ids, with what is known of their pairs.
class Merger {
  public:
    explicit Merger(const TextMap<std::uint64_t>& words) {
        std::vector<std::string_view> sorted;
        for (const auto& item : words) sorted.push_back(item.first);
        std::sort(sorted.begin(), sorted.end());
        make_alphabet();
        for (const std::string_view word : sorted) {
            std::vector<std::uint32_t>& ids = words_.emplace_back();
            for (const char byte : word) ids.push_back(bytes_[static_cast<unsigned char>(byte)]);
            counts_.push_back(static_cast<std::int64_t>(words.find(word)->second));
            for (std::size_t i = 0; i + 1 < ids.size(); ++i)
                change({ids[i], ids[i + 1]}, counts_.back(), words_.size() - 1);
        }
        for (const auto& [pair, place] : pairs_) queue_.push({place.count, pair});
    }

    // False: there is nothing to merge.
    bool merge_commonest() {
        while (!queue_.empty()) {
            const Counted best = queue_.top();
            queue_.pop();
            const auto found = pairs_.find(best.pair);
            if (found == pairs_.end() || found->second.count <= 0) continue;
            if (found->second.count != best.count) {
                queue_.push({found->second.count, best.pair});
                continue;
            }
            merge(best.pair, std::exchange(found->second.words, {}));
            return true;
        }
        return false;
    }

    std::size_t pieces_count() const { return pieces_.size(); }
    std::string file() const { return byte_tokenizer_json(merges_, pieces_); }

  private:
    struct Place {
        std::int64_t count = 0;
        std::unordered_set<std::size_t> words;
    };

    // In the order of the letters that files write for bytes.
    void make_alphabet() {
        std::vector<std::uint32_t> order(256);
        std::iota(order.begin(), order.end(), 0u);
        std::sort(order.begin(), order.end(), [](std::uint32_t a, std::uint32_t b) {
            return letters_of_bytes()[a] < letters_of_bytes()[b];
        });
        pieces_.emplace_back(end_of_text_piece);
        for (const std::uint32_t byte : order) {
            bytes_[byte] = static_cast<std::uint32_t>(pieces_.size());
            pieces_.emplace_back(1, static_cast<char>(byte));
            ids_[pieces_.back()] = bytes_[byte];
        }
    }

    void change(Pair pair, std::int64_t by, std::size_t word) {
        Place& place = pairs_[pair];
        place.count += by;
        if (by > 0) place.words.insert(word);
    }

    void merge(Pair pair, const std::unordered_set<std::size_t>& words) {
        const std::string text = pieces_[pair.left] + pieces_[pair.right];
        const auto [known, is_new] =
            ids_.try_emplace(text, static_cast<std::uint32_t>(pieces_.size()));
        if (is_new) pieces_.push_back(text);
        const std::uint32_t merged = known->second;
        merges_.push_back({.left = pair.left, .right = pair.right, .merged = merged});
        std::unordered_set<Pair, PairHash> grown;
        for (const std::size_t word : words) merge_in(word, pair, merged, grown);
        for (const Pair& other : grown)
            if (const std::int64_t count = pairs_[other].count; count > 0)
                queue_.push({count, other});
    }

    void merge_in(std::size_t word,
                  Pair pair,
                  std::uint32_t merged,
                  std::unordered_set<Pair, PairHash>& grown) {
        std::vector<std::uint32_t>& ids = words_[word];
        const std::int64_t count = counts_[word];
        const auto replace = [&](Pair before, Pair after) {
            change(before, -count, word);
            change(after, count, word);
            grown.insert(after);
        };
        std::size_t out = 0;
        for (std::size_t i = 0; i < ids.size(); ++i, ++out) {
            const bool found =
                i + 1 < ids.size() && ids[i] == pair.left && ids[i + 1] == pair.right;
            if (!found) {
                ids[out] = ids[i];
                continue;
            }
            if (out > 0) replace({ids[out - 1], pair.left}, {ids[out - 1], merged});
            if (i + 2 < ids.size()) replace({pair.right, ids[i + 2]}, {merged, ids[i + 2]});
            change(pair, -count, word);
            ids[out] = merged;
            ++i;
        }
        ids.resize(out);
    }

    std::array<std::uint32_t, 256> bytes_{};
    std::vector<std::string> pieces_;
    TextMap<std::uint32_t> ids_;
    std::vector<BytePairsParts::Merge> merges_;
    std::vector<std::vector<std::uint32_t>> words_;
    std::vector<std::int64_t> counts_;
    std::unordered_map<Pair, Place, PairHash> pairs_;
    std::priority_queue<Counted> queue_;
};

}  // namespace

void BytePairsTrainer::add(std::string_view text) {
    std::vector<std::string_view> words;
    split_words(text, WordPattern::gpt2, words);
    for (const std::string_view word : words) {
        const auto found = words_.find(word);
        if (found != words_.end())
            ++found->second;
        else
            words_.emplace(word, 1);
    }
}

std::string BytePairsTrainer::train(std::uint32_t vocabulary) const {
    Merger merger(words_);
    while (merger.pieces_count() < vocabulary && merger.merge_commonest()) {
    }
    return merger.file();
}

}  // namespace dedloc::text
