#include "experiments/downstream.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sys/resource.h>
#include <thread>

#include "dedloc/base/file.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/text/cache.h"

#include "experiments/downstream_data.h"
#include "tests/common/exit_codes.h"
#include "tests/process/peer_process.h"
#include "tests/process/process_folder.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t peers_of_run = 3;
constexpr std::size_t tunings_at_once = 2;  // a process each, with one thread
constexpr double string_timeout_s = 120;    // the tokenizer is trained before
constexpr double training_timeout_s = 1800;
constexpr double tuning_timeout_s = 3600;
constexpr double say_every_s = 5;
constexpr std::size_t output_bytes_max = 1u << 20;
constexpr auto downstream_glance = std::chrono::milliseconds(100);

constexpr double verses_accuracy_least = 0.81;
constexpr double names_gain_least = 0.10;

double downstream_now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

double processor_s_of_children() {
    rusage used{};
    ::getrusage(RUSAGE_CHILDREN, &used);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// A collaboration that pre-trains.
struct Pretraining {
    std::string name;
    std::string data;         // of [task]
    std::string tokenizer{};  // further keys of it
    int vocabulary = 0;
    int layers = 0;
    double peak = 0;  // of the learning rate
    int steps = 0;
};

const Pretraining bengali{.name = "bengali",
                          .data =
                              "text:verses.txt?weight=0.77&documents=paragraph&sentences=line, "
                              "text:topics.txt?weight=0.23&documents=line",
                          .tokenizer = "&rules=bengali&split_digits=true",
                          .vocabulary = 8192,
                          .layers = 2,
                          .peak = 0.003,
                          .steps = 400};
// Contexts are learnt late: after 500 steps of two layers a model knew little but how often words
// come. A rate of 0.003 holds four layers up.
const Pretraining english{.name = "english",
                          .data = "kjv",
                          .vocabulary = 2048,
                          .layers = 4,
                          .peak = 0.002,
                          .steps = 2000};

std::string run_text(const Pretraining& training) {
    return fmt::format(R"(name = "{0}"
[task]
kind = "albert"
model = "albert"
data = "{1}"
[albert]
vocabulary = {4}
embedding = 64
hidden = 64
layers = {5}
heads = 4
feed_forward = 256
positions = 64
classifier_dropout = 0.0
[text]
tokenizer = "vocabulary={4}&normalization=nmt_nfkc_cf{2}"
length = 64
held_out_samples = 64
window_samples = 1024
[batch]
target = 64
micro = 8
[optimizer]
kind = "adamw"
weight_decay = 0.01
[schedule]
kind = "linear"
peak = {6}
warmup_steps = 50
total_steps = {3}
[averaging]
round_deadline_min = "2s"
round_deadline_max = "60s"
quorum_timeout = "60s"
[stop]
steps = {3}
[checkpoint]
every = {3}
[evaluate]
every = 100
)",
                       training.name,
                       training.data,
                       training.tokenizer,
                       training.steps,
                       training.vocabulary,
                       training.layers,
                       training.peak);
}

// A row of the table.
struct DownstreamRow {
    std::string name;
    const Pretraining* from = nullptr;
    std::vector<std::string> options;  // of `dedloc finetune`
};

const std::vector<DownstreamRow>& all_rows() {
    static const std::vector<DownstreamRow> rows = {{"verses",
                                                     &bengali,
                                                     {"--task",
                                                      "classification",
                                                      "--length",
                                                      "64",
                                                      "--rate",
                                                      "1e-3",
                                                      "--batch",
                                                      "64",
                                                      "--epochs",
                                                      "3"}},
                                                    {"names",
                                                     &english,
                                                     {"--task",
                                                      "ner",
                                                      "--split",
                                                      "names",
                                                      "--train-max",
                                                      "400",
                                                      "--length",
                                                      "64",
                                                      "--rate",
                                                      "1e-3",
                                                      "--batch",
                                                      "32",
                                                      "--epochs",
                                                      "20",
                                                      "--patience",
                                                      "20"}},
                                                    {"topics",
                                                     &bengali,
                                                     {"--task",
                                                      "classification",
                                                      "--length",
                                                      "32",
                                                      "--rate",
                                                      "2e-3",
                                                      "--batch",
                                                      "32",
                                                      "--epochs",
                                                      "20"}}};
    return rows;
}

constexpr std::size_t names_one_in = 3;

Result<std::string> write_row(const std::string& name, const std::string& folder) {
    if (name == "verses") return write_verses(folder);
    if (name == "topics") return write_topics(folder);
    return write_names(folder, names_one_in);
}

// `dedloc finetune` at work on a row.
struct Tuning {
    const DownstreamRow* row = nullptr;
    std::string output;  // its files, without their ends
    std::optional<runtime::ChildProcess> process{};
    std::size_t lines_told = 0;
    double began_s = 0;
    double seconds = 0;
};

class Downstream {
  public:
    Downstream(const DownstreamCommand& command, std::string program, std::string folder)
        : command_(command), program_(std::move(program)), folder_(std::move(folder)) {}

    Ok run();
    bool holds() const { return problems_.empty(); }
    const std::vector<std::string>& problems() const { return problems_; }
    nlohmann::ordered_json result() const;

  private:
    bool is_wanted(const std::string& name) const {
        return command_.rows.empty() ||
               std::ranges::find(command_.rows, name) != command_.rows.end();
    }
    Ok write_data();
    Ok pretrain(const Pretraining& training);
    Ok train_to_the_end(const Pretraining& training,
                        std::vector<std::unique_ptr<PeerProcess>>& peers);
    Ok tune_all();
    Ok begin(Tuning& tuning);
    void tell_lines(Tuning& tuning) const;
    Ok end(Tuning& tuning);
    void judge(const std::string& row, const nlohmann::ordered_json& models);

    const DownstreamCommand& command_;
    std::string program_;
    std::string folder_;
    double began_s_ = downstream_now_s();
    std::map<std::string, std::string> files_;        // labelled, by row
    std::map<std::string, std::string> checkpoints_;  // by pre-training
    nlohmann::ordered_json trainings_ = nlohmann::ordered_json::array();
    nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
    std::vector<std::string> problems_;
};

Ok Downstream::write_data() {
    for (const DownstreamRow& row : all_rows()) {
        // The names of emoji are text for the verses' model, too.
        const bool is_text = row.name == "topics" && is_wanted("verses");
        const bool is_text_too = row.name == "verses" && is_wanted("topics");
        if (!is_wanted(row.name) && !is_text && !is_text_too) continue;
        DEDLOC_TRY(files_[row.name], write_row(row.name, folder_));
    }
    return {};
}

// ---- pre-training -------------------------------------------------------------------------------

Ok Downstream::pretrain(const Pretraining& training) {
    const double began = downstream_now_s();
    const std::string folder = folder_ + "/" + training.name;
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    const std::string run_file = folder + "/run.toml";
    std::ofstream(run_file) << run_text(training);
    const std::string text = folder_ + "/text";
    std::filesystem::create_directories(text, error);
    std::vector<std::unique_ptr<PeerProcess>> peers;
    DEDLOC_TRY(auto host,
               PeerProcess::start(program_, {"host", run_file, "--data", text}, folder, "peer-1"));
    peers.push_back(std::move(host));
    while (peers.front()->join_string().empty()) {
        if (!peers.front()->process().running() || downstream_now_s() - began > string_timeout_s)
            return make_error(ErrorKind::local_fault,
                              "the host of {} gave no join string: {}",
                              training.name,
                              peers.front()->last_error());
        std::this_thread::sleep_for(downstream_glance);
    }
    const std::string join = peers.front()->join_string();
    for (std::size_t number = 2; number <= peers_of_run; ++number) {
        DEDLOC_TRY(
            auto peer,
            PeerProcess::start(
                program_, {"join", join, "--data", text}, folder, fmt::format("peer-{}", number)));
        peers.push_back(std::move(peer));
    }
    DEDLOC_TRY_VOID(train_to_the_end(training, peers));
    checkpoints_[training.name] = peers.front()->directory();
    std::uint64_t members = 0;
    double samples = 0;
    for (const StepSeen& step : peers.front()->steps()) {
        members = std::max(members, step.members);
        samples += step.samples;
    }
    if (members != peers_of_run)
        problems_.push_back(fmt::format("{} was trained by {} peers", training.name, members));
    trainings_.push_back({{"text", training.name},
                          {"peers", members},
                          {"steps", peers.front()->step()},
                          {"samples", samples},
                          {"loss", peers.front()->steps().back().loss},
                          {"seconds", downstream_now_s() - began}});
    return {};
}

// The peers end by themselves where the run file says.
Ok Downstream::train_to_the_end(const Pretraining& training,
                                std::vector<std::unique_ptr<PeerProcess>>& peers) {
    const double began = downstream_now_s();
    double told = began;
    const auto runs = [](const auto& peer) { return peer->process().running(); };
    while (std::ranges::any_of(peers, runs)) {
        for (const auto& peer : peers) (void)peer->poll();
        const PeerProcess& host = *peers.front();
        if (downstream_now_s() - told > say_every_s) {
            told = downstream_now_s();
            fmt::print(stderr,
                       "{}: step {} of {}, loss {:.2f}, {:.0f} s\n",
                       training.name,
                       host.step(),
                       training.steps,
                       host.steps().empty() ? 0.0 : host.steps().back().loss,
                       told - began);
        }
        if (told - began > training_timeout_s)
            return make_error(ErrorKind::timeout,
                              "{} was not pre-trained after {:.0f} s",
                              training.name,
                              training_timeout_s);
        std::this_thread::sleep_for(downstream_glance);
    }
    for (const auto& peer : peers) {
        (void)peer->poll();
        if (peer->process().end()->exit_code != 0)
            return make_error(ErrorKind::local_fault,
                              "{} of {} failed: {}",
                              peer->name(),
                              training.name,
                              peer->last_error());
    }
    return {};
}

// ---- fine-tuning --------------------------------------------------------------------------------

Ok Downstream::begin(Tuning& tuning) {
    std::vector<std::string> words = {program_,
                                      "finetune",
                                      checkpoints_.at(tuning.row->from->name),
                                      "--data",
                                      files_.at(tuning.row->name),
                                      "--corpus",
                                      folder_ + "/text",
                                      "--seeds",
                                      "5",
                                      "--random",
                                      "--threads",
                                      "1",
                                      "--json"};
    std::ranges::copy(tuning.row->options, std::back_inserter(words));
    tuning.output = folder_ + "/finetune-" + tuning.row->name;
    tuning.began_s = downstream_now_s();
    const runtime::ChildOptions options{.command = std::move(words),
                                        .output_file = tuning.output + ".out",
                                        .error_file = tuning.output + ".err",
                                        .niceness = 0};
    DEDLOC_TRY(runtime::ChildProcess process, runtime::ChildProcess::start(options));
    tuning.process.emplace(std::move(process));
    return {};
}

// Passes on what the process has said since.
void Downstream::tell_lines(Tuning& tuning) const {
    std::ifstream file(tuning.output + ".err");
    std::size_t number = 0;
    for (std::string line; std::getline(file, line) && !file.eof(); ++number) {
        if (number < tuning.lines_told) continue;
        const std::size_t place = line.find(folder_);
        if (place != std::string::npos)
            line.replace(place, line.find(", step") - place, "pre-trained");
        fmt::print(stderr, "{}: {}\n", tuning.row->name, line);
        ++tuning.lines_told;
    }
}

Ok Downstream::tune_all() {
    std::vector<Tuning> tunings;
    for (const DownstreamRow& row : all_rows())
        if (is_wanted(row.name)) tunings.push_back({.row = &row, .output = {}});
    std::size_t next = 0;
    std::size_t ended = 0;
    const double began = downstream_now_s();
    while (ended < tunings.size()) {
        if (next < tunings.size() && next - ended < tunings_at_once)
            DEDLOC_TRY_VOID(begin(tunings[next++]));
        for (Tuning& tuning : tunings) {
            if (!tuning.process) continue;
            const bool is_over = !tuning.process->running();
            tell_lines(tuning);
            if (!is_over) continue;
            tuning.seconds = downstream_now_s() - tuning.began_s;
            DEDLOC_TRY_VOID(end(tuning));
            ++ended;
        }
        if (downstream_now_s() - began > tuning_timeout_s)
            return make_error(
                ErrorKind::timeout, "fine-tuning took more than {:.0f} s", tuning_timeout_s);
        std::this_thread::sleep_for(downstream_glance);
    }
    return {};
}

Ok Downstream::end(Tuning& tuning) {
    const int code = tuning.process->end()->exit_code;
    tuning.process.reset();
    if (code != 0) {
        const auto said = base::read_file(tuning.output + ".err", output_bytes_max);
        return make_error(ErrorKind::local_fault,
                          "dedloc finetune failed on {}: {}",
                          tuning.row->name,
                          said ? *said : "no word");
    }
    DEDLOC_TRY(const std::string text, base::read_file(tuning.output + ".out", output_bytes_max));
    const auto told = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!told.is_object() || !told.contains("rows"))
        return make_error(ErrorKind::local_fault, "dedloc finetune printed {}", text);
    nlohmann::ordered_json models;
    for (const auto& model : told.at("rows")) {
        const auto name = model.at("model").get<std::string>();
        nlohmann::ordered_json spread{
            {"mean", model.at("mean")}, {"std", model.at("std")}, {"scores", model.at("scores")}};
        models[name.starts_with(folder_) ? "pre-trained" : name] = std::move(spread);
    }
    judge(tuning.row->name, models);
    rows_.push_back({{"row", tuning.row->name},
                     {"measure", told.at("task") == "ner" ? "entity F1" : "accuracy"},
                     {"models", std::move(models)},
                     {"seconds", tuning.seconds}});
    return {};
}

void Downstream::judge(const std::string& row, const nlohmann::ordered_json& models) {
    const auto mean = [&](const char* model) { return models.at(model).at("mean").get<double>(); };
    if (row == "verses" && mean("pre-trained") < verses_accuracy_least)
        problems_.push_back(fmt::format("verses: the pre-trained model is right on {:.3f}, not {}",
                                        mean("pre-trained"),
                                        verses_accuracy_least));
    if (row == "names" && mean("pre-trained") < mean("random initialisation") + names_gain_least)
        problems_.push_back(fmt::format("names: F1 is {:.3f} pre-trained and {:.3f} at random",
                                        mean("pre-trained"),
                                        mean("random initialisation")));
}

Ok Downstream::run() {
    DEDLOC_TRY_VOID(write_data());
    for (const Pretraining* training : {&bengali, &english}) {
        const bool is_needed = std::ranges::any_of(all_rows(), [&](const DownstreamRow& row) {
            return row.from == training && is_wanted(row.name);
        });
        if (is_needed) DEDLOC_TRY_VOID(pretrain(*training));
    }
    return tune_all();
}

nlohmann::ordered_json Downstream::result() const {
    return {{"ok", holds()},
            {"rows", rows_},
            {"pretraining", trainings_},
            {"seconds", downstream_now_s() - began_s_},
            {"processor_seconds", processor_s_of_children()},
            {"problems", problems_}};
}

void print_table(const nlohmann::ordered_json& result) {
    for (const auto& row : result.at("rows")) {
        fmt::print(
            "{} ({})\n", row.at("row").get<std::string>(), row.at("measure").get<std::string>());
        for (const auto& [model, spread] : row.at("models").items())
            fmt::print("  {:.4f} ± {:.4f}  {}\n",
                       spread.at("mean").get<double>(),
                       spread.at("std").get<double>(),
                       model);
    }
}

}  // namespace

std::vector<std::string> downstream_row_names() {
    std::vector<std::string> names;
    for (const DownstreamRow& row : all_rows()) names.push_back(row.name);
    return names;
}

int run_downstream(const DownstreamCommand& command) {
    const auto folder = process_folder(command.directory, "downstream");
    if (!folder) return exit_after(folder.error());
    Downstream downstream(
        command, command.program.empty() ? dedloc_program() : command.program, *folder);
    const Ok ran = downstream.run();
    end_process_folder(*folder, !ran || !command.directory.empty());
    if (!ran) return exit_after(ran.error());
    for (const std::string& problem : downstream.problems())
        fmt::print(stderr, "dedloc-lab downstream: {}\n", problem);
    const nlohmann::ordered_json result = downstream.result();
    if (command.json)
        fmt::print("{}\n", monitor::json_line(result));
    else
        print_table(result);
    return downstream.holds() ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
