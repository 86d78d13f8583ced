// One batch of masked sentence pairs, ready for the model: where the data half of a text task meets
// its model half.
//
//   [CLS] A … [SEP] B … [SEP] [PAD] …
//
// Every matrix has rows × columns numbers, row by row; columns is the longest row's length (rounded
// up when asked).

#pragma once
#include <cstdint>
#include <vector>

namespace dedloc::text {

inline constexpr std::int64_t not_masked = -100;  // a label that the loss ignores

struct MaskedBatch {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::vector<std::int64_t> input_ids;
    std::vector<std::int64_t> token_type_ids;  // 0: [CLS] A [SEP]; 1: B [SEP]; 0: padding
    std::vector<std::int64_t> attention_mask;  // 1: token; 0: padding
    std::vector<std::int64_t> labels;          // the token that was there; not_masked elsewhere
    std::vector<std::int64_t> sentence_order;  // one a row; 1: A and B are swapped
};

}  // namespace dedloc::text
