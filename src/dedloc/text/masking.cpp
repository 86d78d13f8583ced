#include "dedloc/text/masking.h"

#include <algorithm>

namespace dedloc::text {

namespace {

constexpr std::size_t special_in_row = 3;  // [CLS] … [SEP] … [SEP]

std::uint32_t random_piece(const Tokenizer& tokenizer, Random& random) {
    while (true) {  // nearly always once: five of thousands are special
        const auto id = static_cast<std::uint32_t>(random.below(tokenizer.size()));
        if (!tokenizer.is_special(id)) return id;
    }
}

void mask_token(Row& row,
                std::size_t at,
                const Tokenizer& tokenizer,
                const MaskingOptions& options,
                Random& random) {
    row.labels[at] = row.ids[at];
    const double draw = random.uniform();
    if (draw < options.mask_share)
        row.ids[at] = tokenizer.special().mask;
    else if (draw < options.mask_share + options.random_share)
        row.ids[at] = random_piece(tokenizer, random);
}

}  // namespace

Row make_pair_row(const Chunks& chunks,
                  std::size_t chunk,
                  const SpecialPieces& special,
                  std::uint32_t max_length,
                  Random& random) {
    const std::size_t count = chunks.sentences_count(chunk);
    const std::size_t split = 1 + random.below(count - 1);
    Row row;
    row.swapped = random.chance(0.5);
    auto first = chunks.sentences(chunk, 0, split);
    auto second = chunks.sentences(chunk, split, count);
    if (row.swapped) std::swap(first, second);
    while (first.size() + second.size() + special_in_row > max_length) {
        auto& longer = first.size() > second.size() ? first : second;
        longer = longer.first(longer.size() - 1);
    }
    row.ids.reserve(first.size() + second.size() + special_in_row);
    row.ids.push_back(special.cls);
    row.ids.insert(row.ids.end(), first.begin(), first.end());
    row.ids.push_back(special.sep);
    row.second_begin = static_cast<std::uint32_t>(row.ids.size());
    row.ids.insert(row.ids.end(), second.begin(), second.end());
    row.ids.push_back(special.sep);
    row.labels.assign(row.ids.size(), not_masked);
    return row;
}

void mask_row(Row& row, const Tokenizer& tokenizer, const MaskingOptions& options, Random& random) {
    std::size_t candidates = 0;
    bool any = false;
    for (std::size_t at = 0; at < row.ids.size(); ++at) {
        if (tokenizer.is_special(row.ids[at])) continue;
        ++candidates;
        if (!random.chance(options.probability)) continue;
        mask_token(row, at, tokenizer, options, random);
        any = true;
    }
    // A row without any gives no gradient, and a batch without any a loss of 0/0.
    if (any || candidates == 0) return;
    std::size_t chosen = random.below(candidates);
    for (std::size_t at = 0; at < row.ids.size(); ++at) {
        if (tokenizer.is_special(row.ids[at])) continue;
        if (chosen-- == 0) {
            mask_token(row, at, tokenizer, options, random);
            return;
        }
    }
}

MaskedBatch pad_rows(const std::vector<Row>& rows, std::uint32_t pad, std::uint32_t multiple) {
    std::size_t columns = 0;
    for (const Row& row : rows) columns = std::max(columns, row.ids.size());
    columns = (columns + multiple - 1) / multiple * multiple;
    MaskedBatch batch;
    batch.rows = static_cast<std::int64_t>(rows.size());
    batch.columns = static_cast<std::int64_t>(columns);
    const std::size_t size = rows.size() * columns;
    batch.input_ids.assign(size, pad);
    batch.token_type_ids.assign(size, 0);
    batch.attention_mask.assign(size, 0);
    batch.labels.assign(size, not_masked);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Row& row = rows[i];
        const auto begin = static_cast<std::ptrdiff_t>(i * columns);
        const auto length = static_cast<std::ptrdiff_t>(row.ids.size());
        std::copy(row.ids.begin(), row.ids.end(), batch.input_ids.begin() + begin);
        std::fill_n(batch.attention_mask.begin() + begin, length, 1);
        std::fill_n(batch.token_type_ids.begin() + begin + row.second_begin,
                    length - static_cast<std::ptrdiff_t>(row.second_begin),
                    1);
        std::copy(row.labels.begin(), row.labels.end(), batch.labels.begin() + begin);
        batch.sentence_order.push_back(row.swapped ? 1 : 0);
    }
    return batch;
}

}  // namespace dedloc::text
