// Training a tokenizer, by SentencePiece's own trainer in a process of its own, or by ours
// (byte_pairs_training.h), as the recipe says.
//
// The trainer runs in the helper program dedloc-train-tokenizer (docs/decisions/0005), with a fixed
// number of threads, as sums of floats depend on it: the same text, recipe and library give the
// same bytes however many cores a machine has. Another version of the library, of the C library's
// logarithm or another kind of processor may still give others; therefore a run names the
// tokenizer's hash.
//
// Cost: 3.5 s of a core for the King James Bible at 4,096 pieces. Thread: any. Blocks.
// Errors: bad_input    text and recipe do not fit ("… at most 8123 pieces")
//         local_fault  the helper is not there or failed

#pragma once
#include <functional>
#include <memory>
#include <string>

#include "dedloc/text/corpus.h"
#include "dedloc/text/language_tokenizer.h"
#include "dedloc/text/tokenizer.h"

namespace dedloc::text {

inline constexpr std::uint64_t training_bytes_default = 200'000'000;  // 2 GB of memory
inline constexpr int training_threads = 16;

struct TrainingOptions {
    std::string scratch_directory{};  // for the text; empty: the cache folder
    std::string program{};            // the helper; empty: beside the running program
    // From larger corpora evenly spread blocks are taken.
    std::uint64_t bytes = training_bytes_default;
    double seconds_max = 24 * 3600;
    // Told again and again while the helper computes, with the seconds so far. None: the log tells.
    std::function<void(double)> progress{};
    double progress_every_s = 10;
};

Result<std::shared_ptr<const Tokenizer>> train_tokenizer(const Corpus& corpus,
                                                         const TokenizerRecipe& recipe,
                                                         const TrainingOptions& options = {});

// The tokenizer of this corpus and recipe from the cache folder; trained there when it is missing.
// `expected` as in Tokenizer::load: conflict when what was trained here is another one. Two sources
// of the same files that are read in different ways (another field) have different tokenizers.
Result<std::shared_ptr<const Tokenizer>> cached_tokenizer(
    const Corpus& corpus,
    const TokenizerRecipe& recipe,
    const std::string& cache_directory,
    const std::optional<Digest>& expected = std::nullopt,
    const TrainingOptions& options = {});

// The intact tokenizer with this hash that keep_tokenizer() put into the cache folder, or that was
// trained there from whatever; not_found.
Result<std::shared_ptr<const Tokenizer>> kept_tokenizer(const Digest& hash,
                                                        const std::string& cache_directory);
// Puts a tokenizer that came from elsewhere (the run's host) where cached_tokenizer() with this
// hash finds it. bad_input when it is none, conflict when it has another hash.
Result<std::shared_ptr<const Tokenizer>> keep_tokenizer(ByteView file,
                                                        const Digest& expected,
                                                        const std::string& cache_directory);

// The same for language models, of whichever kind the recipe is.
Result<std::shared_ptr<const LanguageTokenizer>> train_language_tokenizer(
    const Corpus& corpus, const TokenizerRecipe& recipe, const TrainingOptions& options = {});
Result<std::shared_ptr<const LanguageTokenizer>> cached_language_tokenizer(
    const Corpus& corpus,
    const TokenizerRecipe& recipe,
    const std::string& cache_directory,
    const std::optional<Digest>& expected = std::nullopt,
    const TrainingOptions& options = {});
Result<std::shared_ptr<const LanguageTokenizer>> kept_language_tokenizer(
    const Digest& hash, const std::string& cache_directory);
Result<std::shared_ptr<const LanguageTokenizer>> keep_language_tokenizer(
    ByteView file, const Digest& expected, const std::string& cache_directory);

}  // namespace dedloc::text
