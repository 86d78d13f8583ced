#include "dedloc/api/stop_words.h"

#include <algorithm>
#include <utility>

namespace dedloc::api {
namespace {

// The length of the longest end of `text` that `word` begins with, less than all of `word`.
std::size_t begun(std::string_view text, std::string_view word) {
    for (std::size_t size = std::min(text.size(), word.size() - 1); size > 0; --size)
        if (text.ends_with(word.substr(0, size))) return size;
    return 0;
}

}  // namespace

std::string StopWords::add(std::string_view text) {
    if (found_) return {};
    held_ += text;
    std::size_t first = std::string::npos;
    std::size_t kept = 0;
    for (const std::string& word : words_) {
        first = std::min(first, held_.find(word));
        kept = std::max(kept, begun(held_, word));
    }
    found_ = first != std::string::npos;
    std::string shown = held_.substr(0, found_ ? first : held_.size() - kept);
    held_.erase(0, found_ ? held_.size() : shown.size());
    return shown;
}

std::string StopWords::finish() { return std::exchange(held_, {}); }

}  // namespace dedloc::api
