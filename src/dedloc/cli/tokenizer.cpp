// dedloc tokenizer train: a tokenizer from text, SentencePiece's or one of bytes. dedloc tokenizer
// show: what a tokenizer is, and how it parts a text.

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dedloc/cli/commands.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/say.h"
#include "dedloc/tasks/text_section.h"
#include "dedloc/text/cache.h"
#include "dedloc/text/tokenizer_json.h"
#include "dedloc/text/tokenizer_training.h"

namespace dedloc::cli {
namespace {

constexpr std::uint64_t measured_bytes = 1'000'000;  // for bytes a token
constexpr std::size_t pieces_shown_max = 1000;

Result<text::TokenizerRecipe> recipe_of(const TokenizerTrainOptions& options) {
    std::string line = options.recipe;
    const auto add = [&](std::string_view name, const std::string& value) {
        line += fmt::format("{}{}={}", line.empty() ? "" : "&", name, value);
    };
    if (!options.kind.empty()) add("kind", options.kind);
    if (options.vocabulary > 0) add("vocabulary", std::to_string(options.vocabulary));
    if (!options.normalization.empty()) add("normalization", options.normalization);
    if (!options.rules.empty()) add("rules", options.rules);
    if (options.split_digits) add("split_digits", "true");
    return text::parse_recipe(line);
}

Result<double> bytes_per_token(const text::Corpus& corpus,
                               const text::LanguageTokenizer& tokenizer) {
    std::uint64_t bytes = 0;
    std::vector<std::uint32_t> ids;
    DEDLOC_TRY_VOID(corpus.visit_sentences(measured_bytes, [&](const std::string& sentence) {
        bytes += sentence.size() + 1;  // with what parts it from the next
        tokenizer.encode(sentence, ids);
        return true;
    }));
    return static_cast<double>(bytes) / static_cast<double>(std::max<std::size_t>(ids.size(), 1));
}

Result<int> train(const TokenizerTrainOptions& options) {
    std::error_code status;
    if (std::filesystem::exists(options.output, status) && !options.force)
        return make_error(ErrorKind::bad_input,
                          "{} is there already; a run may need it (--force replaces it)",
                          options.output);
    // Before the training, not after.
    const auto folder = std::filesystem::absolute(options.output, status).parent_path();
    if (!std::filesystem::is_directory(folder, status))
        return make_error(ErrorKind::bad_input, "there is no folder {}", folder.string());
    DEDLOC_TRY(const auto recipe, recipe_of(options));
    DEDLOC_TRY(const auto sources, text::parse_sources(options.input));
    const text::CorpusOptions corpus_options{.data_directory = options.data_directory};
    DEDLOC_TRY(const auto corpus, text::Corpus::open(sources, corpus_options));
    if (!options.json)
        peer::say(stdout, "training {} pieces on {} …\n", recipe.vocabulary, corpus->description());
    const auto begin = std::chrono::steady_clock::now();
    text::TrainingOptions training{};
    training.progress = [quiet = options.json](double seconds) {
        if (!quiet) peer::say(stderr, "  {:.0f} s so far …\n", seconds);
    };
    if (options.megabytes > 0) training.bytes = options.megabytes * 1'000'000;
    DEDLOC_TRY(const auto tokenizer, text::train_language_tokenizer(*corpus, recipe, training));
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    DEDLOC_TRY(const double bytes, bytes_per_token(*corpus, *tokenizer));
    DEDLOC_TRY_VOID(text::write_file(options.output, as_text(tokenizer->file())));
    if (options.json) {
        const nlohmann::ordered_json json{{"ok", true},
                                          {"output", options.output},
                                          {"pieces", tokenizer->size()},
                                          {"hash", tokenizer->hash().hex()},
                                          {"recipe", text::to_string(recipe)},
                                          {"corpus_hash", tasks::corpus_key(*corpus)},
                                          {"bytes_per_token", bytes},
                                          {"seconds", seconds}};
        peer::say(stdout, "{}\n", monitor::json_line(json));
        return 0;
    }
    peer::say(
        stdout,
        "wrote {} in {:.1f} s\n  pieces  {}, one is {:.2f} bytes of this text\n  recipe  {}\n  "
        "hash    {}\n",
        options.output,
        seconds,
        tokenizer->size(),
        bytes,
        text::to_string(recipe),
        tokenizer->hash().hex());
    return 0;
}

// As a SentencePiece model of ours says it; a tokenizer.json says nothing of it.
std::string recipe_of_file(const text::LanguageTokenizer& tokenizer) {
    if (tokenizer.file_name() == text::tokenizer_json_name) return "bytes: tokenizer.json";
    const auto pieces = text::Tokenizer::parse(tokenizer.file());
    if (!pieces || !(*pieces)->recipe()) return "of another tool";
    return text::to_string(*(*pieces)->recipe());
}

Result<int> show(const TokenizerShowOptions& options) {
    DEDLOC_TRY(const auto tokenizer, text::LanguageTokenizer::load(options.file));
    const auto ids = tokenizer->encode(options.text);
    std::vector<std::string> pieces;
    for (std::size_t i = 0; i < ids.size() && i < pieces_shown_max; ++i)
        pieces.emplace_back(tokenizer->piece(ids[i]));
    const std::string recipe_text = recipe_of_file(*tokenizer);
    if (options.json) {
        const nlohmann::ordered_json json{{"ok", true},
                                          {"pieces", tokenizer->size()},
                                          {"hash", tokenizer->hash().hex()},
                                          {"recipe", recipe_text},
                                          {"ids", ids},
                                          {"tokens", pieces}};
        peer::say(stdout, "{}\n", monitor::json_line(json));
        return 0;
    }
    peer::say(stdout,
              "{}\n  pieces  {}\n  recipe  {}\n  hash    {}\n",
              options.file,
              tokenizer->size(),
              recipe_text,
              tokenizer->hash().hex());
    if (!options.text.empty())
        peer::say(stdout, "  tokens  {} ({})\n", fmt::join(pieces, " "), fmt::join(ids, " "));
    return 0;
}

int finish(const Result<int>& result) {
    return result ? *result : peer::report(peer::failure(result.error()));
}

}  // namespace

int run_tokenizer_train(const TokenizerTrainOptions& options) { return finish(train(options)); }
int run_tokenizer_show(const TokenizerShowOptions& options) { return finish(show(options)); }

}  // namespace dedloc::cli
