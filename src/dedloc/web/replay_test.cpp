#include "dedloc/web/replay.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "dedloc/monitor/event_log.h"
#include "dedloc/web/web_testing.h"

namespace dedloc::web {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ReplayTest : public ::testing::Test {
  protected:
    ReplayTest() : folder_(fs::temp_directory_path() / ("dedloc-replay-" + new_token())) {
        fs::create_directories(folder_);
        std::ofstream log(folder_ / "events.jsonl");
        const auto write = [&log](const events::Event& event) {
            log << monitor::to_json_line(event) << "\n";
        };
        write(testing::event_of(1000,
                                events::RunStarted{.name = "anna", .id = testing::peer(1).text()}));
        write(testing::event_of(1000, events::PeerJoined{.name = "bert"}, testing::peer(2)));
        for (std::uint64_t step = 1; step <= 100; ++step) write(testing::step_event(step));
        log << "{\"torn";
    }
    ~ReplayTest() override { fs::remove_all(folder_); }

    std::unique_ptr<Replay> open(double speed = 0) {
        auto replay = Replay::open(folder_.string(), testing::facts().run, "0.1.0", speed);
        EXPECT_TRUE(replay);
        return *std::move(replay);
    }
    static json run_of(Replay& replay) { return json::parse(replay.store().run_json()); }

    fs::path folder_;
};

TEST_F(ReplayTest, ends_with_the_numbers_of_the_log) {
    const auto replay = open();
    replay->to_end();
    const json run = run_of(*replay);
    EXPECT_EQ(run["mode"], "replay");
    EXPECT_EQ(run["us"], testing::peer(1).text());
    EXPECT_EQ(run["progress"]["step"], 100);
    EXPECT_EQ(run["progress"]["loss"], 0.01);
    EXPECT_EQ(run["progress"]["samples_per_s"], 2048);
    EXPECT_EQ(run["progress"]["live_peers"], 2);
    EXPECT_EQ(run["replay"]["at"], 1050);
    EXPECT_EQ(run["replay"]["playing"], false);
    const json peers = json::parse(replay->store().peers_json())["peers"];
    ASSERT_EQ(peers.size(), 2u);
    EXPECT_EQ(peers[0]["name"], "anna");
    EXPECT_EQ(json::parse(replay->store().series_json())["series"]["loss"]["seen"], 100);
}

TEST_F(ReplayTest, jumps_both_ways_and_takes_a_speed) {
    const auto replay = open(0.01);
    const Action set = replay->action();
    auto answer = set({{"at", 1010.0}, {"playing", false}});
    ASSERT_TRUE(answer);
    EXPECT_EQ(run_of(*replay)["progress"]["step"], 20);
    ASSERT_TRUE(set({{"at", 1040.0}}));
    EXPECT_EQ(run_of(*replay)["progress"]["step"], 80);
    const auto before = replay->store().version().generation;
    ASSERT_TRUE(set({{"at", 1005.0}}));
    EXPECT_EQ(run_of(*replay)["progress"]["step"], 10);
    EXPECT_GT(replay->store().version().generation, before);
    EXPECT_EQ(json::parse(replay->store().series_json())["series"]["loss"]["seen"], 10);
    for (const json& wrong :
         {json{{"speed", 0}}, json{{"speed", "x"}}, json{{"at", nullptr}}, json::object()})
        EXPECT_FALSE(set(wrong)) << wrong;
    ASSERT_TRUE(set({{"at", 1e99}}));
    EXPECT_EQ(run_of(*replay)["progress"]["step"], 100);
}

TEST_F(ReplayTest, plays_by_itself) {
    const auto replay = open(1e6);
    RunStore& store = replay->store();
    RunStore::Version version = store.version();
    for (int i = 0; i < 100 && run_of(*replay)["progress"]["step"] != 100; ++i)
        version = store.wait_for_news(version.changes, 1);
    EXPECT_EQ(run_of(*replay)["progress"]["step"], 100);
}

TEST_F(ReplayTest, a_folder_without_events_is_told) {
    const auto replay = Replay::open("/nowhere", testing::facts().run, "0.1.0");
    ASSERT_FALSE(replay);
    EXPECT_EQ(replay.error().kind(), ErrorKind::bad_input);
}

}  // namespace
}  // namespace dedloc::web
