#include "dedloc/tasks/language_model/language_tokenizer_file.h"

#include <filesystem>

#include "dedloc/tasks/language_model/language_model_section.h"
#include "dedloc/tasks/text_section.h"
#include "dedloc/text/tokenizer.h"
#include "dedloc/text/tokenizer_json.h"
#include "dedloc/text/tokenizer_training.h"

namespace dedloc::tasks {

namespace fs = std::filesystem;

std::string language_tokenizer_here(const run::TaskConfig& task, const TaskOptions& options) {
    std::error_code error;
    const std::string json = std::string("/") + text::tokenizer_json_name;
    // A run that names its tokenizer by its hash gets that one.
    if (!options.weights_directory.empty() && leaves_tokenizer_open(task) &&
        fs::exists(options.weights_directory + json, error))
        return options.weights_directory + json;
    if (!options.data_directory.empty() && fs::exists(options.data_directory + json, error))
        return options.data_directory + json;
    return tokenizer_in_data(options);
}

Ok check_trains_tokenizer(const TaskOptions& options) {
    if (options.weights_directory.empty()) return {};
    return make_error(ErrorKind::bad_input,
                      "{} has no {}, and its weights know words by the numbers of their own "
                      "tokenizer, not by those of one that is trained here; put that file there",
                      options.weights_directory,
                      text::tokenizer_json_name);
}

Result<std::shared_ptr<const text::LanguageTokenizer>> known_language_tokenizer(
    const run::TaskConfig& task, const TaskOptions& options) {
    DEDLOC_TRY(const auto hash,
               hash_from("text.tokenizer_hash", packed_text_keys(task).tokenizer_hash));
    const std::string here = language_tokenizer_here(task, options);
    if (!here.empty()) return text::LanguageTokenizer::load(here, hash);
    if (!hash)
        return make_error(ErrorKind::not_found,
                          "the run file names no tokenizer: the run's host decides it");
    auto kept = text::kept_language_tokenizer(*hash, "");
    if (kept) return kept;
    return make_error(ErrorKind::not_found,
                      "the run's tokenizer is not on this machine: it lies in the folder of a peer "
                      "(files/), in what --publish copies, or at the run's peers");
}

Result<std::optional<MissingFile>> missing_language_tokenizer(const run::TaskConfig& task,
                                                              const TaskOptions& options) {
    DEDLOC_TRY(const auto hash,
               hash_from("text.tokenizer_hash", packed_text_keys(task).tokenizer_hash));
    if (!hash || !language_tokenizer_here(task, options).empty() ||
        text::kept_language_tokenizer(*hash, ""))
        return std::optional<MissingFile>();
    return std::optional<MissingFile>(
        {.what = "tokenizer", .hash = *hash, .bytes_max = text::tokenizer_bytes_max});
}

Ok keep_missing_language_tokenizer(const MissingFile& missing, ByteView file) {
    DEDLOC_TRY_VOID(text::keep_language_tokenizer(file, missing.hash, ""));
    return {};
}

}  // namespace dedloc::tasks
