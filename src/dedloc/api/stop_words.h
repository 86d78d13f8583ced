// StopWords: ends a text before the first of some words. What may be the beginning of one is held
// back until that is known, so that no reader of a stream sees a part of it.
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

    // Returns what may be shown by now. After a word was found it is nothing.
    std::string add(std::string_view text);
    // Returns what was held back: nothing more comes.
    std::string finish();
    bool found() const { return found_; }

  private:
    std::vector<std::string> words_;  // none is empty
    std::string held_;
    bool found_ = false;
};

}  // namespace dedloc::api
