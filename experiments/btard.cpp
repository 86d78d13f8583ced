#include "experiments/btard.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "dedloc/monitor/json_line.h"
#include "dedloc/torch_bridge/device.h"

#include "experiments/btard_albert.h"
#include "experiments/btard_run.h"
#include "experiments/btard_svg.h"
#include "tests/common/exit_codes.h"

namespace dedloc::lab {
namespace {

// This network learns so without attackers; a run may be this far from it.
constexpr double clean_accuracy[] = {0.805, 0.828, 0.850};  // after 200, 300, 700 steps
constexpr double broken_accuracy = 0.10;                    // of the mean, under sign flips
constexpr double accuracy_band = 0.03;
constexpr double lost_by_attack_max = 0.02;
constexpr double loss_jump_max = 2;
constexpr double local_loss_jump_max = 3;  // a round is worth several steps

struct BtardJob {
    Attack attack;
    BtardReducer reducer;
    bool of_few = false;
};

// Where nothing is asked for: robust under every attack, and the mean without one and under sign
// flips, which is what fits into a quarter of an hour on two cores.
bool is_usual(Attack attack, BtardReducer reducer) {
    if (is_on_few(attack)) return reducer == BtardReducer::robust;
    if (reducer == BtardReducer::robust) return true;
    return reducer == BtardReducer::mean && (attack == Attack::none || attack == Attack::sign_flip);
}

// Attacks on what is handed in after inner steps, and both reducers without one.
std::vector<BtardJob> local_jobs(const BtardCommand& command) {
    std::vector<BtardJob> jobs{{Attack::none, BtardReducer::mean},
                               {Attack::none, BtardReducer::robust}};
    for (const Attack attack : attacks)
        if (attack != Attack::none && is_on_sums(attack) &&
            (command.attack.empty() || name_of(attack) == command.attack))
            jobs.push_back({attack, BtardReducer::robust});
    return jobs;
}

bool has_attack(const BtardCommand& command) {
    return !command.local || command.attack.empty() ||
           std::ranges::any_of(attacks, [&](Attack attack) {
               return is_on_sums(attack) && name_of(attack) == command.attack;
           });
}

std::vector<BtardJob> jobs_of(const BtardCommand& command) {
    if (command.local) return local_jobs(command);
    std::vector<BtardJob> jobs;
    const bool usual = command.attack.empty() && command.reducers.empty();
    const auto wanted = [&](BtardReducer reducer) {
        return command.reducers.empty() ||
               std::ranges::find(command.reducers, name_of(reducer)) != command.reducers.end();
    };
    for (const Attack attack : attacks)
        for (const BtardReducer reducer : btard_reducers) {
            // Every attack is compared with none.
            const bool compared = attack == Attack::none && reducer == BtardReducer::robust;
            const bool asked = usual ? is_usual(attack, reducer)
                                     : command.attack.empty() || name_of(attack) == command.attack;
            const bool few = is_on_few(attack);
            if (command.few && !few) continue;
            if ((asked || compared) && wanted(reducer)) jobs.push_back({attack, reducer, few});
        }
    if (std::ranges::any_of(jobs, &BtardJob::of_few))
        jobs.insert(jobs.begin(), {Attack::none, BtardReducer::robust, true});
    return jobs;
}

void tell_row(const BtardRow& row, const BtardCommand& command) {
    fmt::print(stderr,
               "{:<20} {:<18} {:.3f} {:.3f} {:.3f}  banned {} of {}, honest {}{}; loss × {:.2f} at "
               "most; {:.0f} s\n",
               name_of(row.attack),
               name_of(row.reducer),
               row.at(command.local ? command.attack_from : 200),
               row.at(command.local ? command.attack_from : 300),
               row.at(command.steps),
               row.banned,
               row.attackers,
               row.honest_banned,
               row.last_ban ? fmt::format(", the last at step {}", *row.last_ban) : std::string(),
               row.loss_jump,
               row.seconds);
}

// On so many threads; rows in the order of the jobs.
Result<std::vector<BtardRow>> run_jobs(const BtardCommand& command,
                                       const std::shared_ptr<const tasks::FashionMnist>& data,
                                       const std::vector<BtardJob>& jobs) {
    std::vector<std::optional<Result<BtardRow>>> rows(jobs.size());
    std::atomic<std::size_t> next{0};
    std::mutex telling;
    const auto work = [&] {
        for (std::size_t i = next++; i < jobs.size(); i = next++) {
            rows[i].emplace(
                run_btard_row(command, data, jobs[i].attack, jobs[i].reducer, jobs[i].of_few));
            const std::lock_guard lock(telling);
            if (*rows[i]) tell_row(**rows[i], command);
        }
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < command.threads; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    std::vector<BtardRow> all;
    for (auto& row : rows) {
        if (!*row) return std::move(*row).error();
        all.push_back(**std::move(row));
    }
    return all;
}

const BtardRow* find_row(const std::vector<BtardRow>& rows,
                         Attack attack,
                         BtardReducer reducer,
                         bool of_few = false) {
    for (const BtardRow& row : rows)
        if (row.attack == attack && row.reducer == reducer && row.of_few == of_few) return &row;
    return nullptr;
}

bool near(const char* what, double value, double wanted) {
    if (std::abs(value - wanted) <= accuracy_band) return true;
    fmt::print(
        stderr, "btard: {} is {:.3f}, not {:.3f} ± {}\n", what, value, wanted, accuracy_band);
    return false;
}

// Where local updates without attack have two rows, the better one is the clean one.
double clean_accuracy_of(const std::vector<BtardRow>& rows,
                         const BtardCommand& command,
                         const BtardRow& robust) {
    const BtardRow* const mean = find_row(rows, Attack::none, BtardReducer::mean);
    const double alone = robust.at(command.steps);
    return command.local && mean != nullptr ? std::max(alone, mean->at(command.steps)) : alone;
}

bool baselines_hold(const std::vector<BtardRow>& rows, const BtardCommand& command) {
    bool held = true;
    if (command.local) return held;  // what they are is compared with
    if (const BtardRow* clean = find_row(rows, Attack::none, BtardReducer::mean)) {
        held &= near("the mean without attack at 200", clean->at(200), clean_accuracy[0]);
        held &= near("the mean without attack at 300", clean->at(300), clean_accuracy[1]);
        held &=
            near("the mean without attack at the end", clean->at(command.steps), clean_accuracy[2]);
    }
    if (const BtardRow* broken = find_row(rows, Attack::sign_flip, BtardReducer::mean))
        held &= near("the mean under sign flips", broken->at(command.steps), broken_accuracy);
    return held;
}

bool robust_rows_hold(const std::vector<BtardRow>& rows, const BtardCommand& command) {
    bool held = true;
    for (const BtardRow& row : rows) {
        held &= is_identical("btard", row.identical);
        if (row.reducer != BtardReducer::robust) continue;
        const std::size_t wanted = row.attackers;
        if (row.banned != wanted || row.honest_banned != 0) {
            fmt::print(stderr,
                       "btard: under {} {} of {} attackers and {} others are banned\n",
                       name_of(row.attack),
                       row.banned,
                       wanted,
                       row.honest_banned);
            held = false;
        }
        // Attackers that flip labels tell the loss of those.
        if (!command.local || row.attack != Attack::label_flip)
            held &=
                all_hold("btard",
                         {at_most(fmt::format("the loss of a step under {}", name_of(row.attack)),
                                  row.loss_jump,
                                  command.local ? local_loss_jump_max : loss_jump_max)});
        const BtardRow* const clean =
            find_row(rows, Attack::none, BtardReducer::robust, row.of_few);
        if (clean == nullptr) continue;
        const double lost = clean_accuracy_of(rows, command, *clean) - row.at(command.steps);
        held &= all_hold("btard",
                         {at_most(fmt::format("accuracy lost under {}", name_of(row.attack)),
                                  lost,
                                  lost_by_attack_max)});
    }
    return held;
}

nlohmann::ordered_json to_json(const std::set<HonestOrder>& orders) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const HonestOrder& each : orders)
        all.push_back({{"step", each.step},
                       {"machine", each.machine},
                       {"order", each.order},
                       {"offence", each.offence}});
    return all;
}

nlohmann::ordered_json to_json(const BtardRow& row, const BtardCommand& command) {
    nlohmann::ordered_json json{{"attack", name_of(row.attack)}, {"reducer", name_of(row.reducer)}};
    if (command.local) {
        json["accuracy_before"] = row.at(command.attack_from);
    } else {
        json["accuracy_200"] = row.at(200);
        json["accuracy_300"] = row.at(300);
    }
    json["accuracy_end"] = row.at(command.steps);
    json["trainers"] = row.of_few ? few_trainers : btard_trainers;
    json["attackers"] = row.attackers;
    json["loss_jump"] = row.loss_jump;
    json["banned"] = row.banned;
    json["honest_banned"] = row.honest_banned;
    json["honest_on_probation"] = row.honest_on_probation;
    json["honest_orders"] = to_json(row.honest_orders);
    if (row.last_ban) json["last_ban"] = *row.last_ban;
    json["samples"] = row.samples;
    json["checks"] = row.checks;
    json["bytes"] = row.bytes;
    json["identical"] = row.identical;
    json["seconds"] = row.seconds;
    return json;
}

int finish(const BtardCommand& command, const nlohmann::ordered_json& json, bool held) {
    if (command.json) fmt::print("{}\n", monitor::json_line(json));
    return held ? 0 : exit_check_failed;
}

int run_attacks(const BtardCommand& command,
                const std::shared_ptr<const tasks::FashionMnist>& data) {
    const auto rows = run_jobs(command, data, jobs_of(command));
    if (!rows) {
        fmt::print(stderr, "dedloc: {}\n", rows.error().message());
        return exit_check_failed;
    }
    const bool held = baselines_hold(*rows, command) & robust_rows_hold(*rows, command);
    bool all_banned = true;
    std::size_t honest = 0;
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const BtardRow& row : *rows) {
        if (row.reducer == BtardReducer::robust && row.attack != Attack::none)
            all_banned = all_banned && row.banned == row.attackers;
        honest = std::max(honest, row.honest_banned);
        all.push_back(to_json(row, command));
    }
    if (!command.plot.empty()) std::ofstream(command.plot) << btard_svg(*rows, command);
    const nlohmann::ordered_json json{
        {"ok", held}, {"all_banned", all_banned}, {"honest_banned", honest}, {"rows", all}};
    return finish(command, json, held);
}

// Two peers err, are told, mend it, and are back.
int run_mistakes(const BtardCommand& command,
                 const std::shared_ptr<const tasks::FashionMnist>& data) {
    const auto row =
        run_btard_row(command, data, Attack::none, BtardReducer::robust, /*of_few=*/false);
    if (!row) {
        fmt::print(stderr, "dedloc: {}\n", row.error().message());
        return exit_check_failed;
    }
    constexpr std::size_t mistaken = 2;
    const bool held = row->told.size() == mistaken && row->back == mistaken &&
                      row->banned + row->honest_banned == 0 && row->honest_on_probation == 0 &&
                      row->identical;
    tell_row(*row, command);
    fmt::print(stderr,
               "{} of {} peers that erred were told, {} are back, {} are banned, {} others were "
               "on probation\n",
               row->told.size(),
               mistaken,
               row->back,
               row->banned + row->honest_banned,
               row->honest_on_probation);
    const nlohmann::ordered_json json{{"ok", held},
                                      {"told", row->told.size()},
                                      {"back", row->back},
                                      {"banned", row->banned + row->honest_banned},
                                      {"others_on_probation", row->honest_on_probation},
                                      {"accuracy_end", row->at(command.steps)}};
    return finish(command, json, held);
}

}  // namespace

std::vector<std::string> btard_attack_names() {
    std::vector<std::string> names;
    for (const Attack attack : attacks) names.emplace_back(name_of(attack));
    return names;
}

std::vector<std::string> btard_reducer_names() {
    std::vector<std::string> names;
    for (const BtardReducer reducer : btard_reducers) names.emplace_back(name_of(reducer));
    return names;
}

int run_btard(const BtardCommand& command) {
    if (command.albert_mini) return run_btard_albert(command);
    if (!has_attack(command)) {
        fmt::print(stderr,
                   "dedloc: with --local there are the attacks sign_flip, label_flip and "
                   "constant_direction\n");
        return exit_bad_input;
    }
    torch_bridge::set_compute_threads(1);
    const std::string folder = command.data_directory.empty()
                                   ? std::string(tasks::fashion_mnist_directory)
                                   : command.data_directory;
    auto loaded = tasks::load_fashion_mnist(folder);
    if (!loaded) {
        fmt::print(stderr, "dedloc: {}\n", loaded.error().message());
        return exit_data_missing;
    }
    const auto data = std::make_shared<const tasks::FashionMnist>(*std::move(loaded));
    return command.mistakes ? run_mistakes(command, data) : run_attacks(command, data);
}

}  // namespace dedloc::lab
