// Loops of one's own over plain memory, without libtorch: real threads, files and sockets of this
// machine. torch_bridge's tests of CollaborativeOptimizer go further.

#include "dedloc/train/session.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <gtest/gtest.h>

#include "dedloc/train/span_model.h"

namespace dedloc::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t session_micro = 16;

class SessionTest : public testing::Test {
  protected:
    SessionTest() {
        std::string pattern = (fs::temp_directory_path() / "dedloc-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
    }
    ~SessionTest() override { fs::remove_all(directory_); }

    // Plain SGD at a rate of 1/4 on 64 samples a step.
    std::string run_file(const std::string& more, const std::string& stop = "steps = 3") const {
        const fs::path path = directory_ / "run.toml";
        std::ofstream(path)
            << "name = \"span\"\n[batch]\ntarget = 64\nmicro = 16\n"
            << "[optimizer]\nkind = \"sgd\"\nmomentum = 0\n[schedule]\npeak = 0.25\n"
            << "[stop]\n"
            << stop << "\n[averaging]\ncodec = \"fp32\"\n"
            << more;
        return path;
    }

    // One number whose gradient is 1, in memory of this test.
    struct Number {
        float value = 0;
        float gradient = 1;
        SpanModel* model = nullptr;
        void place() {
            void* const values[] = {&value};
            const float* const gradients[] = {&gradient};
            model->place(values, gradients);
        }
    };
    Result<std::unique_ptr<LoopSession>> host(Number& number,
                                              SessionOptions options,
                                              const std::string& folder = "peer") const {
        auto model = SpanModel::make({{.name = "p",
                                       .count = 1,
                                       .trained = true,
                                       .type = ElementType::fp32,
                                       .values = &number.value}});
        number.model = model->get();
        FingerprintMaker maker;
        const std::int64_t shape[] = {1};
        maker.trained("p", shape);
        maker.begin_buffers();
        options.directory = directory_ / folder;
        if (options.listen == SessionOptions{}.listen) options.listen = {"127.0.0.1:0"};
        return LoopSession::join(*std::move(model), maker.finish(), std::move(options));
    }

    fs::path directory_;
};

// The time that a later call gives counts, however long an earlier one was ready to wait.
TEST_F(SessionTest, a_leave_that_was_cancelled_is_ended_by_one_with_less_time) {
    Number number;
    Number others;
    const auto session = host(number, {.run_file = run_file(""), .wait_max = 1ms});
    ASSERT_TRUE(session) << session.error().message();
    const auto other = host(others, {.join = (*session)->join_string()}, "other");
    ASSERT_TRUE(other) << other.error().message();
    number.place();
    ASSERT_TRUE((*session)->step(session_micro, 1)) << "the batch is not full yet";
    const runtime::Clock& clock = (*session)->node().clock();
    const TimePoint latest = clock.now() + 30s;
    EXPECT_FALSE((*session)->leave(1h)) << "it waits for the rest of the batch";
    while (!(*session)->leave(0s) && clock.now() < latest) continue;
    EXPECT_TRUE((*session)->leave(1h));
    EXPECT_LT(clock.now(), latest);
}

// Any network thread may tell it.
class OrdersAndChecks final : public events::EventSink {
  public:
    void record(const events::Event& event) override {
        if (event.is<events::OrderGiven>()) ++orders;
        if (event.is<events::CheckMade>()) ++checks;
    }
    std::atomic<int> orders = 0;
    std::atomic<int> checks = 0;
};

TEST_F(SessionTest, trains_what_lies_in_plain_memory_until_the_run_is_over) {
    Number number;
    const auto session = host(number, {.run_file = run_file("")});
    ASSERT_TRUE(session) << session.error().message();
    int steps = 0;
    for (int calls = 0; calls < 100 && !(*session)->finished(); ++calls) {
        number.place();
        const auto stepped = (*session)->step(session_micro, 1);
        ASSERT_TRUE(stepped) << stepped.error().message();
        steps += *stepped;
    }
    ASSERT_TRUE((*session)->leave(10s));
    EXPECT_EQ(steps, 3);
    EXPECT_FLOAT_EQ(number.value, -3 * 0.25f);
}

TEST_F(SessionTest, addresses_are_written_as_for_the_program) {
    Number number;
    const auto session = host(number, {.run_file = run_file(""), .listen = {"127.0.0.1:0"}});
    ASSERT_TRUE(session) << session.error().message();
    const auto addresses = (*session)->node().run_on_network_thread(
        [&session] { return (*session)->node().host().addresses(); });
    ASSERT_EQ(addresses.size(), 1u);
    EXPECT_TRUE(addresses.front().starts_with("/ip4/127.0.0.1/tcp/")) << addresses.front();
    const auto refusal = [&](SessionOptions options) {
        options.run_file = run_file("");
        const auto refused = host(number, std::move(options), "refused");
        return refused ? std::string() : refused.error().message();
    };
    EXPECT_NE(refusal({.listen = {"example.org:1"}}).find("'example.org:1'"), std::string::npos);
    EXPECT_NE(refusal({.announce = {":4001"}}).find("':4001'"), std::string::npos);
    EXPECT_NE(refusal({.relays = {"/ip4/127.0.0.1/tcp/1"}}), "") << "it has no id";
}

TEST_F(SessionTest, a_tensor_that_lies_nowhere_is_bad_input_at_that_step) {
    Number number;
    const auto session = host(number, {.run_file = run_file("")});
    ASSERT_TRUE(session);
    void* const nowhere[] = {nullptr};
    const float* const gradients[] = {&number.gradient};
    number.model->place(nowhere, gradients);
    const auto stepped = (*session)->step(session_micro, 1);
    ASSERT_FALSE(stepped);
    EXPECT_EQ(stepped.error().kind(), ErrorKind::bad_input);
    number.place();
    EXPECT_TRUE((*session)->step(session_micro, 1)) << "it can be mended";
}

TEST_F(SessionTest, a_folder_of_another_run_is_refused_and_keeps_what_it_has) {
    Number number;
    ASSERT_TRUE(host(number, {.run_file = run_file("")}));
    EXPECT_TRUE(host(number, {.run_file = run_file("")})) << "the same run begins again";
    const auto another = host(number, {.run_file = run_file("", "steps = 4")});
    ASSERT_FALSE(another);
    EXPECT_EQ(another.error().kind(), ErrorKind::bad_input);
    EXPECT_NE(another.error().message().find("another run"), std::string::npos)
        << another.error().message();
}

TEST_F(SessionTest, joining_that_was_ended_from_outside_joins_nothing) {
    Number number;
    int asked = 0;
    SessionOptions options{.run_file = run_file("")};
    options.goes_on = [&asked] { return ++asked > 1; };
    const auto ended = host(number, options);
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().kind(), ErrorKind::cancelled);
    EXPECT_EQ(asked, 1) << "before the run is begun";
    EXPECT_TRUE(host(number, options)) << "its folder is free again";
}

// A loop that stops waiting loses nothing of what it handed in: the next call waits on.
TEST_F(SessionTest, a_step_that_was_cancelled_is_waited_for_by_the_next_call) {
    Number number;
    bool goes_on = true;
    SessionOptions options{.run_file = run_file("round_deadline_min = \"60s\"\n")};
    options.goes_on = [&goes_on] { return goes_on; };
    const auto session = host(number, std::move(options));
    ASSERT_TRUE(session);
    for (int i = 0; i < 3; ++i) {
        number.place();
        ASSERT_TRUE((*session)->step(session_micro, 1));
    }
    goes_on = false;
    number.place();
    const auto cancelled = (*session)->step(session_micro, 1);
    goes_on = true;
    if (!cancelled) {
        EXPECT_EQ(cancelled.error().kind(), ErrorKind::cancelled);
        const auto waited = (*session)->step(session_micro, 1);
        ASSERT_TRUE(waited);
        EXPECT_TRUE(*waited);
    }
    EXPECT_FLOAT_EQ(number.value, -0.25f);
}

// Inner steps end where micro-batches do, and whoever checks cuts them as the run file says.
TEST_F(SessionTest, a_checked_run_with_local_updates_takes_micro_batches_of_its_size_alone) {
    Number number;
    SessionOptions options{.run_file = run_file("[robust]\n[local]\nbatch = 16\n")};
    options.calls.compute = [&number](const PeerId&, collab::CounterRange) -> Result<double> {
        number.place();
        return 0.5;
    };
    const auto session = host(number, std::move(options));
    ASSERT_TRUE(session) << session.error().message();
    number.place();
    const auto refused = (*session)->step(session_micro / 2, 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), ErrorKind::bad_input);
    EXPECT_NE(refused.error().message().find("step() takes 16 samples"), std::string::npos)
        << refused.error().message();
    EXPECT_TRUE((*session)->step(session_micro, 1));
}

// The gradient of a sample is a function of author, number and where the parameter is: after
// inner steps with momentum, which the host makes again for the newcomer.
TEST_F(SessionTest, checks_a_newcomers_local_updates) {
    const auto calls_for = [](Number& number) {
        LoopCalls calls;
        calls.compute = [&number](const PeerId& author,
                                  collab::CounterRange samples) -> Result<double> {
            number.gradient = number.value / 8 +
                              static_cast<float>(1 + author.bytes().back() % 4) / 8 +
                              static_cast<float>(samples.begin % 7) / 8;
            number.place();
            return 0.5;
        };
        return calls;
    };
    const std::string robust = "[robust]\ncheck = 1.0\nprobation = 1\n[local]\nbatch = 16\n";
    OrdersAndChecks told;
    Number number;
    const auto session = host(
        number,
        {.run_file = run_file(robust, "steps = 12"), .calls = calls_for(number), .events = &told});
    ASSERT_TRUE(session) << session.error().message();
    Number others;
    const auto newcomer =
        host(others, {.join = (*session)->join_string(), .calls = calls_for(others)}, "guest");
    ASSERT_TRUE(newcomer) << newcomer.error().message();
    const auto train = [](LoopSession& loop, Number& of) {
        of.place();
        loop.zero_grad();
        while (!loop.finished())
            if (!loop.step(session_micro, 1)) break;
        (void)loop.leave(10s);
    };
    std::future<void> trained = std::async(std::launch::async, [&] { train(**newcomer, others); });
    train(**session, number);
    trained.get();
    EXPECT_GT(told.checks, 0);
    EXPECT_EQ(told.orders, 0) << "it is found right";
    EXPECT_EQ((*session)->global_step(), 12u);
    EXPECT_EQ(number.value, others.value);
}

}  // namespace
}  // namespace dedloc::train
