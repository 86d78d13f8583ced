#include "dedloc/text/byte_pairs.h"

#include <algorithm>
#include <queue>

#include "dedloc/text/utf8.h"

namespace dedloc::text {

namespace {

struct Candidate {
    std::uint32_t rank = 0;
    std::int32_t at = 0;
    std::uint32_t left = 0;
    std::uint32_t right = 0;
    // For a heap whose top is the lowest rank, leftmost.
    bool operator<(const Candidate& other) const {
        return rank != other.rank ? rank > other.rank : at > other.at;
    }
};

}  // namespace

BytePairs::BytePairs(BytePairsParts parts) : parts_(std::move(parts)) {
    rules_.reserve(parts_.merges.size());
    for (std::uint32_t rank = 0; rank < parts_.merges.size(); ++rank) {
        const BytePairsParts::Merge& merge = parts_.merges[rank];
        // The later one of two rules for a pair holds, as in the `tokenizers` package.
        rules_.insert_or_assign(pair(merge.left, merge.right), Rule{rank, merge.merged});
    }
}

const BytePairs::Rule* BytePairs::rule(std::uint32_t left, std::uint32_t right) const {
    const auto found = rules_.find(pair(left, right));
    return found == rules_.end() ? nullptr : &found->second;
}

std::vector<BytePairs::Symbol> BytePairs::symbols_of(std::string_view word) const {
    std::vector<Symbol> symbols;
    const auto add = [&](std::uint32_t id) {
        if (id != no_piece) symbols.push_back({.id = id});
    };
    bool was_unknown = false;
    for (std::size_t at = 0; at < word.size();) {
        const std::size_t bytes =
            parts_.by_characters ? std::min(character_bytes(word[at]), word.size() - at) : 1;
        const std::string_view letter = word.substr(at, bytes);
        at += bytes;
        const auto found = parts_.by_characters ? parts_.ids.find(letter) : parts_.ids.end();
        const bool has_bytes = std::all_of(letter.begin(), letter.end(), [&](char byte) {
            return parts_.bytes[static_cast<unsigned char>(byte)] != no_piece;
        });
        const bool is_unknown = found == parts_.ids.end() && !has_bytes;
        if (found != parts_.ids.end())
            add(found->second);
        else if (has_bytes)
            for (const char byte : letter) add(parts_.bytes[static_cast<unsigned char>(byte)]);
        else if (!(was_unknown && parts_.joins_unknown))
            add(parts_.unknown);
        was_unknown = is_unknown;
    }
    const auto count = static_cast<std::int32_t>(symbols.size());
    for (std::int32_t i = 0; i < count; ++i) {
        symbols[static_cast<std::size_t>(i)].before = i - 1;
        symbols[static_cast<std::size_t>(i)].after = i + 1 < count ? i + 1 : -1;
    }
    return symbols;
}

void BytePairs::merge(std::vector<Symbol>& symbols) const {
    std::priority_queue<Candidate> queue;
    const auto symbol = [&](std::int32_t at) -> Symbol& {
        return symbols[static_cast<std::size_t>(at)];
    };
    const auto offer = [&](std::int32_t at) {
        if (at < 0 || symbol(at).after < 0) return;
        const std::uint32_t left = symbol(at).id;
        const std::uint32_t right = symbol(symbol(at).after).id;
        if (const Rule* found = rule(left, right))
            queue.push({.rank = found->rank, .at = at, .left = left, .right = right});
    };
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(symbols.size()); ++i) offer(i);
    while (!queue.empty()) {
        const Candidate best = queue.top();
        queue.pop();
        Symbol& left = symbol(best.at);
        if (left.gone || left.id != best.left || left.after < 0) continue;
        Symbol& right = symbol(left.after);
        if (right.id != best.right) continue;
        left.id = rule(best.left, best.right)->merged;
        right.gone = true;
        left.after = right.after;
        if (left.after >= 0) symbol(left.after).before = best.at;
        offer(left.before);
        offer(best.at);
    }
}

void BytePairs::encode_word(std::string_view word, std::vector<std::uint32_t>& ids) const {
    if (parts_.takes_whole_words) {
        const auto whole = parts_.ids.find(word);
        if (whole != parts_.ids.end()) return ids.push_back(whole->second);
    }
    std::vector<Symbol> symbols = symbols_of(word);
    merge(symbols);
    for (const Symbol& symbol : symbols)
        if (!symbol.gone) ids.push_back(symbol.id);
}

const std::array<char32_t, 256>& letters_of_bytes() {
    static const auto letters = [] {
        std::array<char32_t, 256> made{};
        char32_t next = 0x100;
        for (char32_t byte = 0; byte < 256; ++byte) {
            const bool shown =
                (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
            made[byte] = shown ? byte : next++;
        }
        return made;
    }();
    return letters;
}

}  // namespace dedloc::text
