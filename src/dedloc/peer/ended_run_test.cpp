#include "dedloc/peer/ended_run.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "dedloc/monitor/event_log.h"
#include "dedloc/runtime/real.h"
#include "dedloc/state/checkpoint.h"

namespace dedloc::peer {
namespace {

class EndedRunTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "dedloc-ended-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    void tell(events::Any what, double time, std::uint64_t step) {
        events::Event event;
        event.time = time;
        event.step = step;
        event.what = std::move(what);
        std::ofstream file(folder_ + "/events.jsonl", std::ios::app);
        file << monitor::to_json_line(event) << "\n";
    }
    static Digest digest_of(std::uint8_t number) {
        Digest made;
        made.bytes.fill(number);
        return made;
    }
    void save(std::uint64_t step, const Digest& run) {
        state::SnapshotInfo info;
        info.run = run;
        info.branch = run;
        info.step = step;
        auto published = std::make_shared<state::PublishedState>();
        published->snapshot =
            state::Snapshot::make(std::move(info), {{.name = "p", .values = {1}}}).value();
        published->manifest = state::make_manifest(*published->snapshot);
        const auto disk = runtime::real_disk(folder_);
        ASSERT_TRUE(disk);
        const auto saved = state::save_checkpoint(
            **disk, "checkpoints", {.state = published, .run_file = "", .extra = {}});
        ASSERT_TRUE(saved) << saved.error().message();
    }

    std::string folder_;
};

TEST_F(EndedRunTest, a_folder_says_that_its_run_has_ended_when_and_at_which_step) {
    EXPECT_FALSE(end_seen_in(folder_));
    tell(events::Joined{}, 100, 3);
    EXPECT_FALSE(end_seen_in(folder_));
    for (int i = 0; i < 5000; ++i) tell(events::StepMade{}, 200 + i, 4);  // more than is read
    tell(events::RunOver{}, 6000, 40);
    tell(events::Left{}, 6001, 40);
    const auto seen = end_seen_in(folder_);
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->step, 40u);
    EXPECT_DOUBLE_EQ(seen->time, 6000);
    run::JoinString join;
    const std::string text = why_nobody_answers(join, folder_, "nobody could be reached");
    EXPECT_NE(text.find("has ended, at step 40, on 1970-01-0"), std::string::npos) << text;
    EXPECT_NE(text.find("eval " + folder_), std::string::npos) << text;
}

TEST_F(EndedRunTest, a_run_that_went_on_in_the_folder_has_not_ended) {
    tell(events::RunOver{}, 6000, 40);
    tell(events::RunStarted{}, 7000, 20);
    EXPECT_FALSE(end_seen_in(folder_));
}

TEST_F(EndedRunTest, where_nobody_here_saw_it_the_string_tells_how_far_the_run_was) {
    run::JoinString join;
    join.anchor = run::Anchor{.certificate = {}, .step = 120};
    const std::string text = why_nobody_answers(join, folder_, "nobody could be reached");
    EXPECT_TRUE(text.starts_with("nobody could be reached. ")) << text;
    EXPECT_NE(text.find("stood at step 120"), std::string::npos) << text;
    EXPECT_EQ(text.find("--resume"), std::string::npos) << text;
}

TEST_F(EndedRunTest, who_has_a_state_of_a_run_that_is_gone_hears_how_it_goes_on) {
    run::JoinString join;
    join.run = digest_of(7);
    const auto text = [&] { return why_nobody_answers(join, folder_, "nobody could be reached"); };
    save(3, digest_of(8));
    std::filesystem::create_directories(folder_ + "/checkpoints/step-000000000009-unfinished");
    EXPECT_EQ(text().find("--resume"), std::string::npos) << "another run's: " << text();
    save(4, digest_of(7));
    EXPECT_NE(text().find("host --resume " + folder_ + "` goes on"), std::string::npos) << text();
    save(5, digest_of(8));  // which `host --resume` would take
    EXPECT_NE(text().find("host --resume " + folder_ + "/checkpoints/step-000000000004-"),
              std::string::npos)
        << text();
}

}  // namespace
}  // namespace dedloc::peer
