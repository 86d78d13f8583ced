// CaptionWords: captions as numbers, a word each. 0 is padding, 1 a word that is not known.
//
// The words are those of the training captions, the most frequent first, equally frequent ones in
// alphabetical order: the same on every machine that has the same captions. Letters of ASCII are
// made small, punctuation is a word of its own, and bytes above ASCII belong to words, so that any
// language that parts words by spaces works.
//
// Thread: any (immutable).

#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::tasks {

inline constexpr std::int64_t padding_word = 0;
inline constexpr std::int64_t unknown_word = 1;
inline constexpr std::size_t caption_words_max = 1u << 20;  // of a vocabulary

class CaptionWords {
  public:
    // bad_input: no caption has a word.
    static Result<CaptionWords> of(std::span<const std::string> captions, std::size_t words_max);

    // With the numbers that they had: what words() gave. bad_input: none, too many, one twice.
    static Result<CaptionWords> numbered(std::span<const std::string> words);
    std::vector<std::string> words() const;

    // `length` numbers; what is longer is cut.
    std::vector<std::int64_t> encode(std::string_view caption, std::size_t length) const;
    // Words of a prompt that no training caption has, for people.
    std::vector<std::string> unknown(std::string_view prompt) const;

    // Words, padding and the unknown one.
    std::size_t size() const { return numbers_.size() + 2; }

  private:
    std::map<std::string, std::int64_t, std::less<>> numbers_;
};

// "Person: Dark skin" to person, :, dark, skin.
std::vector<std::string> words_of_caption(std::string_view caption);

}  // namespace dedloc::tasks
