// `dedloc watch --print-plan` prints what `dedloc plan` reads.

#include "dedloc/planning/plan_of_run.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>

#include "dedloc/planning/plan_file.h"
#include "dedloc/security/identity.h"
#include "dedloc/tasks/registry.h"

namespace dedloc::planning {
namespace {

using membership::Role;
using membership::Status;

constexpr double megabit = 1e6 / 8;  // bytes

PeerId peer_id(char name) {
    const Bytes seed(security::ed25519_seed_bytes, static_cast<std::uint8_t>(name));
    return security::Identity::from_seed(seed).value().id();
}

Status peer(char id, std::string name, double megabits_up, double megabits_down, double speed) {
    Status status;
    status.peer = peer_id(id);
    status.name = std::move(name);
    status.phase = membership::Phase::computing;
    status.upload_bytes_per_s = megabits_up * megabit;
    status.download_bytes_per_s = megabits_down * megabit;
    status.samples_per_s = speed;
    status.dialable = true;
    return status;
}

run::RunFile run_of(std::uint64_t batch) {
    run::RunFile run;
    run.name = "demo \"one\"";
    run.batch.target = batch;
    run.averaging.codec = codec::CodecId::fp32;
    return run;
}

PlanFile parsed(const std::string& text) {
    auto file = parse_plan_file(text, "run.toml");
    EXPECT_TRUE(file) << (file ? "" : file.error().message()) << "\n" << text;
    return file ? *std::move(file) : PlanFile{};
}

std::string text_of(const std::vector<Status>& peers) {
    return plan_of_run(run_of(640), peers, 1000);
}

TEST(PlanOfRun, has_what_peers_measured_and_what_the_run_says) {
    std::vector<Status> peers = {peer('a', "anna", 32, 64, 12.5), peer('b', "aux", 320, 320, 0)};
    peers[0].dialable = false;
    peers[1].role = Role::aggregator;
    run::RunFile run = run_of(640);
    run.averaging.delayed = true;
    const PlanFile file = parsed(plan_of_run(run, peers, 1000));
    EXPECT_EQ(file.name, "demo \"one\"");
    EXPECT_EQ(file.codec, "fp32");
    EXPECT_EQ(file.question.elements_count, 1000u);
    EXPECT_EQ(file.question.batch_samples, 640);
    EXPECT_TRUE(file.question.delayed);
    ASSERT_EQ(file.question.peers.size(), 2u);
    const planner::PlanPeer& anna = file.question.peers[0];
    EXPECT_EQ(anna.name, "anna");
    EXPECT_DOUBLE_EQ(anna.rates.upload_per_s, 1e6);  // 32 Mb/s of 32 bits each
    EXPECT_DOUBLE_EQ(anna.rates.download_per_s, 2e6);
    EXPECT_DOUBLE_EQ(anna.samples_per_s, 12.5);
    EXPECT_FALSE(anna.rates.owns_allowed);
    EXPECT_TRUE(file.question.peers[1].is_aggregator());
    EXPECT_TRUE(file.question.peers[1].rates.owns_allowed);
    EXPECT_TRUE(planner::make_plan(file.question));
}

TEST(PlanOfRun, says_that_a_run_is_robust) {
    run::RunFile run = run_of(640);
    const std::vector<Status> peers = {peer('a', "anna", 32, 64, 12.5)};
    EXPECT_FALSE(parsed(plan_of_run(run, peers, 1000)).robust);
    run.robust.emplace();
    const PlanFile file = parsed(plan_of_run(run, peers, 1000));
    EXPECT_TRUE(file.robust);
    EXPECT_TRUE(file.question.delayed_refused);
}

TEST(PlanOfRun, what_is_not_measured_is_the_median_and_the_file_says_so) {
    const std::vector<Status> peers = {peer('a', "a", 10, 100, 1),
                                       peer('b', "b", 20, 200, 2),
                                       peer('c', "c", 30, 300, 3),
                                       peer('d', "new", 0, std::nan(""), 0),
                                       peer('e', "liar", 1e12, -1, 1e300)};
    const std::string text = text_of(peers);
    const PlanFile file = parsed(text);
    ASSERT_EQ(file.question.peers.size(), 5u);
    for (const std::size_t unknown : {3u, 4u}) {
        const planner::PlanPeer& one = file.question.peers[unknown];
        EXPECT_DOUBLE_EQ(one.rates.upload_per_s, 20e6 / 32);
        EXPECT_DOUBLE_EQ(one.rates.download_per_s, 200e6 / 32);
        EXPECT_DOUBLE_EQ(one.samples_per_s, 2);
    }
    std::size_t remarks = 0;
    const std::string_view remark = "# not measured yet: the median of the others";
    for (std::size_t at = text.find(remark); at != std::string::npos;
         at = text.find(remark, at + 1))
        ++remarks;
    EXPECT_EQ(remarks, 6u) << text;
}

TEST(PlanOfRun, before_anybody_has_measured_anything_it_says_what_is_a_guess) {
    const std::string text = text_of({peer('a', "a", 0, 0, 0), peer('b', "b", 0, 0, 0)});
    const PlanFile file = parsed(text);
    EXPECT_EQ(file.question.batch_samples, 0) << "speeds are required where there is a batch";
    EXPECT_NE(text.find("The batch is 640."), std::string::npos) << text;
    EXPECT_NE(text.find("up = \"100 Mb/s\"  # nobody has measured one yet"), std::string::npos)
        << text;
    EXPECT_TRUE(planner::make_plan(file.question));
    // A line takes about what it gives.
    const std::string one_way = text_of({peer('a', "a", 40, 0, 1)});
    EXPECT_DOUBLE_EQ(parsed(one_way).question.peers[0].rates.download_per_s, 40e6 / 32) << one_way;
    EXPECT_NE(one_way.find("the median of the other way"), std::string::npos) << one_way;
}

TEST(PlanOfRun, any_names_become_keys_that_differ) {
    std::vector<Status> peers;
    char id = 'a';
    const std::string short_id = peer_id('b').short_text();
    for (const std::string& name : {std::string("twin"),
                                    std::string("twin"),
                                    "twin " + short_id,
                                    std::string(""),
                                    std::string("quo\"te\\"),
                                    std::string("\"\"\""),
                                    std::string("a.b] # x"),
                                    std::string("würth"),
                                    std::string("\x1b[31m\nred\xff"),
                                    std::string(32, '"')})
        peers.push_back(peer(id++, name, 10, 10, 1));
    const PlanFile file = parsed(text_of(peers));
    ASSERT_EQ(file.question.peers.size(), peers.size());
    std::set<std::string> names;
    for (const planner::PlanPeer& one : file.question.peers) names.insert(one.name);
    EXPECT_EQ(names.size(), peers.size());
    EXPECT_TRUE(names.contains("twin 2"));
    EXPECT_TRUE(names.contains("nameless peer"));
    EXPECT_TRUE(names.contains("quo\"te\\"));
    EXPECT_TRUE(names.contains("würth"));
}

TEST(PlanOfRun, only_who_averages_is_in_it) {
    std::vector<Status> peers = {peer('a', "a", 10, 10, 1),
                                 peer('b', "watcher", 10, 10, 1),
                                 peer('c', "relay", 10, 10, 1),
                                 peer('d', "leaver", 10, 10, 1)};
    peers[1].role = Role::observer;
    peers[2].role = Role::relay;
    peers[3].phase = membership::Phase::leaving;
    const PlanFile file = parsed(text_of(peers));
    ASSERT_EQ(file.question.peers.size(), 1u);
    EXPECT_EQ(file.question.peers[0].name, "a");
}

TEST(PlanOfRun, adaptive_codecs_are_that_of_large_tensors) {
    run::RunFile run = run_of(640);
    run.averaging.codec.reset();
    const std::vector<Status> peers = {peer('a', "a", 10, 10, 1)};
    const std::string text = plan_of_run(run, peers, 1000);
    EXPECT_EQ(parsed(text).codec, "blockwise8");
    EXPECT_NE(text.find("# \"adaptive\" in the run"), std::string::npos) << text;
}

TEST(PlanOfRun, says_how_many_local_steps_a_batch_is) {
    run::RunFile run = run_of(1280);
    const std::vector<Status> alone = {peer('a', "a", 10, 10, 1)};
    EXPECT_EQ(parsed(plan_of_run(run, alone, 1000)).local_steps, 1u);
    run.local.emplace().batch = 64;
    const std::vector<Status> peers = {peer('a', "a", 10, 10, 1), peer('b', "b", 10, 10, 1)};
    EXPECT_EQ(parsed(plan_of_run(run, peers, 1000)).local_steps, 10u);
    EXPECT_EQ(parsed(plan_of_run(run, peers, 1000)).question.elements_count, 1000u);
    run.local->fragments = 4;
    const PlanFile file = parsed(plan_of_run(run, peers, 1000));
    EXPECT_EQ(file.fragments, 4u);
    EXPECT_EQ(file.question.elements_count, 250u) << "of a round";
}

TEST(PlanOfRun, says_from_how_many_on_sparse_contributions_are_added) {
    run::RunFile run = run_of(1280);
    run.averaging.codec = codec::CodecId::sparse;
    const std::vector<Status> peers = {peer('a', "a", 10, 10, 1)};
    EXPECT_EQ(parsed(plan_of_run(run, peers, 1000)).gather_max, codec::gather_max_usual);
    run.averaging.gather_max = 8;
    EXPECT_EQ(parsed(plan_of_run(run, peers, 1000)).gather_max, 8u);
}

TEST(PlanOfRun, knows_the_size_of_models_that_this_machine_can_make) {
    std::size_t known = 0;
    for (const std::string& name : tasks::task_kinds()) {
        const tasks::TaskKind* kind = tasks::find_task(name);
        const auto run = run::parse_run_file(kind->run_template.settings, name);
        ASSERT_TRUE(run) << name;
        const auto elements = vector_elements(*run);
        EXPECT_TRUE(elements || !kind->vector_count) << name << ": the run file alone says it";
        known += elements.value_or(0) > 0;
    }
    EXPECT_GT(known, 0u);
    run::RunFile run;
    run.task.kind = "unheard of";
    EXPECT_FALSE(vector_elements(run));
}

}  // namespace
}  // namespace dedloc::planning
