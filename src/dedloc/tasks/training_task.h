// A run trains this, chosen by the run file's task.kind: the data and makers of learners.
//
//   DEDLOC_TRY(auto task, tasks::make_task(run.task, {.device = "auto", .threads_count = 1}));
//   DEDLOC_TRY(auto learner, task->learner(my_id));     // for the trainer's thread
//   DEDLOC_TRY(auto second, task->learner(my_id));      // for the evaluating thread
//
// The kinds are folders below this one; each says its models and data in its header, and registers
// itself (registry.h).
//
// Learners share the data and may be used on different threads, one thread each.
// Errors: bad_input    unknown kind, model or data; names the known ones
//         not_found    data missing on this machine; names the package that brings it
//         unsupported  "cuda" without CUDA; a task of libtorch in a build without it

#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/shared_bytes.h"
#include "dedloc/images/picture.h"
#include "dedloc/run/run_file.h"
#include "dedloc/tasks/fine_tune.h"
#include "dedloc/train/model.h"

namespace dedloc::collab {
class Node;
}
namespace dedloc::data {
struct OwnPieces;
}
namespace dedloc::text {
class SharedBlocks;
}

namespace dedloc::tasks {

struct TaskOptions {
    std::string device = "auto";  // "cpu", "cuda", "cuda:1"
    int threads_count = 0;        // of one operation of libtorch; 0: its own choice
    // Empty: where the Debian package puts the data. Texts that are in none need one.
    std::string data_directory{};
    // To look at the model, not to train it: what a run would train first (image codes) is not, and
    // data that are missing are made up.
    bool unprepared = false;
    // A folder of Hugging Face's whose weights a new run begins with; empty: none.
    std::string weights_directory{};
    // Told while something long is read for the first time ("pictures"), often. Null: nobody.
    std::function<void(std::string_view what, std::size_t done, std::size_t all)> progress{};
    // The peer that trains, for tasks that call others; outlives the task. Null: there is no run
    // (`check`, `eval`, `export`).
    const collab::Node* node = nullptr;
    // A task whose experts nobody serves fails when no one has answered for so long; until then it
    // waits, and leaves out what it cannot compute.
    Duration experts_timeout = std::chrono::minutes(10);
    // The run's text, which comes from its peers; null: it is on this machine.
    std::shared_ptr<text::SharedBlocks> shared{};
    // Others compute this peer's samples again: a piece that is gone is an error, and not left out.
    bool needs_all_data = false;
};

// A number with its name: "perplexity".
struct Measure {
    std::string name;
    double value = 0;
};
double value_of(const std::vector<Measure>& measures, std::string_view name);  // 0: not measured

// Memory that one trainer needs, in bytes. Zeros: not known.
struct MemoryEstimate {
    std::uint64_t model = 0;          // parameters and gradients
    std::uint64_t activations = 0;    // of one micro-batch
    std::uint64_t collaboration = 0;  // states, moments, sums and averages
    std::uint64_t program = 0;
    std::uint64_t total() const { return model + activations + collaboration + program; }
};

// Pictures for prompts.
struct DrawRequest {
    std::vector<std::string> prompts;
    std::size_t count = 1;   // pictures for each
    std::int64_t top_k = 0;  // choose among so many of the likeliest codes; 0: all
    double temperature = 1;  // 0: the likeliest
    // How far the caption pushes a code from what it would be without; empty: as the run file says.
    std::optional<double> guidance{};
    std::uint64_t seed = 0;
    // Asked before each code; no: draw() returns cancelled. Null: it goes on.
    std::function<bool()> goes_on{};
};
struct Drawing {
    std::vector<images::Picture> pictures;  // those of the first prompt, of the second, …
    std::vector<std::string> remarks{};     // for people: words that the model does not know
};

// Text behind a prompt.
struct WriteRequest {
    std::string prompt;
    std::uint64_t tokens_max = 200;
    std::int64_t top_k = 0;  // choose among so many of the likeliest tokens; 0: all
    double top_p = 1;        // or among those that together have this probability; 1: all
    double temperature = 1;  // 0: the likeliest
    std::uint64_t seed = 0;
    // Told as it comes, in whole characters; false ends it. Null: nobody.
    std::function<bool(std::string_view)> told{};
};
struct Writing {
    std::string text;  // behind the prompt
    std::uint64_t prompt_tokens = 0;
    std::uint64_t tokens = 0;
    bool ended = false;    // the model ended the document
    bool is_full = false;  // the longest context is reached
};

// A model at one state, ready for many prompts. Thread: one at a time, but for what is const.
class Generator {
  public:
    virtual ~Generator() = default;
    // The most tokens that prompt and text have together; 0: the model writes none.
    virtual std::uint64_t context() const { return 0; }
    // Returns how many tokens the prompt has, or words that the model knows. bad_input: more than
    // the context takes, or none.
    virtual Result<std::uint64_t> prompt_tokens(const std::string& prompt) const;
    // As TrainingTask::write() and draw().
    virtual Result<Writing> write(const WriteRequest& request);
    virtual Result<Drawing> draw(const DrawRequest& request);
};

// A text to be judged: how likely the model finds it behind what stands before it.
struct ScoredText {
    std::string before{};
    std::string text;
};
struct TextScore {
    double nats = 0;  // -ln of the probability of `text`
    std::uint64_t tokens = 0;
    std::uint64_t bytes = 0;
    bool is_greedy = false;  // each token of it is the likeliest
};

// A file of the run that this machine lacks and its peers have.
struct MissingFile {
    std::string what;  // for people: "tokenizer"
    Digest hash;
    std::size_t bytes_max = 0;
};

class TrainingTask {
  public:
    virtual ~TrainingTask() = default;
    // `peer` decides the order of samples.
    virtual Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer) const = 0;
    virtual std::string device() const = 0;
    virtual std::string description() const = 0;  // one line for people

    // The run file's part with what it left open and this machine decided (a tokenizer).
    virtual std::optional<run::TaskConfig> decided_config() const { return std::nullopt; }
    // Files that the decided run file names by their hash and that this machine can give to others.
    virtual std::vector<SharedBytes> files() const { return {}; }
    // The run's data, where this machine shares them; null: it does not. conflict: its data are not
    // the run's. Blocks: reads all of them.
    virtual Result<std::shared_ptr<const data::OwnPieces>> own_pieces() const;
    // More about the model at these parameters than its loss, on at most so many held-out samples
    // (0: all that an evaluation uses). Empty: the task has nothing more to say.
    virtual Result<std::vector<Measure>> measure(std::span<const float> parameters,
                                                 std::span<const float> buffers,
                                                 std::uint64_t samples_max) const;
    // How training went here so far, beside steps and losses (calls of experts). Thread: the
    // owner's.
    virtual std::vector<Measure> counts() const { return {}; }
    // Files that other programs read, into a folder that is there. Returns their names.
    virtual Result<std::vector<std::string>> export_model(std::span<const float> parameters,
                                                          std::span<const float> buffers,
                                                          const std::string& directory) const;
    // How well the model serves another task (fine_tune.h). unsupported: it is no model of text.
    virtual Result<FineTuneScore> fine_tune(std::span<const float> parameters,
                                            const FineTuneInput& input) const;
    // Training samples as people read them.
    virtual Result<std::vector<std::string>> sample_texts(std::uint64_t count) const;
    virtual MemoryEstimate memory(std::uint64_t micro_batch) const;
    // Facts that `dedloc check` says of the model beside its size.
    virtual std::vector<Measure> facts() const { return {}; }
    // Parameters of a folder in Hugging Face's format, in the order of the learner's vector.
    // unsupported: the task reads none. bad_input: another model, and which weight is unlike.
    virtual Result<std::vector<float>> read_weights(const std::string& folder) const;
    // Loads the model once, for prompts that come one after the other. unsupported: the task
    // neither writes nor draws. The task outlives it.
    virtual Result<std::unique_ptr<Generator>> generator(std::span<const float> parameters,
                                                         std::span<const float> buffers) const;
    // unsupported: the task writes no text (TaskKind::writes_text). bad_input: a prompt that is
    // longer than the model's context.
    virtual Result<Writing> write(std::span<const float> parameters,
                                  std::span<const float> buffers,
                                  const WriteRequest& request) const;
    // Returns one score for each text; a text that is longer than the model's context is read in
    // windows that overlap by half. unsupported: the task writes no text.
    virtual Result<std::vector<TextScore>> score(std::span<const float> parameters,
                                                 std::span<const float> buffers,
                                                 std::span<const ScoredText> texts) const;
    // unsupported: the task draws no pictures. bad_input: a prompt of which no word is known.
    virtual Result<Drawing> draw(std::span<const float> parameters,
                                 std::span<const float> buffers,
                                 const DrawRequest& request) const;
};

std::vector<std::string> task_kinds();
Result<std::shared_ptr<const TrainingTask>> make_task(const run::TaskConfig& config,
                                                      const TaskOptions& options);

// Which files of the run peers must give before make_task() finds everything. Corpora and data sets
// are not among them: each machine has those by itself.
Result<std::vector<MissingFile>> missing_files(const run::TaskConfig& config,
                                               const TaskOptions& options);
// Keeps one of them (in the user's cache) where make_task() looks. bad_input: it is no such file.
Ok keep_file(const run::TaskConfig& config, const MissingFile& missing, ByteView file);

}  // namespace dedloc::tasks
