#include "dedloc/web/run_store.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dedloc/monitor/event_log.h"
#include "dedloc/web/web_testing.h"

namespace dedloc::web {
namespace {

using nlohmann::json;
using testing::event_of;
using testing::facts;
using testing::peer;
using testing::snapshot_of;
using testing::status_of;
using testing::step_event;

using enum membership::Phase;

TEST(RunStore, tells_the_numbers_of_the_event_log) {
    RunStore store(facts());
    for (std::uint64_t step = 1; step <= 3; ++step) store.record(step_event(step));
    store.record(event_of(1002, events::Evaluated{.step = 3, .accuracy = 0.875, .loss = 0.25}));
    store.update(snapshot_of({status_of(1, computing), status_of(2, averaging)}, 1002));

    const json run = json::parse(store.run_json());
    EXPECT_EQ(run["mode"], "peer");
    EXPECT_EQ(run["run"]["name"], "words \"and\" more");
    EXPECT_EQ(run["us"], peer(1).text());
    EXPECT_EQ(run["progress"]["step"], 3);
    EXPECT_EQ(run["progress"]["loss"], 1.0 / 3);
    EXPECT_EQ(run["progress"]["samples_total"], 3072);
    EXPECT_EQ(run["progress"]["accuracy"], 0.875);
    EXPECT_EQ(run["progress"]["live_peers"], 2);
    EXPECT_EQ(run["why"]["step"]["computing_s"], 0.25);

    const json series = json::parse(store.series_json());
    EXPECT_EQ(series["last"], 4);
    EXPECT_EQ(series["series"]["loss"]["points"],
              json::parse("[[1000.5,1,1.0],[1001.0,2,0.5],[1001.5,3,0.3333333333333333]]"));
    EXPECT_EQ(series["series"]["evaluation_loss"]["points"][0][2], 0.25);

    const json events = json::parse(store.events_json(0, 100));
    ASSERT_EQ(events["events"].size(), 4u);
    for (std::uint64_t step = 1; step <= 3; ++step) {
        json one = events["events"][step - 1];
        EXPECT_EQ(one["number"], step);
        EXPECT_EQ(one["routine"], true);
        for (const char* ours : {"number", "routine", "tone"}) one.erase(ours);
        EXPECT_EQ(one, json::parse(monitor::to_json_line(step_event(step))));
    }
    EXPECT_EQ(json::parse(store.events_json(3, 100))["events"].size(), 1u);
    EXPECT_EQ(json::parse(store.events_json(0, 2))["events"][0]["number"], 3);
}

TEST(RunStore, rounds_have_their_parts_and_whom_the_leader_waited_for) {
    RunStore store(facts());
    store.record(event_of(1000.2,
                          events::PlanMade{.predicted_s = 0.1,
                                           .bottleneck = "upload",
                                           .last_peer = peer(2).text(),
                                           .last_s = 0.75}));
    store.record(step_event(1));
    store.record(step_event(2));
    store.update(snapshot_of({}, 1001));
    const json rounds = json::parse(store.rounds_json())["rounds"];
    ASSERT_EQ(rounds.size(), 2u);
    EXPECT_EQ(rounds[0]["waited_for"], peer(2).text());
    EXPECT_EQ(rounds[0]["waited_s"], 0.75);
    EXPECT_EQ(rounds[0]["bottleneck"], "upload");
    EXPECT_TRUE(rounds[1]["waited_for"].is_null());  // another one led
    EXPECT_TRUE(json::parse(store.run_json())["limit"].is_null());
    EXPECT_EQ(rounds[1]["waiting_s"], 0.125);
}

TEST(RunStore, the_newest_plan_says_whose_line_limits_the_round) {
    RunStore store(facts());
    const auto plan_and_step = [&store](std::uint64_t step) {
        store.record(event_of(1000 + static_cast<double>(step),
                              events::PlanMade{.predicted_s = 0.25,
                                               .bottleneck = "download",
                                               .bottleneck_peer = peer(2).text(),
                                               .bottleneck_mbit = 10}));
        store.record(step_event(step));
    };
    plan_and_step(4);
    store.update(snapshot_of({}, 1005));
    const json limit = json::parse(store.run_json())["limit"];
    EXPECT_EQ(limit["step"], 4);
    EXPECT_EQ(limit["peer"], peer(2).text());
    EXPECT_EQ(limit["what"], "download");
    EXPECT_EQ(limit["mbit"], 10);
    EXPECT_EQ(limit["predicted_s"], 0.25);
    EXPECT_TRUE(limit["measured"].is_null());  // nothing is known of that peer
    // Others make the next plans.
    for (std::uint64_t step = 5; step < 4 + monitor::limit_steps_max; ++step)
        store.record(step_event(step));
    store.update(snapshot_of({status_of(2, computing)}, 1006));
    const json later = json::parse(store.run_json())["limit"];
    EXPECT_EQ(later["step"], 4);
    EXPECT_EQ(later["measured"], false);  // what it measured is its upload
    store.record(step_event(4 + monitor::limit_steps_max));
    store.update(snapshot_of({}, 1007));
    EXPECT_TRUE(json::parse(store.run_json())["limit"].is_null());
}

// Peer 2 says nothing of it, and what it says of its samples (web_testing.h) counts for nothing.
TEST(RunStore, the_time_of_taking_part_is_that_of_certified_steps_earlier_ones_too) {
    RunStore store(facts());
    monitor::RunHistory earlier;
    for (std::uint64_t step = 1; step <= 4; ++step)
        earlier.steps.push_back({.step = step,
                                 .time = 940 + 10 * static_cast<double>(step),
                                 .loss = {},
                                 .shares = {{peer(2), 512}}});
    store.record(event_of(1000, events::PersonSeen{.person = "Anna"}, peer(2)));
    for (std::uint64_t step = 5; step <= 9; ++step) store.record(step_event(step));
    store.update(snapshot_of({status_of(1, computing), status_of(2, computing)}, 1005));
    json peers = json::parse(store.peers_json());
    EXPECT_DOUBLE_EQ(peers["peers"][0]["attended_s"].get<double>(), monitor::session_least + 2.0);
    store.add_history(earlier);
    peers = json::parse(store.peers_json());
    // From the step before its first one at 1002.5, which is the history's last, at 980.
    EXPECT_DOUBLE_EQ(peers["peers"][0]["attended_s"].get<double>(), 1004.5 - 980);
    EXPECT_DOUBLE_EQ(peers["peers"][1]["attended_s"].get<double>(),
                     1004.5 - 950 + monitor::session_least);
    EXPECT_EQ(peers["ledger"]["people"][0]["name"], "Anna");
    EXPECT_EQ(peers["ledger"]["people"][0]["attended_s"], peers["peers"][1]["attended_s"]);
}

// The certificates of earlier processes are read while steps are made.
TEST(RunStore, a_history_that_comes_late_is_added_to_the_time_of_taking_part) {
    RunStore store(facts());
    const std::uint64_t steps = monitor::why_steps_max + 50;
    for (std::uint64_t step = 5; step < 5 + steps; ++step) store.record(step_event(step));
    store.update(snapshot_of({status_of(1, computing)}, 2000));
    const auto seconds = [&store] {
        return json::parse(store.peers_json())["peers"][0]["attended_s"].get<double>();
    };
    const double before = seconds();
    monitor::RunHistory earlier;
    earlier.steps = {{.step = 1, .time = 500, .loss = {}, .shares = {{peer(1), 1}}},
                     {.step = 2, .time = 530, .loss = {}, .shares = {{peer(1), 1}}}};
    store.add_history(earlier);
    EXPECT_DOUBLE_EQ(seconds(), before + 30 + monitor::session_least);
}

TEST(RunStore, what_connections_carried_is_told_beside_the_certificates_flows) {
    RunStore store(testing::facts());
    for (const double second : {0, 2, 4}) {
        RunSnapshot snapshot =
            testing::snapshot_of({testing::status_of(2, computing)}, 1000 + second);
        const auto bytes = static_cast<std::uint64_t>(second * 1000);
        snapshot.carried = {{testing::peer(2), bytes, 3 * bytes}, {testing::peer(3), 0, 0}};
        store.update(std::move(snapshot));
    }
    const json flows = json::parse(store.flows_json());
    ASSERT_EQ(flows["flows"].size(), 2u);  // nothing went between peer 3 and us
    const json& sent = flows["flows"][0];
    EXPECT_EQ(sent["from"], testing::peer(1).text());
    EXPECT_EQ(sent["to"], testing::peer(2).text());
    EXPECT_EQ(sent["source"], "measured");
    EXPECT_EQ(sent["bytes"], 4000);
    EXPECT_EQ(sent["seconds"], 4);
    EXPECT_EQ(sent["bytes_per_s"], 1000);
    EXPECT_EQ(flows["flows"][1]["to"], testing::peer(1).text());
    EXPECT_EQ(flows["flows"][1]["bytes_per_s"], 3000);
    store.reset();
    EXPECT_TRUE(json::parse(store.flows_json())["flows"].empty());
}

TEST(RunStore, the_ledger_and_flows_are_the_certificates_not_what_peers_say) {
    RunStore store(facts());
    monitor::RunHistory earlier;
    earlier.steps = {{.step = 1, .time = 900, .loss = {}, .shares = {{peer(2), 512}}},
                     {.step = 5, .time = 950, .loss = {}, .shares = {{peer(2), 1e9}}}};
    store.record(event_of(1000, events::PersonSeen{.person = "Anna"}, peer(2)));
    for (std::uint64_t step = 5; step <= 6; ++step) store.record(step_event(step));
    store.update(snapshot_of({status_of(1, computing), status_of(2, computing)}, 1003));
    store.add_history(earlier);  // its step 5 was counted already

    const json peers = json::parse(store.peers_json());
    EXPECT_EQ(peers["ledger"]["certified"], true);
    EXPECT_EQ(peers["ledger"]["samples"], 512 + 2 * 1024);
    EXPECT_EQ(peers["ledger"]["people"][0]["name"], "Anna");
    EXPECT_EQ(peers["ledger"]["people"][0]["samples"], 512 + 2 * 768);
    EXPECT_EQ(peers["peers"][0]["committed_samples"], 512);
    EXPECT_EQ(peers["peers"][0]["is_us"], true);
    EXPECT_EQ(peers["peers"][0]["share"], 0.5);
    EXPECT_EQ(peers["peers"][1]["person"], "Anna");

    const json flows = json::parse(store.flows_json());
    ASSERT_EQ(flows["flows"].size(), 4u);  // each gives the other parts and averages
    for (const json& flow : flows["flows"]) {
        EXPECT_NE(flow["from"], flow["to"]);
        EXPECT_EQ(flow["bytes"], 2e6);
        EXPECT_EQ(flow["bytes_per_s"], 2e6 / 0.0625);
    }
    EXPECT_EQ(flows["lines"][0]["up_bytes_per_s"], 1e6);
}

TEST(RunStore, peers_have_their_last_trouble_and_a_banned_one_stays_in_sight) {
    RunStore store(facts());
    store.record(event_of(1001, events::OwnerFailed{}, peer(2)));
    store.record(event_of(
        1002,
        events::OrderGiven{
            .order = "banned", .offence = "a wrong gradient", .evidence = "ab12", .about_us = 0},
        peer(3)));
    store.update(snapshot_of({status_of(1, computing), status_of(2, computing)}, 1003));
    json peers = json::parse(store.peers_json())["peers"];
    ASSERT_EQ(peers.size(), 3u);
    EXPECT_EQ(peers[1]["last_error"]["kind"], "owner_failed");
    EXPECT_TRUE(peers[0]["last_error"].is_null());
    EXPECT_EQ(peers[2]["id"], peer(3).text());
    EXPECT_EQ(peers[2]["gone"], true);
    EXPECT_EQ(peers[2]["order"]["evidence"], "ab12");
    EXPECT_EQ(store.sums().banned, 1u);
    store.record(event_of(1004, events::OrderEnded{.order = "banned"}, peer(3)));
    store.update(snapshot_of({status_of(1, computing), status_of(2, computing)}, 1005));
    EXPECT_EQ(json::parse(store.peers_json())["peers"].size(), 2u);
}

TEST(RunStore, the_timeline_grows_by_stretches_and_tells_what_is_new) {
    RunStore store(facts());
    std::uint64_t tick = 0;
    store.update(snapshot_of({status_of(1, computing)}, 1000));
    store.update(snapshot_of({status_of(1, computing)}, 1001));
    store.update(snapshot_of({status_of(1, averaging)}, 1002));
    json all = json::parse(store.timeline_json(tick))[peer(1).text()];
    EXPECT_EQ(all, json::parse(R"([[1000.0,1002.0,"computing"],[1002.0,1002.0,"averaging"]])"));
    EXPECT_EQ(store.timeline_json(tick), "");
    store.update(snapshot_of({status_of(1, averaging)}, 1003));
    all = json::parse(store.timeline_json(tick))[peer(1).text()];
    EXPECT_EQ(all, json::parse(R"([[1002.0,1003.0,"averaging"]])"));
}

// Two hours at two steps a second, with other peers that come, go and are refused.
TEST(RunStore, an_hour_more_does_not_grow_it) {
    RunStore store(facts());
    std::size_t after_an_hour = 0;
    const auto all_bytes = [&store] {
        return store.run_json().size() + store.peers_json().size() + store.series_json().size() +
               store.rounds_json().size() + store.flows_json().size() +
               store.events_json(0, kept_events_max + kept_notable_max).size();
    };
    for (std::uint64_t step = 1; step <= 2 * 7200; ++step) {
        store.record(step_event(step));
        store.record(event_of(1000 + 0.5 * static_cast<double>(step),
                              events::InputRefused{},
                              peer(static_cast<std::uint8_t>(step % 200))));
        auto snapshot =
            snapshot_of({status_of(1, step % 2 ? computing : averaging),
                         status_of(static_cast<std::uint8_t>(2 + step % 100), computing)},
                        1000 + 0.5 * static_cast<double>(step));
        store.update(std::move(snapshot));
        if (step == 7200) after_an_hour = all_bytes();
    }
    EXPECT_LT(all_bytes(), after_an_hour * 11 / 10);  // numbers have more digits
    EXPECT_LT(all_bytes(), 4u << 20);
    const json loss = json::parse(store.series_json())["series"]["loss"];
    EXPECT_LE(loss["points"].size(), series_points_max + 1);
    EXPECT_EQ(loss["seen"], 14'400);
    EXPECT_EQ(loss["points"].back()[1], 14'400);
    const RunStore::Events kept = store.events_after(0, 1u << 20);
    EXPECT_EQ(kept.events.size(), kept_events_max + kept_notable_max);
    EXPECT_EQ(kept.newest, 28'800u);
}

TEST(RunStore, an_owner_that_looks_too_seldom_loses_events_and_not_their_count) {
    RunStore store(facts());
    for (std::uint64_t step = 1; step <= inbox_events_max + 10; ++step)
        store.record(step_event(step));
    store.update(snapshot_of({}, 2000));
    const RunStore::Events kept = store.events_after(0, 1u << 20);
    EXPECT_EQ(kept.newest, inbox_events_max + 10);
    EXPECT_EQ(json::parse(kept.events.back().json)["step"], inbox_events_max + 10);
}

TEST(RunStore, a_long_event_is_cut_and_stays_json) {
    RunStore store(facts());
    events::Event event = event_of(1001, events::PeerJoined{.name = std::string(100'000, 'x')});
    event.text = std::string(100'000, '"') + "\n\xff";
    store.record(event);
    store.update(snapshot_of({}, 1002));
    const RunStore::Events kept = store.events_after(0, 10);
    ASSERT_EQ(kept.events.size(), 1u);
    EXPECT_LT(kept.events[0].json.size(), event_bytes_max);
    EXPECT_EQ(json::parse(kept.events[0].json)["kind"], "peer_joined");
}

}  // namespace
}  // namespace dedloc::web
