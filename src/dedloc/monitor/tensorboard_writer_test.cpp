#include "dedloc/monitor/tensorboard_writer.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "dedloc/monitor/tensorboard.h"

namespace dedloc::monitor {
namespace {

namespace fs = std::filesystem;

class TensorboardWriterTest : public ::testing::Test {
  protected:
    TensorboardWriterTest() {
        std::string pattern = testing::TempDir() + "dedloc-tensorboard-XXXXXX";
        folder_ = std::string(::mkdtemp(pattern.data())) + "/made/by/it";
    }
    ~TensorboardWriterTest() override {
        fs::remove_all(fs::path(folder_).parent_path().parent_path().parent_path());
    }

    std::unique_ptr<TensorboardWriter> open(TrafficNow traffic = nullptr) const {
        auto made = TensorboardWriter::open(folder_, 1000, std::move(traffic));
        EXPECT_TRUE(made);
        return *std::move(made);
    }
    static Bytes contents(const TensorboardWriter& writer) {
        std::ifstream file(writer.path(), std::ios::binary);
        std::stringstream text;
        text << file.rdbuf();
        return base::to_bytes(as_bytes(text.str()));
    }
    // The whole file of a writer that open() made, with these scalars.
    static Bytes file_with(const std::vector<Scalar>& scalars) {
        Bytes bytes = tensorboard_begin(1000);
        base::append(bytes, tensorboard_records(scalars));
        return bytes;
    }
    std::size_t files() const {
        std::size_t count = 0;
        for (const auto& file : fs::directory_iterator(folder_)) count += file.is_regular_file();
        return count;
    }
    static events::Event step(std::uint64_t number, double loss) {
        events::StepMade made;
        made.step = number;
        made.samples = 64;
        made.members = 3;
        made.contributors = 2;
        made.loss = loss;
        made.learning_rate = 0.5;
        made.seconds = 0.25;
        return {.time = 2000.0 + static_cast<double>(number), .what = made};
    }

    std::string folder_;
};

TEST_F(TensorboardWriterTest, each_step_is_in_the_file_when_it_is_made) {
    const auto writer = open([] { return runtime::Traffic{70, 9}; });
    EXPECT_EQ(contents(*writer), tensorboard_begin(1000));
    writer->record(step(5, 0.75));
    writer->flush();
    Bytes expected = file_with({{2005, 5, "loss", 0.75},
                                {2005, 5, "samples", 64},
                                {2005, 5, "contributors", 2},
                                {2005, 5, "learning_rate", 0.5},
                                {2005, 5, "seconds", 0.25},
                                {2005, 5, "samples_per_s", 256},
                                {2005, 5, "peers", 3},
                                {2005, 5, "traffic/sent_bytes", 70},
                                {2005, 5, "traffic/received_bytes", 9}});
    EXPECT_EQ(contents(*writer), expected);
    writer->record({.time = 3000, .what = events::PeerLost{}});
    writer->record(
        {.time = 3000, .what = events::Evaluated{.step = 4, .accuracy = 0.5, .loss = 1}});
    writer->flush();
    base::append(expected,
                 tensorboard_records(
                     {{3000, 4, "evaluation/accuracy", 0.5}, {3000, 4, "evaluation/loss", 1}}));
    EXPECT_EQ(contents(*writer), expected);
}

TEST_F(TensorboardWriterTest, a_loss_that_is_no_number_is_left_out) {
    const auto writer = open();
    writer->record(step(1, std::nan("")));
    writer->flush();
    const Bytes bytes = contents(*writer);
    const std::string text(bytes.begin(), bytes.end());
    EXPECT_EQ(text.find("loss"), std::string::npos);
    EXPECT_NE(text.find("learning_rate"), std::string::npos);
}

TEST_F(TensorboardWriterTest, a_step_that_comes_again_has_later_ones_forgotten) {
    const auto writer = open();
    for (const std::uint64_t number : {1u, 2u, 3u, 2u}) {
        writer->record(step(number, 1));
        writer->flush();
    }
    Bytes expected = tensorboard_begin(1000);
    for (const std::uint64_t number : {1u, 2u, 3u})
        base::append(expected, tensorboard_records(scalars_of(step(number, 1))));
    base::append(expected, tensorboard_restart(2002, 2));
    base::append(expected, tensorboard_records(scalars_of(step(2, 1))));
    EXPECT_EQ(contents(*writer), expected);
}

TEST_F(TensorboardWriterTest, a_process_that_begins_again_has_a_file_of_its_own) {
    { const auto writer = open(); }
    { const auto writer = open(); }
    EXPECT_EQ(files(), 2u);
}

TEST_F(TensorboardWriterTest, an_observer_writes_each_step_once) {
    const auto writer = open();
    RunView view;
    view.step = 3;
    view.loss = 0.5;
    view.samples_per_s = 100;
    view.accuracy = 0.75;
    view.accuracy_step = 2;
    writer->see(view, 10);
    writer->see(view, 11);
    writer->flush();
    EXPECT_EQ(contents(*writer),
              file_with({{10, 3, "loss", 0.5},
                         {10, 3, "samples_per_s", 100},
                         {10, 3, "peers", 0},
                         {10, 2, "evaluation/accuracy", 0.75}}));
}

TEST_F(TensorboardWriterTest, a_folder_that_cannot_be_made_is_said) {
    const auto made = TensorboardWriter::open("/proc/nowhere", 1000);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind(), ErrorKind::local_fault);
}

}  // namespace
}  // namespace dedloc::monitor
