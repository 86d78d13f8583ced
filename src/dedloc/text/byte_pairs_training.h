// Training a byte-pair encoding of bytes, in this process: the file tokenizer.json of it.
//
//   BytePairsTrainer trainer;
//   trainer.add("Ein Text …");                       // as often as there are texts
//   std::string file = trainer.train(8192);
//
// Texts are parted into words by GPT-2's pattern; then the commonest pair of neighbours becomes a
// piece, again and again; of equally common ones that whose ids are lower. So the same texts give
// the same bytes on every machine, and the same merges as the `tokenizers` package's trainer with
// these options (alphabet of all bytes, <|endoftext|>, no least frequency).
//
// Source: Sennrich et al. 1508.07909. Cost: 7 MB/s of text, then some microseconds a merge and
// place. Memory: the different words. Thread: one. Errors: none.

#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "dedloc/text/byte_pairs.h"

namespace dedloc::text {

inline constexpr std::string_view end_of_text_piece = "<|endoftext|>";

class BytePairsTrainer {
  public:
    void add(std::string_view text);
    // At most so many pieces; fewer where no two neighbours are left.
    std::string train(std::uint32_t vocabulary) const;

  private:
    TextMap<std::uint64_t> words_;  // how often each is there
};

}  // namespace dedloc::text
