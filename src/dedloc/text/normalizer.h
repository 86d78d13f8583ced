// Text to the form a tokenizer knows, exactly as SentencePiece does it, and sahajBERT's rules.
//
// A model file carries its rules as a "precompiled character map": a double-array trie (Darts) of
// what to replace, and the replacements. The longest match wins; what matches nothing is copied.
// Then white space: none in front or behind, runs become one, each becomes U+2581, and one stands
// before the first word.
//
// Source: SentencePiece 0.1.97, src/normalizer.cc; the array's format:
// github.com/s-yata/darts-clone. Cost: 40 MB/s. Thread: any; immutable. Errors: bad_input for a map
// that is not one.

#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/text/recipe.h"

namespace dedloc::text {

inline constexpr std::string_view space_symbol = "\xE2\x96\x81";  // U+2581
inline constexpr std::size_t character_map_bytes_max = 16u << 20;
// Bounds what stands in the place of one match: the longest that Unicode's normal forms know has 33
// bytes (U+FDFA). A letter that became megabytes would take gigabytes in the tokenizer.
inline constexpr std::size_t replacement_bytes_max = 256;

// sahajBERT's replacements, on text that is NFKC already.
std::string bengali_rules(std::string_view text);

class Normalizer {
  public:
    struct Options {
        bool dummy_prefix = true;
        bool remove_extra_spaces = true;
        bool escape_spaces = true;
        ReplacementRules rules = ReplacementRules::none;
    };
    // `map` may be empty: nothing is replaced.
    static Result<Normalizer> make(ByteView map, const Options& options);

    std::string normalize(std::string_view text) const;
    // Without the treatment of white space.
    std::string replace(std::string_view text) const;

  private:
    struct Match {
        std::size_t bytes = 0;  // of the input; 0: none
        std::string_view replacement;
    };
    Match longest_match(std::string_view text) const;
    void append_mapped(std::string_view text, std::string& out) const;

    Options options_;
    std::vector<std::uint32_t> trie_;
    std::string replacements_;       // each ends with a zero
    bool ascii_is_plain_[128] = {};  // no rule begins with this character
};

}  // namespace dedloc::text
