// [text]: how a task that learns from text cuts, masks and holds out what task.data names, for all
// tasks that do. No libtorch.
//
// Thread: any; pure, but for tokenizers (files in the data folder and the cache).

#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "dedloc/run/task_section.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/text/text_data.h"

namespace dedloc::tasks {

inline constexpr const char* text_section_name = "text";
inline constexpr const char* undecided_hash = "none";
inline constexpr const char* hosts_corpus = "host";
// The hash in hexadecimal, and a sketch that says which files differ (folders/sketch.h).
inline constexpr std::size_t corpus_key_bytes_max = 64 + 1 + folders::FileSketch::text_bytes;

// Keys that all tasks with text have, in the places that they have there.
template <typename Visitor, typename Self>
void visit_text_files(Visitor& visit, Self& self) {
    visit("tokenizer", self.tokenizer, run::Text{.bytes_max = 256});
    visit("tokenizer_hash",
          self.tokenizer_hash,
          run::Text{.bytes_max = 64},
          "none: of the tokenizer that the host trains or has");
    visit("corpus_hash",
          self.corpus_hash,
          run::Text{.bytes_max = corpus_key_bytes_max},
          "none: peers may have different text");
}
template <typename Visitor, typename Self>
void visit_text_samples(Visitor& visit, Self& self) {
    using run::Integers;
    visit("held_out", self.held_out, run::Numbers{0, 0.5}, "of the text, for evaluation");
    visit("held_out_samples", self.held_out_samples, Integers{1, 1u << 20});
    visit("window_samples",
          self.window_samples,
          Integers{1, 1u << 20},
          "within which samples of all sources are shuffled");
}

struct TextKeys {
    std::string tokenizer = "vocabulary=8192";    // recipe, text/recipe.h
    std::string tokenizer_hash = undecided_hash;  // of the file; none: the host decides
    std::string corpus_hash = undecided_hash;     // of all text; none: not compared; "host"
    std::uint64_t length = 512;                   // longest sequence, in tokens
    std::uint64_t pad_multiple = 8;
    double masked = 0.15;           // of the tokens
    double masked_as_mask = 0.8;    // of those
    double masked_as_random = 0.1;  // of those
    double held_out = 0.02;         // of the text
    std::uint64_t held_out_samples = 256;
    std::uint64_t window_samples = 4096;  // within which samples of all sources are shuffled

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        using run::Integers;
        using run::Numbers;
        visit_text_files(visit, self);
        visit("length", self.length, Integers{8, 8192}, "tokens of a sample at most");
        visit("pad_multiple", self.pad_multiple, Integers{1, 1024});
        visit("masked", self.masked, Numbers{0, 1}, "of the tokens are to be guessed; of those");
        visit("masked_as_mask", self.masked_as_mask, Numbers{0, 1}, "… so many are hidden,");
        visit("masked_as_random",
              self.masked_as_random,
              Numbers{0, 1},
              "… so many replaced, the rest left as it is");
        visit_text_samples(visit, self);
    }

    // Rows are padded to a multiple, which may be more than the longest sample.
    std::uint64_t columns_max() const {
        return (length + pad_multiple - 1) / pad_multiple * pad_multiple;
    }
};

inline TextKeys text_keys(const run::TaskConfig& task) {
    return run::keys_of<TextKeys>(task, text_section_name);
}

// The value of corpus_hash for that text.
std::string corpus_key(const text::Corpus& corpus);
// Decides what a run file leaves to the host (TrainingTask::decided_config).
void decide_text(const text::TextData& data, TextKeys& keys);

// A SHA-256 in hexadecimal, or none. bad_input names the field.
Result<std::optional<Digest>> hash_from(const char* field, const std::string& text);

// bad_input: text.held_out leaves nothing to evaluate on.
Ok check_held_out_share(double share);
// Judges how many samples are held out: bad_input where there are none; says in the log that
// evaluations have fewer than `wanted`.
Ok check_held_out(std::uint64_t samples, std::uint64_t wanted, double share);
// A tokenizer of more pieces than the model has rows would name what is not there. bad_input names
// `field`.
Ok check_vocabulary(const char* field, std::int64_t rows, std::int64_t pieces);

// Reads text.corpus_hash.
Result<text::ExpectedCorpus> expected_corpus(const std::string& key);

// Converts for the text module. bad_input: shares that make no sense, a hash that is none.
Result<text::TextDataConfig> text_config(const run::TaskConfig& task);

// The run file is somebody else's, and who sees gradients sees into the text: it may name what lies
// below the folder that this user gave for it, and nothing else of this machine. bad_input: it does
// not; not_found: there is no such folder.
Ok check_text_places(const std::string& data, const std::string& data_directory);

// task.data, unless all of it comes in packages.
std::string own_text(const run::TaskConfig& task);

// Does the run file leave the tokenizer to the host?
bool leaves_tokenizer_open(const run::TaskConfig& task);
// The tokenizer of the run that the model comes from; TaskKind::inherit.
Ok inherit_tokenizer(run::TaskConfig& task, const run::TaskConfig* from);

// The tokenizer beside the weights that a run begins with, or in the data folder, which go before
// others; empty: there is none.
std::string tokenizer_in_data(const TaskOptions& options);
// The run's tokenizer, unless it is in the data folder or the cache; TaskKind::missing_files.
Result<std::optional<MissingFile>> missing_tokenizer(const run::TaskConfig& task,
                                                     const TaskOptions& options);
Ok keep_missing_tokenizer(const MissingFile& missing, ByteView file);

}  // namespace dedloc::tasks
