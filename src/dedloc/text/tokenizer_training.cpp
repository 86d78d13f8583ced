#include "dedloc/text/tokenizer_training.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "dedloc/base/file.h"
#include "dedloc/base/log.h"
#include "dedloc/runtime/child_process.h"
#include "dedloc/runtime/program_beside.h"
#include "dedloc/security/hash.h"
#include "dedloc/text/byte_pairs_training.h"
#include "dedloc/text/cache.h"
#include "dedloc/text/sentences.h"

namespace dedloc::text {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view helper_name = "dedloc-train-tokenizer";
constexpr std::string_view trained_prefix = "trained-";
constexpr std::size_t log_bytes_max = 1u << 20;

Result<std::string> helper_program(const TrainingOptions& options) {
    std::error_code error;
    const std::string path =
        options.program.empty() ? runtime::program_beside(helper_name) : options.program;
    if (!fs::is_regular_file(path, error))
        return make_error(ErrorKind::local_fault,
                          "the helper program {} is not there; it is built and installed together "
                          "with dedloc (Debian package libsentencepiece-dev)",
                          path);
    return path;
}

Result<std::string> cache_or_default(const std::string& directory) {
    if (!directory.empty()) return directory;
    return default_cache_directory();
}

std::string kept_path(const std::string& directory, const Digest& hash) {
    return fmt::format("{}/tokenizer-{}.model", directory, hash.hex());
}

// Hashes all that decides what comes out: the files, how they are read and cut, the recipe.
Digest training_key(const Corpus& corpus, const TokenizerRecipe& recipe, std::uint64_t bytes_max) {
    security::Sha256 hash;
    hash.update("dedloc/tokenizer/2").update(corpus.fingerprint().view());
    for (std::size_t i = 0; i < corpus.sources_count(); ++i) {
        SourceConfig source = corpus.source(i);
        source.path.clear();  // the fingerprint has what is there
        source.weight = 1;    // counts for samples only
        hash.update(to_string({source})).update(",");
    }
    hash.update(to_string(recipe));
    hash.update(fmt::format("&bytes={}&block={}&held_out={}",
                            bytes_max,
                            corpus.options().block_bytes,
                            corpus.options().held_out));
    return hash.finish();
}

// The helper's last words, without the place in its source.
std::string last_words(const std::string& log_path) {
    const auto log = base::read_file(log_path, log_bytes_max);
    if (!log) return "it said nothing";
    const auto lines = lines_of(*log);
    if (lines.empty()) return "it said nothing";
    std::string_view last = lines.back();
    // "Internal: src/trainer_interface.cc(582) [(…)]  Vocabulary size too high (30000). …"
    if (const std::size_t bracket = last.rfind("] "); bracket != std::string_view::npos)
        last = without_surrounding_space(last.substr(bracket + 2));
    return std::string(last);
}

// One sentence a line, with our own rules applied (SentencePiece's come in the trainer).
Ok write_training_text(const Corpus& corpus,
                       const TokenizerRecipe& recipe,
                       std::uint64_t bytes_max,
                       const std::string& path) {
    std::ofstream file(path, std::ios::binary);
    std::uint64_t bytes = 0;
    DEDLOC_TRY_VOID(corpus.visit_sentences(bytes_max, [&](const std::string& sentence) {
        bytes += sentence.size();
        file << (recipe.rules == ReplacementRules::bengali ? bengali_rules(sentence) : sentence)
             << '\n';
        return file.good();
    }));
    file.flush();
    if (!file)
        return make_error(ErrorKind::local_fault,
                          "cannot write {} MB to {}: is the disk full?",
                          bytes / 1'000'000,
                          path);
    return {};
}

Result<std::string> run_helper(const std::string& program,
                               const std::string& text_path,
                               const TokenizerRecipe& recipe,
                               const ScratchFolder& scratch,
                               const TrainingOptions& options) {
    const std::string model_path = scratch.file("model");
    DEDLOC_TRY(auto child,
               runtime::ChildProcess::start(
                   {.command = {program, text_path, model_path, to_string(recipe)},
                    .output_file = scratch.file("out"),
                    .error_file = scratch.file("err")}));
    double seconds = 0;
    while (!child.wait_for(std::min(options.progress_every_s, options.seconds_max - seconds))) {
        seconds += options.progress_every_s;
        if (seconds >= options.seconds_max)
            return make_error(ErrorKind::local_fault,
                              "training the tokenizer did not end within {:.0f} s; take less text "
                              "or a smaller vocabulary",
                              options.seconds_max);
        if (options.progress)
            options.progress(seconds);
        else
            log(LogLevel::warning, "text", "training the tokenizer: {:.0f} s so far", seconds);
    }
    if (child.end()->signal != 0)
        return make_error(ErrorKind::local_fault,
                          "training the tokenizer was ended by signal {}; is the memory full?",
                          child.end()->signal);
    if (child.end()->exit_code != 0)
        return make_error(ErrorKind::bad_input,
                          "this text and {} do not give a tokenizer: {}",
                          to_string(recipe),
                          last_words(scratch.file("err")));
    return base::read_file(model_path, tokenizer_bytes_max);
}

template <typename Kind>
using Trainer = Result<std::shared_ptr<const Kind>> (*)(const Corpus&,
                                                        const TokenizerRecipe&,
                                                        const TrainingOptions&);

template <typename Kind>
Result<std::shared_ptr<const Kind>> kept_as(const Digest& hash,
                                            const std::string& cache_directory) {
    DEDLOC_TRY(const std::string directory, cache_or_default(cache_directory));
    auto kept = Kind::load(kept_path(directory, hash), hash);
    if (kept) return kept;
    std::error_code error;
    fs::directory_iterator entry(directory, error);
    for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (!name.starts_with(trained_prefix) || !name.ends_with(".model")) continue;
        if (auto trained = Kind::load(entry->path().string(), hash)) return trained;
    }
    return kept;
}

template <typename Kind>
Result<std::shared_ptr<const Kind>> keep_as(ByteView file,
                                            const Digest& expected,
                                            const std::string& cache_directory) {
    DEDLOC_TRY(auto tokenizer, Kind::parse(file));
    if (tokenizer->hash() != expected)
        return make_error(ErrorKind::conflict,
                          "a tokenizer with the hash {}… came where {}… was wanted",
                          tokenizer->hash().short_hex(),
                          expected.short_hex());
    DEDLOC_TRY(const std::string directory, cache_or_default(cache_directory));
    const std::string path = kept_path(directory, expected);
    DEDLOC_TRY_VOID(alone_with(path, [&] { return write_file(path, as_text(file)); }));
    return tokenizer;
}

template <typename Kind>
Result<std::shared_ptr<const Kind>> cached_as(const Corpus& corpus,
                                              const TokenizerRecipe& recipe,
                                              const std::string& cache_directory,
                                              const std::optional<Digest>& expected,
                                              const TrainingOptions& options,
                                              Trainer<Kind> train) {
    DEDLOC_TRY(const std::string directory, cache_or_default(cache_directory));
    if (expected)
        if (auto kept = kept_as<Kind>(*expected, directory)) return kept;
    const std::string path = fmt::format("{}/{}{}.model",
                                         directory,
                                         trained_prefix,
                                         training_key(corpus, recipe, options.bytes).hex());
    std::shared_ptr<const Kind> tokenizer;
    const auto is_there = [&] {
        if (auto there = Kind::load(path)) tokenizer = *there;
        return tokenizer != nullptr;
    };
    const auto make = [&]() -> Ok {
        if (is_there()) return {};  // another process made it meanwhile
        TrainingOptions local = options;
        if (local.scratch_directory.empty()) local.scratch_directory = directory;
        log(LogLevel::warning,
            "text",
            "training the tokenizer on {:.1f} MB of text; the next time it is in the cache",
            static_cast<double>(std::min(options.bytes, corpus.bytes())) / 1e6);
        DEDLOC_TRY(tokenizer, train(corpus, recipe, local));
        return write_file(path, as_text(tokenizer->file()));
    };
    if (!is_there()) DEDLOC_TRY_VOID(alone_with(path, make));
    if (expected && tokenizer->hash() != *expected)
        return make_error(ErrorKind::conflict,
                          "the tokenizer made here from the run's recipe has the hash {}…, and "
                          "the run wants {}…: the text or the library differs from the host's; "
                          "take the tokenizer's file from the run's host",
                          tokenizer->hash().short_hex(),
                          expected->short_hex());
    return tokenizer;
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> train_tokenizer(const Corpus& corpus,
                                                         const TokenizerRecipe& recipe,
                                                         const TrainingOptions& options) {
    if (recipe.kind != TokenizerForm::unigram)
        return make_error(ErrorKind::bad_input,
                          "this model takes a SentencePiece tokenizer (kind=unigram), not {}",
                          to_string(recipe));
    DEDLOC_TRY(const std::string program, helper_program(options));
    DEDLOC_TRY(const std::string directory, cache_or_default(options.scratch_directory));
    DEDLOC_TRY(const ScratchFolder scratch, ScratchFolder::make(directory));
    const std::string text_path = scratch.file("text");
    DEDLOC_TRY_VOID(write_training_text(corpus, recipe, options.bytes, text_path));
    DEDLOC_TRY(const std::string model, run_helper(program, text_path, recipe, scratch, options));
    DEDLOC_TRY(const Bytes file, with_recipe(as_bytes(model), recipe));
    return Tokenizer::parse(file);
}

Result<std::shared_ptr<const LanguageTokenizer>> train_language_tokenizer(
    const Corpus& corpus, const TokenizerRecipe& recipe, const TrainingOptions& options) {
    if (recipe.kind == TokenizerForm::unigram) {
        DEDLOC_TRY(const auto pieces, train_tokenizer(corpus, recipe, options));
        return LanguageTokenizer::parse(pieces->file());
    }
    BytePairsTrainer trainer;
    DEDLOC_TRY_VOID(corpus.visit_texts(options.bytes, [&](const std::string& text) {
        trainer.add(text);
        return true;
    }));
    return LanguageTokenizer::parse(as_bytes(trainer.train(recipe.vocabulary)));
}

Result<std::shared_ptr<const Tokenizer>> cached_tokenizer(const Corpus& corpus,
                                                          const TokenizerRecipe& recipe,
                                                          const std::string& cache_directory,
                                                          const std::optional<Digest>& expected,
                                                          const TrainingOptions& options) {
    return cached_as<Tokenizer>(
        corpus, recipe, cache_directory, expected, options, train_tokenizer);
}

Result<std::shared_ptr<const LanguageTokenizer>> cached_language_tokenizer(
    const Corpus& corpus,
    const TokenizerRecipe& recipe,
    const std::string& cache_directory,
    const std::optional<Digest>& expected,
    const TrainingOptions& options) {
    return cached_as<LanguageTokenizer>(
        corpus, recipe, cache_directory, expected, options, train_language_tokenizer);
}

Result<std::shared_ptr<const Tokenizer>> kept_tokenizer(const Digest& hash,
                                                        const std::string& cache_directory) {
    return kept_as<Tokenizer>(hash, cache_directory);
}

Result<std::shared_ptr<const LanguageTokenizer>> kept_language_tokenizer(
    const Digest& hash, const std::string& cache_directory) {
    return kept_as<LanguageTokenizer>(hash, cache_directory);
}

Result<std::shared_ptr<const Tokenizer>> keep_tokenizer(ByteView file,
                                                        const Digest& expected,
                                                        const std::string& cache_directory) {
    return keep_as<Tokenizer>(file, expected, cache_directory);
}

Result<std::shared_ptr<const LanguageTokenizer>> keep_language_tokenizer(
    ByteView file, const Digest& expected, const std::string& cache_directory) {
    return keep_as<LanguageTokenizer>(file, expected, cache_directory);
}

}  // namespace dedloc::text
