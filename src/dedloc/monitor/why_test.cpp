#include "dedloc/monitor/why.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dedloc/monitor/why_watch.h"
#include "dedloc/security/identity.h"

namespace dedloc::monitor {
namespace {

PeerId why_peer(std::uint8_t number) {
    return security::Identity::from_seed(Bytes(32, number))->id();
}

run::RunFile why_run() {
    run::RunFile run;
    run.name = "slow";
    run.batch = {.target = 1024, .micro = 64};
    return run;
}

events::Event joined(std::uint8_t number, std::string name) {
    events::Event event;
    event.peer = why_peer(number);
    event.what = events::PeerJoined{.name = std::move(name)};
    return event;
}

events::Event begun(std::uint8_t number, std::string name) {
    events::Event event;
    event.what = events::RunStarted{.name = std::move(name), .id = why_peer(number).text()};
    return event;
}

events::Event step_of(const StepParts& parts, double predicted_s, std::uint64_t contributors = 3) {
    events::StepMade made;
    made.contributors = contributors;
    made.members = contributors;
    made.predicted_s = predicted_s;
    made.seconds = parts.sum();
    made.set_times({parts.computing_s, parts.waiting_s, parts.averaging_s, parts.applying_s});
    events::Event event;
    event.what = made;
    return event;
}

// Anna's line of 2 Mb/s is full in every plan.
events::Event plan_by_lines(double seconds) {
    events::PlanMade plan{.predicted_s = seconds};
    plan.bottleneck = "upload";
    plan.bottleneck_peer = why_peer(2).text();
    plan.bottleneck_mbit = 2;
    plan.vector_mb = 0.72;
    plan.lines = fmt::format("{}=100/100 {}=2/20 {}=100/100",
                             why_peer(1).short_text(),
                             why_peer(2).short_text(),
                             why_peer(3).short_text());
    plan.last_peer = why_peer(3).text();
    plan.last_s = 0.05;
    events::Event event;
    event.what = plan;
    return event;
}

const Advice* find_advice(const Why& why, std::string_view what) {
    for (const Advice& advice : why.advice)
        if (advice.what == what) return &advice;
    return nullptr;
}

TEST(Why, a_slow_line_is_named_with_what_would_help_and_how_much) {
    WhyEvents seen(why_run());
    seen.add(begun(1, "host"));
    seen.add(joined(2, "anna"));
    seen.add(joined(3, "bob"));
    for (int i = 0; i < 10; ++i) {
        seen.add(plan_by_lines(2.9));
        seen.add(step_of({0.8, 0.1, 3, 0.1}, 2.9));
    }
    const Why why = explain(seen.facts({}));
    EXPECT_EQ(why.facts.seen_by, "host");
    EXPECT_DOUBLE_EQ(why.facts.parts.sum(), 4);
    ASSERT_TRUE(why.facts.line);
    EXPECT_EQ(why.facts.line->name, "anna");
    EXPECT_NEAR(why.facts.line->bytes_per_s, 250'000, 1);
    ASSERT_FALSE(why.findings.empty());
    EXPECT_EQ(why.findings[0],
              "2.90 s of 4.00 s of each step wait for anna's line (2 Mb/s up), over which 0.72 MB "
              "go");
    // Computing goes on meanwhile, or seven of eight averages are not made.
    ASSERT_NE(find_advice(why, "delayed"), nullptr);
    EXPECT_NEAR(find_advice(why, "delayed")->step_s, 3.2, 1e-9);
    ASSERT_NE(find_advice(why, "local"), nullptr);
    EXPECT_NEAR(find_advice(why, "local")->step_s, 0.8 + 3.2 / 8, 1e-9);
    ASSERT_NE(find_advice(why, "codec"), nullptr);
    EXPECT_NEAR(find_advice(why, "codec")->step_s, 4 - 2.9 * (1 - (1 + 4.0 / 1024) / 2), 1e-9);
    // One gradient of 0.72 MB fills that line for 2.88 s: an aggregator changes nothing.
    EXPECT_EQ(find_advice(why, "aggregator"), nullptr);
    EXPECT_NE(why.findings.back().find("an aggregator would not help"), std::string::npos);
    EXPECT_EQ(find_advice(why, "machine"), nullptr);
    EXPECT_EQ(why.advice[0].what, "local") << "the best comes first";
}

TEST(Why, no_run_whose_contributions_are_checked_is_advised_to_compute_beside_rounds) {
    run::RunFile run = why_run();
    run.robust.emplace();
    WhyEvents seen(run);
    seen.add(step_of({0.8, 0.1, 3, 0.1}, 2.9));
    EXPECT_EQ(find_advice(explain(seen.facts({})), "delayed"), nullptr);
    run.robust->check = 0;
    WhyEvents unchecked(run);
    unchecked.add(step_of({0.8, 0.1, 3, 0.1}, 2.9));
    EXPECT_NE(find_advice(explain(unchecked.facts({})), "delayed"), nullptr);
}

TEST(Why, an_aggregator_is_advised_where_lines_are_alike_and_slow) {
    WhyEvents seen(why_run());
    events::PlanMade plan{.predicted_s = 6};
    plan.vector_mb = 4;
    for (std::uint8_t peer = 1; peer <= 8; ++peer)
        *(plan.lines ? &*plan.lines : &plan.lines.emplace()) +=
            why_peer(peer).short_text() + "=10/100 ";
    events::Event planned;
    planned.what = plan;
    seen.add(planned);
    seen.add(step_of({1, 0, 6, 0}, 5.6, 8));
    const Why why = explain(seen.facts({}));
    const Advice* advice = find_advice(why, "aggregator");
    ASSERT_NE(advice, nullptr);
    EXPECT_LT(advice->step_s, 5);
    EXPECT_NE(advice->text.find("dedloc assist"), std::string::npos);
}

TEST(Why, a_peer_that_hands_in_last_is_named) {
    WhyEvents seen(why_run());
    seen.add(joined(3, "bob"));
    for (int i = 0; i < 4; ++i) {
        events::PlanMade plan{.predicted_s = 0.1};
        plan.last_peer = why_peer(3).text();
        plan.last_s = 2;
        events::Event event;
        event.what = plan;
        seen.add(event);
        seen.add(step_of({1, 2, 0.2, 0.1}, 0.1));
    }
    const Why why = explain(seen.facts({}));
    ASSERT_FALSE(why.findings.empty());
    EXPECT_EQ(why.findings[0],
              "2.00 s of 3.30 s of each step are waiting: bob hands in 2.00 s after all others, in "
              "100 % of the rounds");
    ASSERT_NE(find_advice(why, "last"), nullptr);
    EXPECT_NEAR(find_advice(why, "last")->step_s, 1.3, 1e-9);
    EXPECT_NE(find_advice(why, "last")->text.find("batch.micro"), std::string::npos);
}

TEST(Why, computing_wants_machines_and_applying_processors) {
    WhyEvents seen(why_run());
    seen.add(joined(2, "anna"));
    events::PlanMade plan{.predicted_s = 0.1};
    plan.lines = fmt::format("{}=100/100", why_peer(2).short_text());
    events::Event planned;
    planned.what = plan;
    seen.add(planned);
    seen.add(step_of({7, 0, 0.5, 2.5}, 0.1));
    std::vector<CertifiedStep> certified;
    for (std::uint64_t step = 1; step <= 3; ++step)
        certified.push_back({step, 10.0 * static_cast<double>(step), {}, {{why_peer(2), 1000}}});
    const Why why = explain(seen.facts(certified));
    ASSERT_EQ(why.findings.size(), 2u);
    EXPECT_NE(why.findings[0].find("are computing"), std::string::npos);
    EXPECT_NE(why.findings[1].find("are applying it"), std::string::npos);
    const Advice* machine = find_advice(why, "machine");
    ASSERT_NE(machine, nullptr);
    EXPECT_NE(machine->text.find("like anna's (100 samples/s)"), std::string::npos)
        << machine->text;
    EXPECT_NEAR(machine->step_s, 6.5, 1e-9);
    ASSERT_NE(find_advice(why, "processor"), nullptr);
}

TEST(Why, what_the_lines_do_not_explain_is_said_to_be_something_else) {
    WhyEvents seen(why_run());
    seen.add(step_of({1, 0, 3, 0}, 0.2));
    const Why why = explain(seen.facts({}));
    ASSERT_FALSE(why.findings.empty());
    EXPECT_NE(why.findings[0].find("though the lines would need 0.20 s"), std::string::npos)
        << why.findings[0];
}

TEST(Why, one_alone_and_nothing_at_all_are_told) {
    WhyEvents alone(why_run());
    alone.add(step_of({1, 0, 0, 0.1}, 0, 1));
    const Why why = explain(alone.facts({}));
    ASSERT_EQ(why.findings.size(), 1u);
    EXPECT_NE(why.findings[0].find("trains alone:"), std::string::npos);
    WhyEvents mostly(why_run());
    for (const std::size_t contributors : {1, 1, 2})
        mostly.add(step_of({1, 0, 0, 0.1}, 0, contributors));
    EXPECT_NE(explain(mostly.facts({})).findings[0].find("alone in most steps (1.3 peers"),
              std::string::npos);
    const Why nothing = explain(WhyEvents(why_run()).facts({}));
    EXPECT_NE(to_text(nothing).find("nothing to explain"), std::string::npos);
    EXPECT_TRUE(nlohmann::json::parse(to_json(nothing))["advice"].empty());
}

TEST(Why, a_log_of_an_older_version_is_explained_as_far_as_it_goes) {
    WhyEvents seen(why_run());
    events::PlanMade plan{.predicted_s = 2};
    plan.bottleneck = "upload";
    plan.bottleneck_peer = why_peer(2).text();
    events::Event event;
    event.what = plan;
    seen.add(event);
    seen.add(step_of({1, 0, 2, 0}, 2));
    const Why why = explain(seen.facts({}));
    ASSERT_FALSE(why.findings.empty());
    EXPECT_NE(why.findings[0].find(why_peer(2).short_text()), std::string::npos);
}

TEST(Why, text_and_json_say_the_same) {
    WhyEvents seen(why_run());
    seen.add(joined(2, "\u0985\u09a8\u09bf\u09a4\u09be"));
    for (int i = 0; i < 3; ++i) {
        seen.add(plan_by_lines(2.9));
        seen.add(step_of({0.8, 0.1, 3, 0.1}, 2.9));
    }
    const Why why = explain(seen.facts({}));
    const std::string text = to_text(why);
    EXPECT_NE(text.find("a step takes 4.00 s, mean of the last 3"), std::string::npos) << text;
    EXPECT_NE(text.find("75 %"), std::string::npos) << text;
    const nlohmann::json json = nlohmann::json::parse(to_json(why));
    EXPECT_EQ(json["line"]["peer"], "\u0985\u09a8\u09bf\u09a4\u09be");
    EXPECT_NEAR(json["line"]["mbit"].get<double>(), 2, 1e-9);
    EXPECT_EQ(json["advice"].size(), why.advice.size());
    for (const Advice& advice : why.advice)
        EXPECT_NE(text.find(advice.text), std::string::npos) << text;
}

TEST(WhyWatch, an_observer_sees_the_slow_line_and_who_computes_long) {
    WhyWatch seen;
    const auto statuses = [](std::uint64_t step, bool computing) {
        std::vector<membership::Status> all;
        for (std::uint8_t number = 1; number <= 3; ++number) {
            membership::Status status;
            status.peer = why_peer(number);
            status.name = number == 2 ? "anna" : "peer";
            status.step = step;
            status.phase = computing ? membership::Phase::computing : membership::Phase::averaging;
            status.samples_per_s = 100;
            status.upload_bytes_per_s = number == 2 ? 250'000 : 12'500'000;
            status.download_bytes_per_s = 12'500'000;
            status.micro_batch_s = number == 3 ? 1.5 : 0.1;
            status.dialable = true;
            all.push_back(status);
        }
        return all;
    };
    // Steps of 4 s, of which a quarter is computing.
    for (int look = 0; look < 80; ++look)
        seen.observe(statuses(static_cast<std::uint64_t>(look / 16 + 1), look % 16 < 4),
                     0.25 * look);
    const Why why = explain(seen.facts(why_run(), 720'000));
    EXPECT_EQ(why.facts.steps, 3u);
    EXPECT_NEAR(why.facts.parts.sum(), 4, 0.01);
    EXPECT_NEAR(why.facts.parts.computing_s, 1, 0.1);
    ASSERT_TRUE(why.facts.line);
    EXPECT_EQ(why.facts.line->name, "anna");
    EXPECT_NEAR(why.facts.predicted_s, 2.88, 0.05);
    ASSERT_GE(why.findings.size(), 2u);
    EXPECT_NE(why.findings[0].find("anna's line"), std::string::npos) << why.findings[0];
    EXPECT_NE(why.findings[1].find("1.50 s at a time"), std::string::npos) << why.findings[1];
    EXPECT_NE(find_advice(why, "local"), nullptr);
}

}  // namespace
}  // namespace dedloc::monitor
