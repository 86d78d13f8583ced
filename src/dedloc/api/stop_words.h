// StopWords: ends a text before the first of some words. Text that may be the beginning of
// such a word is held back until that is known, so that no reader of a stream sees a part of one.
//
// Thread: one at a time. Cost: of each addition, its length by the words' length.

#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dedloc::api {

class StopWords {
  public:
    explicit StopWords(std::vector<std::string> words) : words_(std::move(words)) {}

    // Returns the text that may be shown by now; nothing after a word was found.
    std::string add(std::string_view text);
    // Ends the text: returns what was held back.
    std::string finish();
    bool found() const { return found_; }

  private:
    std::vector<std::string> words_;  // none is empty
    std::string held_;
    bool found_ = false;
};

}  // namespace dedloc::api
