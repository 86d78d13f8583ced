#include "experiments/language_mini.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "dedloc/base/file.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/runtime/child_process.h"
#include "dedloc/runtime/heap.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/training_task.h"

#include "experiments/mini_collaboration.h"
#include "tests/common/exit_codes.h"
#include "tests/process/peer_process.h"
#include "tests/process/process_folder.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t language_peers = 4;  // at first
constexpr std::size_t killed_peer = 2;     // from 0
constexpr double bits_bound = 2.3;
constexpr double loss_ratio_bound = 1.01;
constexpr int language_threads = 1;  // of one process alone: others may be at work here
constexpr std::uint64_t told_every = 25;
constexpr double string_timeout_s = 300;  // the tokenizer is trained before
constexpr double training_timeout_s = 1800;
constexpr double command_timeout_s = 300;
constexpr std::size_t said_bytes_max = 1u << 20;
constexpr auto language_glance = std::chrono::milliseconds(50);

// The model is that of `dedloc init language_model --size tiny`; the text comes through the run.
std::string language_run(const LanguageMiniCommand& command, std::uint64_t checkpoint_every) {
    return fmt::format(R"(name = "language-mini"
[task]
kind = "language_model"
model = "llama"
data = "kjv"
[language_model]
vocabulary = 2048
hidden = 128
layers = 4
heads = 4
key_value_heads = 2
feed_forward = 352
positions = 256
[text]
tokenizer = "kind=byte_bpe&vocabulary=2048"
length = 128
held_out = 0.03
held_out_samples = 128
window_samples = 512
[data]
source = "run"
licence = "public domain outside the United Kingdom"
origin = "the King James Bible, Debian's package bible-kjv"
[batch]
target = 16
micro = 4
[optimizer]
kind = "adamw"
weight_decay = 0.1
beta2 = 0.95
gradient_norm_max = 1.0
[schedule]
kind = "cosine"
peak = {0}
warmup_steps = {1}
total_steps = {2}
final_fraction = 0.1
[averaging]
round_deadline_min = "2s"
round_deadline_max = "60s"
quorum_timeout = "10s"
[stop]
steps = {2}
[checkpoint]
every = {3}
[evaluate]
every = 0
)",
                       command.rate,
                       std::max<std::uint64_t>(command.steps / 20, 1),
                       command.steps,
                       checkpoint_every);
}

double language_now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// A program with --json says its result last.
Result<nlohmann::json> last_words_in(const std::string& path) {
    DEDLOC_TRY(std::string text, base::read_file(path, said_bytes_max));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const std::size_t begin = text.rfind('\n') + 1;  // npos + 1 is the beginning
    auto words = nlohmann::json::parse(text.substr(begin), nullptr, /*allow_exceptions=*/false);
    if (words.is_object()) return words;
    return make_error(ErrorKind::conflict, "{} has no JSON object on its last line", path);
}

// The peers, from the host's start to everybody's end.
class LanguageRun {
  public:
    LanguageRun(const LanguageMiniCommand& command, std::string folder)
        : command_(command),
          program_(command.program.empty() ? dedloc_program() : command.program),
          folder_(std::move(folder)) {}

    Ok train();
    // Runs `dedloc` with the host's cache; returns what it said.
    Result<nlohmann::json> ask(std::vector<std::string> words, const std::string& name) const;
    // The host's checkpoint of that step, or the first after it.
    Result<std::string> checkpoint(std::uint64_t step) const;

    std::uint64_t checkpoint_every() const {
        return std::max<std::uint64_t>(command_.steps / 4, 1);
    }
    std::string run_text() const { return language_run(command_, checkpoint_every()); }
    const std::string& host() const { return peers_.front()->directory(); }
    const nlohmann::json& hosts_words() const { return hosts_words_; }
    const std::set<std::string>& hashes() const { return final_hashes_; }
    std::uint64_t different() const { return different_; }
    const std::vector<std::string>& done() const { return done_; }

  private:
    Ok start(std::vector<std::string> words);
    Ok join() { return start({"join", peers_.front()->join_string(), "--yes"}); }
    Ok poll();
    Ok act(std::uint64_t step);
    Ok wait_for_join_string();
    Ok wait_for_ends();
    Ok hear_last_words();
    std::string cache_of(const std::string& name) const {
        return fmt::format("XDG_CACHE_HOME={}/cache-{}", folder_, name);
    }
    void tell(std::uint64_t step, const std::string& what) {
        done_.push_back(fmt::format("step {}: {}", step, what));
        fmt::print(stderr, "together  step {:>4}  {}\n", step, what);
    }

    const LanguageMiniCommand& command_;
    std::string program_;
    std::string folder_;
    std::vector<std::unique_ptr<PeerProcess>> peers_;
    std::map<std::uint64_t, std::string> seen_;  // state hashes, by step
    std::uint64_t different_ = 0;                // steps after which somebody's was another
    std::set<std::string> final_hashes_;
    nlohmann::json hosts_words_;
    std::vector<std::string> done_;
    bool killed_ = false;
    bool joined_ = false;
};

// Everybody has a cache of their own: what one of them has, no other finds there.
Ok LanguageRun::start(std::vector<std::string> words) {
    const std::string name = fmt::format("peer-{}", peers_.size() + 1);
    PeerPlace place;
    place.prefix = {"/usr/bin/env", cache_of(name)};
    DEDLOC_TRY(auto peer, PeerProcess::start(program_, std::move(words), folder_, name, place));
    peers_.push_back(std::move(peer));
    return {};
}

Ok LanguageRun::poll() {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        PeerProcess& peer = *peers_[i];
        const std::size_t before = peer.steps().size();
        (void)peer.poll();
        different_ += peer.differing_steps(before, seen_).size();
        const bool is_killed = killed_ && i == killed_peer;
        if (is_killed || peer.process().running()) continue;
        if (const auto end = peer.process().end(); end && end->exit_code == 0 && end->signal == 0)
            continue;
        return make_error(
            ErrorKind::conflict, "{} ended by itself: {}", peer.name(), peer.last_error());
    }
    return {};
}

Ok LanguageRun::act(std::uint64_t step) {
    if (!killed_ && step >= command_.steps / 4) {
        killed_ = true;
        tell(step, peers_[killed_peer]->name() + " is killed");
        peers_[killed_peer]->process().kill_group();
    }
    if (!joined_ && step >= command_.steps / 2) {
        joined_ = true;
        DEDLOC_TRY_VOID(join());
        tell(step, peers_.back()->name() + " joins");
    }
    return {};
}

Ok LanguageRun::wait_for_join_string() {
    const double until = language_now_s() + string_timeout_s;
    while (peers_.front()->join_string().empty()) {
        DEDLOC_TRY_VOID(poll());
        if (language_now_s() > until)
            return make_error(ErrorKind::timeout, "the host gave no join string");
        std::this_thread::sleep_for(language_glance);
    }
    return {};
}

Ok LanguageRun::wait_for_ends() {
    const double begun = language_now_s();
    std::uint64_t told = 0;
    const auto runs = [](const auto& peer) { return peer->process().running(); };
    while (std::ranges::any_of(peers_, runs)) {
        DEDLOC_TRY_VOID(poll());
        const PeerProcess& host = *peers_.front();
        DEDLOC_TRY_VOID(act(host.step()));
        const double seconds = language_now_s() - begun;
        if (host.step() >= told + told_every) {
            told = host.step();
            fmt::print(stderr,
                       "together  step {:>4}  loss {:.3f}  {:.0f} s\n",
                       told,
                       host.steps().back().loss,
                       seconds);
        }
        if (seconds > training_timeout_s)
            return make_error(ErrorKind::timeout, "only {} steps were made", host.step());
        std::this_thread::sleep_for(language_glance);
    }
    return poll();
}

Ok LanguageRun::hear_last_words() {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        if (i == killed_peer) continue;
        DEDLOC_TRY(nlohmann::json words, last_words_in(peers_[i]->directory() + ".out"));
        final_hashes_.insert(words.value("state_hash", "none"));
        if (i == 0) hosts_words_ = std::move(words);
    }
    return {};
}

Ok LanguageRun::train() {
    const std::string file = folder_ + "/run.toml";
    std::ofstream(file) << run_text();
    DEDLOC_TRY_VOID(start({"host", file, "--keep-checkpoints", "8"}));
    DEDLOC_TRY_VOID(wait_for_join_string());
    while (peers_.size() < language_peers) DEDLOC_TRY_VOID(join());
    DEDLOC_TRY_VOID(wait_for_ends());
    if (!joined_) return make_error(ErrorKind::conflict, "the run ended before anybody joined");
    return hear_last_words();
}

Result<nlohmann::json> LanguageRun::ask(std::vector<std::string> words,
                                        const std::string& name) const {
    const std::string out = folder_ + "/" + name;
    words.insert(words.begin(), {"/usr/bin/env", cache_of("peer-1"), program_});
    words.emplace_back("--json");
    const runtime::ChildOptions options{
        .command = std::move(words), .output_file = out + ".out", .error_file = out + ".err"};
    DEDLOC_TRY(auto child, runtime::ChildProcess::start(options));
    if (child.wait_for(command_timeout_s) && child.end()->exit_code == 0)
        return last_words_in(out + ".out");
    const auto said = base::read_file(out + ".err", said_bytes_max);
    return make_error(ErrorKind::conflict, "dedloc {}: {}", name, said ? *said : "no word");
}

Result<std::string> LanguageRun::checkpoint(std::uint64_t step) const {
    std::set<std::string> names;  // in the order of their steps
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(host() + "/checkpoints", error))
        names.insert(entry.path().filename().string());
    const auto found = names.lower_bound(fmt::format("step-{:012}-", step));
    if (found != names.end()) return host() + "/checkpoints/" + *found;
    return make_error(ErrorKind::conflict, "the host kept no checkpoint of step {}", step);
}

// Trains the run's model in this process alone and measures it at the end; if it tells, also every
// told_every steps, and then the end is the first of these from `steps` on.
Result<std::vector<tasks::Measure>> measured_alone(const run::RunFile& run,
                                                   std::uint64_t steps,
                                                   bool tells) {
    runtime::keep_freed_memory();  // as dedloc does
    const tasks::TaskOptions options{.device = "cpu", .threads_count = language_threads};
    DEDLOC_TRY(const auto task, tasks::make_task(run.task, options));
    const double begun = language_now_s();
    std::vector<tasks::Measure> measures;
    const auto look = [&](std::uint64_t step, std::span<const float> parameters) -> Result<bool> {
        const bool over = step >= steps;
        if (!over && !tells) return false;
        DEDLOC_TRY(measures, task->measure(parameters, {}, 0));
        fmt::print(stderr,
                   "alone     step {:>4}  loss {:.3f}  bits per byte {:.3f}  {:.0f} s\n",
                   step,
                   tasks::value_of(measures, "token_loss"),
                   tasks::value_of(measures, "bits_per_byte"),
                   language_now_s() - begun);
        return over;
    };
    const std::uint64_t poll_every = tells ? told_every : steps;
    DEDLOC_TRY_VOID(train_alone(run, *task, poll_every, look));
    return measures;
}

Result<nlohmann::ordered_json> texts_of(const LanguageRun& run,
                                        const LanguageMiniCommand& command) {
    const std::uint64_t every = run.checkpoint_every();
    nlohmann::ordered_json texts = nlohmann::ordered_json::array();
    for (const std::uint64_t step : {every, 2 * every, command.steps}) {
        DEDLOC_TRY(const std::string checkpoint, run.checkpoint(step));
        std::vector<std::string> words = {"sample", checkpoint, "--prompt", command.prompt};
        for (const char* word : {"--tokens", "60", "--temperature", "0.7", "--seed", "1"})
            words.emplace_back(word);
        DEDLOC_TRY(const auto said, run.ask(std::move(words), fmt::format("sample-{}", step)));
        texts.push_back({{"step", said.at("step")}, {"text", said.at("texts").at(0).at("text")}});
    }
    return texts;
}

Result<nlohmann::ordered_json> alone_outcome(const LanguageMiniCommand& command) {
    DEDLOC_TRY(const run::RunFile run,
               run::parse_run_file(language_run(command, command.steps), "language-mini"));
    const double begun = language_now_s();
    DEDLOC_TRY(const auto alone, measured_alone(run, command.steps, true));
    return nlohmann::ordered_json{{"ok", true},
                                  {"bits_per_byte_alone", tasks::value_of(alone, "bits_per_byte")},
                                  {"loss_alone", tasks::value_of(alone, "token_loss")},
                                  {"steps", command.steps},
                                  {"seconds_alone", language_now_s() - begun}};
}

Result<nlohmann::ordered_json> outcome(const LanguageMiniCommand& command,
                                       const std::string& folder) {
    LanguageRun run(command, folder);
    const double begun = language_now_s();
    DEDLOC_TRY_VOID(run.train());
    const double trained = language_now_s();
    DEDLOC_TRY(const nlohmann::json together, run.ask({"eval", run.host()}, "eval"));
    DEDLOC_TRY(auto texts, texts_of(run, command));
    const auto samples = run.hosts_words().at("samples").get<double>();
    DEDLOC_TRY(run::RunFile run_alone, run::parse_run_file(run.run_text(), "language-mini"));
    run_alone.batch.target =
        static_cast<std::uint64_t>(std::llround(samples / static_cast<double>(command.steps)));
    const double alone_begun = language_now_s();
    DEDLOC_TRY(const auto alone, measured_alone(run_alone, command.steps, false));
    const double alone_ended = language_now_s();
    const auto bits = together.at("bits_per_byte").get<double>();
    const auto loss = together.at("token_loss").get<double>();
    const double loss_alone = tasks::value_of(alone, "token_loss");
    const bool identical =
        run.hashes().size() == 1 && !run.hashes().contains("none") && run.different() == 0;
    const bool held = all_hold("language-mini",
                               {at_most("bits_per_byte", bits, bits_bound),
                                at_most("ratio", loss / loss_alone, loss_ratio_bound)}) &
                      is_identical("language-mini", identical);
    return nlohmann::ordered_json{
        {"ok", held},
        {"bits_per_byte", bits},
        {"bits_per_byte_alone", tasks::value_of(alone, "bits_per_byte")},
        {"loss", loss},
        {"loss_alone", loss_alone},
        {"ratio", loss / loss_alone},
        {"samples", samples},
        {"steps", command.steps},
        {"churn", run.done()},
        {"state_hashes", run.hashes().size()},
        {"steps_different", run.different()},
        {"host_sent_mb", run.hosts_words().value("data_bytes_sent", 0.0) / 1e6},
        {"texts", std::move(texts)},
        {"seconds", trained - begun},
        {"seconds_alone", alone_ended - alone_begun}};
}

Result<nlohmann::ordered_json> together_outcome(const LanguageMiniCommand& command) {
    DEDLOC_TRY(const std::string folder, process_folder(command.directory, "language-mini"));
    auto json = outcome(command, folder);
    end_process_folder(folder, !command.directory.empty() || !json);
    return json;
}

}  // namespace

int run_language_mini(const LanguageMiniCommand& command) {
    const auto json = command.alone ? alone_outcome(command) : together_outcome(command);
    if (!json) return exit_after(json.error());
    fmt::print("{}\n", command.json ? monitor::json_line(*json) : json->dump(2));
    return json->at("ok").get<bool>() ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
