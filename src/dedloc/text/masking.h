// From a chunk to a row of a batch: a pair of texts in or out of order, some of its tokens masked.
//
//   pair   the first 1…n-1 of n sentences are A, the rest B; with probability 1/2 they change
//          places (sentence order prediction). The longer one loses tokens at its end until
//          [CLS] A [SEP] B [SEP] fits max_length
//   mask   each token that is not special is chosen with probability 0.15, and one at least; of the
//          chosen 80 % become [MASK], 10 % a random piece that is not special, 10 % stay
//
// Everything is drawn from the Random that is passed in, so a row is a function of its seed.
//
// Source: ALBERT (Lan et al., 2020), BERT (Devlin et al., 2019); truncation as Hugging Face's
// longest_first. Theirs masks <unk>, may draw special pieces, and may choose no token at all.
// Cost: 20 M tokens/s. Thread: any; pure. Errors: none.

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/text/chunks.h"
#include "dedloc/text/masked_batch.h"

namespace dedloc::text {

struct MaskingOptions {
    double probability = 0.15;
    double mask_share = 0.8;    // of the chosen
    double random_share = 0.1;  // of the chosen; the rest stays
};

struct Row {
    std::vector<std::uint32_t> ids;
    std::vector<std::int64_t> labels;  // one an id
    std::uint32_t second_begin = 0;    // ids from here on have token type 1
    bool swapped = false;
};

// Not masked yet; chunk has two sentences at least.
Row make_pair_row(const Chunks& chunks,
                  std::size_t chunk,
                  const SpecialPieces& special,
                  std::uint32_t max_length,
                  Random& random);
void mask_row(Row& row, const Tokenizer& tokenizer, const MaskingOptions& options, Random& random);

// Columns: the longest row, rounded up to a multiple.
MaskedBatch pad_rows(const std::vector<Row>& rows, std::uint32_t pad, std::uint32_t multiple);

}  // namespace dedloc::text
