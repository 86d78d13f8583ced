#include "dedloc/tasks/text_to_image/caption_words.h"

#include <algorithm>

namespace dedloc::tasks {
namespace {

bool is_of_word(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 128 || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

}  // namespace

std::vector<std::string> words_of_caption(std::string_view caption) {
    std::vector<std::string> words;
    bool inside = false;
    for (const char letter : caption) {
        const char c = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
        const bool joins = inside && is_of_word(c);
        inside = is_of_word(c);
        if (joins) {
            words.back() += c;
        } else if (inside || (c > ' ' && c < 127)) {
            words.emplace_back(1, c);
        }
    }
    return words;
}

Result<CaptionWords> CaptionWords::of(std::span<const std::string> captions,
                                      std::size_t words_max) {
    std::map<std::string, std::size_t> counts;
    for (const std::string& caption : captions)
        for (const std::string& word : words_of_caption(caption)) ++counts[word];
    if (counts.empty())
        return make_error(ErrorKind::bad_input, "the {} captions have no word", captions.size());
    std::vector<std::pair<std::string, std::size_t>> all(counts.begin(), counts.end());
    std::ranges::stable_sort(all, std::greater<>(), &std::pair<std::string, std::size_t>::second);
    all.resize(std::min({all.size(), words_max, caption_words_max}));
    CaptionWords words;
    for (std::size_t i = 0; i < all.size(); ++i)
        words.numbers_[all[i].first] = static_cast<std::int64_t>(i) + 2;
    return words;
}

Result<CaptionWords> CaptionWords::numbered(std::span<const std::string> words) {
    if (words.empty() || words.size() > caption_words_max)
        return make_error(ErrorKind::bad_input, "{} words are no vocabulary", words.size());
    CaptionWords numbered;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const auto number = static_cast<std::int64_t>(i) + 2;
        if (words[i].empty() || !numbered.numbers_.emplace(words[i], number).second)
            return make_error(
                ErrorKind::bad_input, "word {} of the vocabulary is empty or there twice", i);
    }
    return numbered;
}

std::vector<std::string> CaptionWords::words() const {
    std::vector<std::string> words(numbers_.size());
    for (const auto& [word, number] : numbers_) words[static_cast<std::size_t>(number) - 2] = word;
    return words;
}

std::vector<std::int64_t> CaptionWords::encode(std::string_view caption, std::size_t length) const {
    std::vector<std::int64_t> numbers;
    for (const std::string& word : words_of_caption(caption)) {
        const auto found = numbers_.find(word);
        numbers.push_back(found == numbers_.end() ? unknown_word : found->second);
    }
    numbers.resize(length, padding_word);
    return numbers;
}

std::vector<std::string> CaptionWords::unknown(std::string_view prompt) const {
    std::vector<std::string> words;
    for (std::string& word : words_of_caption(prompt))
        if (!numbers_.contains(word)) words.push_back(std::move(word));
    return words;
}

}  // namespace dedloc::tasks
