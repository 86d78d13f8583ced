// dedloc finetune: how well checkpoints serve another task, side by side, on labelled text:
// entities or classes, several seeds, mean and standard deviation on the test split.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dedloc/cli/checkpoint_source.h"
#include "dedloc/cli/commands.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/run_files.h"
#include "dedloc/peer/say.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/security/identity.h"
#include "dedloc/tasks/fine_tune.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::cli {
namespace {

constexpr double test_share = 0.2;
constexpr double evaluation_share = 0.1;  // of the rest

struct LabelledFiles {
    tasks::FineTuneData data;
    std::optional<tasks::FineTuneSplit> split{};  // where files say it; else each seed draws one
    bool by_names = false;
    std::size_t train_max = 0;  // 0: all
};

std::size_t label_number(std::vector<std::string>& labels, const std::string& label) {
    const auto found = std::ranges::find(labels, label);
    if (found != labels.end()) return static_cast<std::size_t>(found - labels.begin());
    labels.push_back(label);
    return labels.size() - 1;
}

// Appends a file's examples; labels of the same name are the same.
Ok add_file(const std::string& path, tasks::FineTuneData& data) {
    DEDLOC_TRY(const std::string file, peer::read_text_file(path, text::labelled_bytes_max));
    if (data.kind == tasks::FineTuneKind::entities) {
        auto entities = text::parse_entities(file);
        if (!entities) return std::move(entities).error().with_context(path);
        for (const std::string& label : entities->labels) (void)label_number(data.labels, label);
        std::ranges::move(entities->sentences, std::back_inserter(data.sentences));
        return {};
    }
    auto classes = text::parse_classes(file);
    if (!classes) return std::move(classes).error().with_context(path);
    for (text::LabelledText& text : classes->texts) {
        text.label = label_number(data.labels, classes->classes[text.label]);
        data.texts.push_back(std::move(text));
    }
    return {};
}

std::vector<std::size_t> places_from(std::size_t begin, std::size_t end) {
    std::vector<std::size_t> all;
    for (std::size_t i = begin; i < end; ++i) all.push_back(i);
    return all;
}

Result<LabelledFiles> read_labelled(const FineTuneOptions& options) {
    LabelledFiles files;
    files.data.kind =
        options.task == "ner" ? tasks::FineTuneKind::entities : tasks::FineTuneKind::classes;
    DEDLOC_TRY_VOID(add_file(options.data, files.data));
    if (options.test_data.empty() != options.evaluation_data.empty())
        return make_error(ErrorKind::bad_input,
                          "give both --evaluation-data and --test-data, or neither: then a fifth "
                          "of --data is for the test, drawn anew by each seed");
    const bool by_names = options.split == "names";
    if (by_names && (options.task != "ner" || !options.test_data.empty()))
        return make_error(ErrorKind::bad_input,
                          "--split names is for --task ner, without files of --evaluation-data and "
                          "--test-data");
    files.by_names = by_names;
    files.train_max = options.train_max;
    if (options.test_data.empty()) return files;
    const std::size_t train = files.data.size();
    DEDLOC_TRY_VOID(add_file(options.evaluation_data, files.data));
    const std::size_t evaluation = files.data.size();
    DEDLOC_TRY_VOID(add_file(options.test_data, files.data));
    files.split = tasks::FineTuneSplit{.train = places_from(0, train),
                                       .evaluation = places_from(train, evaluation),
                                       .test = places_from(evaluation, files.data.size())};
    return files;
}

tasks::FineTuneSplit whole_split_of(const LabelledFiles& files, std::uint64_t seed) {
    if (files.split) return *files.split;
    if (files.by_names) return tasks::split_by_names(files.data.sentences, seed);
    return tasks::split_by_chance(files.data.size(), test_share, evaluation_share, seed);
}

tasks::FineTuneSplit split_of(const LabelledFiles& files, std::uint64_t seed) {
    tasks::FineTuneSplit split = whole_split_of(files, seed);
    if (files.train_max > 0 && split.train.size() > files.train_max)
        split.train.resize(files.train_max);
    return split;
}

struct TableRow {
    std::string model;
    std::vector<double> scores;
};

nlohmann::ordered_json row_json(const TableRow& row) {
    const tasks::MeanAndDeviation spread = tasks::mean_and_deviation(row.scores);
    return {{"model", row.model},
            {"mean", spread.mean},
            {"std", spread.deviation},
            {"scores", row.scores}};
}

tasks::FineTuneRecipe tuning_recipe(const FineTuneOptions& options) {
    tasks::FineTuneRecipe recipe;
    recipe.length = options.length;
    recipe.rate = options.rate;
    recipe.epochs_max = options.epochs;
    recipe.batch = options.batch;
    recipe.patience = options.patience;
    return recipe;
}

// One model over all seeds. `random`: its sizes and tokenizer, with new weights for each seed.
Result<TableRow> tune_model(const FoundCheckpoint& found,
                            const LabelledFiles& files,
                            const FineTuneOptions& options,
                            bool random) {
    DEDLOC_TRY(const auto run,
               run::parse_run_file(found.checkpoint.run_file, found.path + "/run.toml"));
    const tasks::TaskOptions task_options{.device = options.device,
                                          .threads_count = options.threads,
                                          .data_directory = options.data_directory};
    DEDLOC_TRY_VOID(peer::restore_run_files(found.path, run.task, task_options));
    DEDLOC_TRY(const auto task, tasks::make_task(run.task, task_options));
    const state::Snapshot& snapshot = *found.checkpoint.state->snapshot;
    const std::span<const float> trained = replica::parameters_of(snapshot);
    TableRow row{.model = random ? "random initialisation"
                                 : fmt::format("{}, step {}", found.path, snapshot.step()),
                 .scores = {}};
    for (std::uint64_t seed = 0; seed < options.seeds; ++seed) {
        std::vector<float> parameters(trained.begin(), trained.end());
        if (random) {
            run::TaskConfig fresh = run.task;
            fresh.seed = seed + 1;
            DEDLOC_TRY(const auto fresh_task, tasks::make_task(fresh, task_options));
            const PeerId anybody = security::Identity::generate().id();
            DEDLOC_TRY(auto learner, fresh_task->learner(anybody));
            std::vector<float> buffers(learner->layout().buffers_count);
            learner->store(parameters, buffers);
        }
        const tasks::FineTuneInput input{.data = files.data,
                                         .split = split_of(files, seed),
                                         .recipe = tuning_recipe(options),
                                         .seed = seed};
        DEDLOC_TRY(const tasks::FineTuneScore score, task->fine_tune(parameters, input));
        row.scores.push_back(score.score);
        peer::say(stderr,
                  "{}, seed {}: {:.4f} after {} epochs (best: {})\n",
                  row.model,
                  seed,
                  score.score,
                  score.epochs,
                  score.best_epoch);
    }
    return row;
}

TableRow bag_of_words_row(const LabelledFiles& files,
                          const FineTuneOptions& options,
                          bool majority) {
    TableRow row{.model = majority ? "the commonest class" : "bag of words", .scores = {}};
    for (std::uint64_t seed = 0; seed < options.seeds; ++seed) {
        const tasks::FineTuneSplit split = split_of(files, seed);
        row.scores.push_back(majority ? tasks::majority_share(files.data, split)
                                      : tasks::bag_of_words_accuracy(files.data, split));
    }
    return row;
}

void say_table(const std::vector<TableRow>& rows, const FineTuneOptions& options) {
    peer::say(stdout,
              "{} over {} seeds\n",
              options.task == "ner" ? "entity F1 on the test split" : "accuracy on the test split",
              options.seeds);
    for (const TableRow& row : rows) {
        const tasks::MeanAndDeviation spread = tasks::mean_and_deviation(row.scores);
        peer::say(stdout, "  {:.4f} ± {:.4f}  {}\n", spread.mean, spread.deviation, row.model);
    }
}

}  // namespace

int run_finetune(const FineTuneOptions& options) {
    const auto files = read_labelled(options);
    if (!files) return peer::report(peer::failure(files.error()));
    std::vector<TableRow> rows;
    std::optional<FoundCheckpoint> last;
    for (const std::string& path : options.checkpoints) {
        auto found = find_checkpoint(path);
        if (!found) return peer::report(peer::failure(found.error()));
        auto row = tune_model(*found, *files, options, false);
        if (!row) return peer::report(peer::failure(row.error()));
        rows.push_back(*std::move(row));
        last = *std::move(found);
    }
    if (options.random && last) {
        auto row = tune_model(*last, *files, options, true);
        if (!row) return peer::report(peer::failure(row.error()));
        rows.push_back(*std::move(row));
    }
    if (options.task != "ner")
        for (const bool majority : {false, true})
            rows.push_back(bag_of_words_row(*files, options, majority));
    if (!options.json) {
        say_table(rows, options);
        return 0;
    }
    nlohmann::ordered_json json{
        {"ok", true}, {"task", options.task}, {"data", options.data}, {"seeds", options.seeds}};
    json["rows"] = nlohmann::ordered_json::array();
    for (const TableRow& row : rows) json["rows"].push_back(row_json(row));
    peer::say(stdout, "{}\n", monitor::json_line(json));
    return 0;
}

}  // namespace dedloc::cli
