#include "dedloc/tasks/text_section.h"

#include <algorithm>
#include <filesystem>

#include "dedloc/base/log.h"
#include "dedloc/text/source.h"
#include "dedloc/text/tokenizer.h"

namespace dedloc::tasks {

namespace {

namespace fs = std::filesystem;

constexpr const char* own_tokenizer = "tokenizer.model";     // in the data folder
constexpr const char* published_tokenizer = "spiece.model";  // beside weights

// In the section [text], which is there.
void set_tokenizer_hash(run::TaskConfig& task, const std::string& hash) {
    run::Section section = *task.section(text_section_name);
    for (run::Section::Field& field : section.fields)
        if (field.key == "tokenizer_hash") field.value = hash;
    task.set_section(std::move(section));
}

}  // namespace

Result<std::optional<Digest>> hash_from(const char* field, const std::string& text) {
    if (text == undecided_hash) return std::optional<Digest>();
    const auto bytes = base::from_hex(text);
    if (bytes) {
        const auto digest = Digest::from(*bytes);
        if (digest) return std::optional<Digest>(*digest);
    }
    return make_error(ErrorKind::bad_input,
                      "{}: '{}' is not a SHA-256 in hexadecimal, nor \"{}\"",
                      field,
                      text.substr(0, 64),
                      undecided_hash);
}

Ok check_held_out_share(double share) {
    if (share > 0) return {};
    return make_error(ErrorKind::bad_input,
                      "text.held_out: {} leaves no text to evaluate on; give a fraction above 0, "
                      "such as 0.02",
                      share);
}

Ok check_held_out(std::uint64_t samples, std::uint64_t wanted, double share) {
    if (samples == 0) return make_error(ErrorKind::bad_input, "text.held_out: no text is held out");
    if (samples < wanted)
        log(LogLevel::warning,
            "tasks",
            "evaluations have {} samples, not text.held_out_samples = {}: so many are in the text "
            "that is held out; raise text.held_out ({})",
            samples,
            wanted,
            share);
    return {};
}

Ok check_vocabulary(const char* field, std::int64_t rows, std::int64_t pieces) {
    if (pieces <= rows) return {};
    return make_error(ErrorKind::bad_input,
                      "{}: {} are less than the tokenizer's {} pieces",
                      field,
                      rows,
                      pieces);
}

Result<text::ExpectedCorpus> expected_corpus(const std::string& key) {
    text::ExpectedCorpus expected;
    if (key == hosts_corpus) return expected;
    const std::size_t colon = std::min(key.find(':'), key.size());
    DEDLOC_TRY(expected.hash, hash_from("text.corpus_hash", key.substr(0, colon)));
    if (colon == key.size()) return expected;
    auto sketch = folders::FileSketch::parse(std::string_view(key).substr(colon + 1));
    if (!sketch) return std::move(sketch).error().with_context("text.corpus_hash");
    expected.sketch = *std::move(sketch);
    return expected;
}

std::string corpus_key(const text::Corpus& corpus) {
    return corpus.fingerprint().hex() + ":" + corpus.sketch().text();
}

void decide_text(const text::TextData& data, TextKeys& keys) {
    keys.tokenizer_hash = data.tokenizer().hash().hex();
    if (keys.corpus_hash == hosts_corpus) keys.corpus_hash = corpus_key(data.corpus());
}

Result<text::TextDataConfig> text_config(const run::TaskConfig& task) {
    const TextKeys keys = text_keys(task);
    text::TextDataConfig result;
    result.sources = task.data;
    result.tokenizer = keys.tokenizer;
    DEDLOC_TRY(result.tokenizer_hash, hash_from("text.tokenizer_hash", keys.tokenizer_hash));
    DEDLOC_TRY(text::ExpectedCorpus expected, expected_corpus(keys.corpus_hash));
    result.corpus_hash = expected.hash;
    result.corpus_sketch = std::move(expected.sketch);
    // The run file's reader has bounded them.
    result.samples.max_length = static_cast<std::uint32_t>(keys.length);
    result.samples.pad_multiple = static_cast<std::uint32_t>(keys.pad_multiple);
    result.samples.window_samples = static_cast<std::uint32_t>(keys.window_samples);
    result.samples.masking = {.probability = keys.masked,
                              .mask_share = keys.masked_as_mask,
                              .random_share = keys.masked_as_random};
    result.held_out = keys.held_out;
    const double shares = keys.masked_as_mask + keys.masked_as_random;
    if (shares > 1 || keys.masked <= 0)
        return make_error(ErrorKind::bad_input,
                          "text.masked must be above 0, and text.masked_as_mask + "
                          "text.masked_as_random at most 1, not {}",
                          shares);
    DEDLOC_TRY_VOID(check_held_out_share(keys.held_out));
    return result;
}

// A link in the data folder is the user's own word and is followed, but `..` behind one would lead
// past it. What is hidden
// (.ssh) is nobody's training text, should the folder be a whole home.
Ok check_text_places(const std::string& data, const std::string& data_directory) {
    DEDLOC_TRY(const auto sources, text::parse_sources(data));
    for (const text::SourceConfig& wanted : sources) {
        if (wanted.format == text::SourceFormat::kjv) continue;
        const fs::path path = wanted.path;
        const bool leaves = std::any_of(path.begin(), path.end(), [](const fs::path& name) {
            return name.native().starts_with('.') && name != ".";
        });
        if (leaves || path.is_absolute())
            return make_error(ErrorKind::bad_input,
                              "task.data: {} is not below --data, or hidden there; a run file may "
                              "name only what is there, by its path from there",
                              wanted.path);
        if (data_directory.empty())
            return make_error(ErrorKind::not_found,
                              "this run's text is {}: say with --data which folder has it",
                              data);
    }
    return {};
}

std::string own_text(const run::TaskConfig& task) {
    const auto sources = text::parse_sources(task.data);
    const bool is_own = sources && std::ranges::any_of(*sources, [](const auto& source) {
                            return source.format != text::SourceFormat::kjv;
                        });
    return is_own ? task.data : std::string();
}

bool leaves_tokenizer_open(const run::TaskConfig& task) {
    return text_keys(task).tokenizer_hash == undecided_hash;
}

Ok inherit_tokenizer(run::TaskConfig& task, const run::TaskConfig* from) {
    const TextKeys keys = text_keys(task);
    const std::string known = from ? text_keys(*from).tokenizer_hash : undecided_hash;
    if (known == undecided_hash) {
        if (keys.tokenizer_hash != undecided_hash) return {};
        return make_error(ErrorKind::bad_input,
                          "which tokenizer the model knows cannot be told, its run file is of "
                          "another version; copy text.tokenizer_hash from its run.toml");
    }
    if (keys.tokenizer_hash == undecided_hash) {
        if (!task.section(text_section_name))
            task.set_section(run::section_from(text_section_name, keys));
        set_tokenizer_hash(task, known);
        return {};
    }
    if (keys.tokenizer_hash == known) return {};
    return make_error(ErrorKind::bad_input,
                      "the checkpoint's model knows the tokenizer {}, the run file names {}; with "
                      "text.tokenizer_hash = \"none\" it takes the checkpoint's",
                      known,
                      keys.tokenizer_hash);
}

std::string tokenizer_in_data(const TaskOptions& options) {
    std::error_code error;
    const std::string published = options.weights_directory + "/" + published_tokenizer;
    if (!options.weights_directory.empty() && fs::exists(published, error)) return published;
    std::string path = options.data_directory + "/" + own_tokenizer;
    if (options.data_directory.empty() || !fs::exists(path, error)) return {};
    return path;
}

Result<std::optional<MissingFile>> missing_tokenizer(const run::TaskConfig& task,
                                                     const TaskOptions& options) {
    DEDLOC_TRY(const auto hash, hash_from("text.tokenizer_hash", text_keys(task).tokenizer_hash));
    if (!hash || !tokenizer_in_data(options).empty() || text::kept_tokenizer(*hash, ""))
        return std::optional<MissingFile>();
    return std::optional<MissingFile>(
        {.what = "tokenizer", .hash = *hash, .bytes_max = text::tokenizer_bytes_max});
}

Ok keep_missing_tokenizer(const MissingFile& missing, ByteView file) {
    DEDLOC_TRY_VOID(text::keep_tokenizer(file, missing.hash, ""));
    return {};
}

}  // namespace dedloc::tasks
