// Training loops of peers that host a run of their own, and of some who join: real threads, files
// and sockets of this machine.

#include "dedloc/torch_bridge/collaborative_optimizer.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>

#include "dedloc/train/host_access.h"

namespace dedloc::torch_bridge {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t micro_batch = 16;
constexpr int batches_a_step = 4;
constexpr double rate = 0.25;

class CollaborativeOptimizerTest : public testing::Test {
  protected:
    CollaborativeOptimizerTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "dedloc-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
    }
    ~CollaborativeOptimizerTest() override { std::filesystem::remove_all(directory_); }

    // `more` of the section [averaging], and further sections.
    std::string run_file(const std::string& more = "",
                         const std::string& stop = "steps = 2",
                         std::int64_t micro = micro_batch,
                         const std::string& codec = "fp32") const {
        const std::filesystem::path path = directory_ / "run.toml";
        std::ofstream(path) << "name = \"alone\"\n"
                            << "[batch]\ntarget = " << batches_a_step * micro_batch
                            << "\nmicro = " << micro << "\n"
                            << "[optimizer]\nkind = \"sgd\"\nmomentum = 0\n"
                            << "[schedule]\npeak = " << rate << "\n"
                            << "[stop]\n"
                            << stop << "\n"
                            << "[averaging]\ncodec = \"" << codec << "\"\n"
                            << more;
        return path;
    }
    JoinOptions options(const std::string& name) const {
        return {.directory = directory_ / name, .listen = {"/ip4/127.0.0.1/tcp/0"}};
    }
    Session host(std::shared_ptr<nn::Module> model, const std::string& more = "") const {
        JoinOptions hosting = options("peer");
        hosting.run_file = run_file(more);
        return join(std::move(model), hosting);
    }
    Session guest(std::shared_ptr<nn::Module> model,
                  const Session& host,
                  const std::string& name = "guest") const {
        JoinOptions joining = options(name);
        joining.join = host.join_string();
        return join(std::move(model), joining);
    }
    // The message that `work` throws; empty: nothing.
    template <typename Work>
    static std::string failure_of(Work work) {
        try {
            work();
        } catch (const std::runtime_error& failure) {
            return failure.what();
        }
        return {};
    }

    std::filesystem::path directory_;
};

// One number, whose gradient is 1 whatever the sample.
struct NumberModule : nn::Module {
    torch::Tensor number = register_parameter("number", torch::zeros({1}));
};

// One step() with a gradient of 1.
bool step_once(CollaborativeOptimizer& optimizer, NumberModule& model, std::int64_t samples) {
    optimizer.zero_grad();
    model.number.sum().backward();
    return optimizer.step(samples);
}

TEST_F(CollaborativeOptimizerTest, counts_no_samples_of_a_step_that_threw) {
    const auto model = std::make_shared<NumberModule>();
    Session session = host(model);
    CollaborativeOptimizer optimizer(session);
    model->number.mutable_grad() = torch::ones({1}, torch::kMeta);  // has no values to look at
    EXPECT_THROW(optimizer.step(micro_batch), std::exception);
    for (int i = 1; i <= batches_a_step; ++i) {
        optimizer.zero_grad();
        model->number.sum().backward();
        EXPECT_EQ(optimizer.step(micro_batch), i == batches_a_step);
    }
    EXPECT_EQ(session.global_step(), 1u);
    EXPECT_FLOAT_EQ(model->number.item<float>(), -rate);
}

TEST_F(CollaborativeOptimizerTest, a_batch_that_is_not_finite_leaves_no_trace) {
    nn::Sequential model(nn::Linear(2, 3), nn::BatchNorm1d(3), nn::Linear(3, 1));
    Session session = host(model.ptr());
    CollaborativeOptimizer optimizer(session);
    const auto step = [&](double factor) {
        optimizer.zero_grad();
        const torch::Tensor loss = (model->forward(torch::rand({micro_batch, 2}) * factor)).mean();
        loss.backward();
        return optimizer.step(micro_batch, loss.item<double>());
    };
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    const auto mean_now = [&] { return model->named_buffers()["1.running_mean"].clone(); };
    const torch::Tensor at_the_start = mean_now();
    EXPECT_FALSE(step(nan));
    EXPECT_TRUE(mean_now().equal(at_the_start));
    EXPECT_FALSE(step(1));
    const torch::Tensor after_one = mean_now();
    EXPECT_FALSE(after_one.equal(at_the_start));
    EXPECT_FALSE(step(nan));
    EXPECT_TRUE(mean_now().equal(after_one));
    for (int i = 2; i <= batches_a_step; ++i) EXPECT_EQ(step(1), i == batches_a_step);
    EXPECT_TRUE(mean_now().isfinite().all().item<bool>());
    for (const torch::Tensor& parameter : model->parameters())
        EXPECT_TRUE(parameter.isfinite().all().item<bool>());
}

TEST_F(CollaborativeOptimizerTest, ends_when_nothing_that_it_is_given_is_finite) {
    const auto model = std::make_shared<NumberModule>();
    Session session = host(model);
    CollaborativeOptimizer optimizer(session);
    int steps = 0;
    try {
        for (; steps < 1000; ++steps) {
            model->number.mutable_grad() =
                torch::full({1}, std::numeric_limits<float>::quiet_NaN());
            optimizer.step(micro_batch);
        }
    } catch (const std::runtime_error& failure) {
        EXPECT_NE(std::string(failure.what()).find("last 64 gradients"), std::string::npos)
            << failure.what();
    }
    EXPECT_EQ(steps, 63);
}

TEST_F(CollaborativeOptimizerTest, says_so_when_step_finds_no_gradient) {
    const auto model = std::make_shared<NumberModule>();
    Session session = host(model);
    CollaborativeOptimizer optimizer(session);
    const std::string failure = failure_of([&] { optimizer.step(micro_batch); });
    EXPECT_NE(failure.find("no gradient: call backward()"), std::string::npos) << failure;
    EXPECT_FALSE(step_once(optimizer, *model, micro_batch));
}

// No round would take them, and step() would wait for one for ever.
TEST_F(CollaborativeOptimizerTest, refuses_more_samples_at_a_time_than_the_run_takes) {
    const auto model = std::make_shared<NumberModule>();
    JoinOptions hosting = options("peer");
    hosting.run_file = run_file("", "steps = 2", /*micro=*/1);
    Session session = join(model, hosting);
    CollaborativeOptimizer optimizer(session);
    const std::string failure = failure_of([&] { step_once(optimizer, *model, 65); });
    EXPECT_NE(failure.find("at most 64 samples"), std::string::npos) << failure;
    EXPECT_TRUE(step_once(optimizer, *model, 64));
}

// A round waits a minute for the peer that joined and computes nothing.
TEST_F(CollaborativeOptimizerTest, leaves_in_time_though_a_round_outlasts_its_timeout) {
    const auto model = std::make_shared<NumberModule>();
    Session session = host(model, "round_deadline_min = \"60s\"\nquorum_timeout = \"1s\"\n");
    const auto model_of_other = std::make_shared<NumberModule>();
    Session other = guest(model_of_other, session, "other");
    Session idle = guest(std::make_shared<NumberModule>(), session, "idle");
    CollaborativeOptimizer optimizer(session);
    EXPECT_FALSE(step_once(optimizer, *model, micro_batch));
    const std::future<void> filled = std::async(std::launch::async, [&] {
        CollaborativeOptimizer optimizer_of_other(other);
        step_once(optimizer_of_other, *model_of_other, batches_a_step * micro_batch);
    });
    std::future<void> left =
        std::async(std::launch::async, [&] { session.leave(std::chrono::seconds(2)); });
    // Without a deadline of its own this test would wait for ever, too.
    if (left.wait_for(std::chrono::seconds(15)) != std::future_status::ready) {
        ADD_FAILURE() << "it still waits";
        std::_Exit(1);
    }
    idle.leave(std::chrono::seconds(1));  // the other one ends its round without them
}

nn::Sequential small_network() {
    return nn::Sequential(nn::Linear(2, 3), nn::BatchNorm1d(3), nn::Linear(3, 1));
}

// Forward and backward; the forward pass moves BatchNorm's statistics.
void compute(nn::Sequential& model, std::int64_t samples) {
    model->forward(torch::rand({samples, 2})).mean().backward();
}

// Do both hold the same parameters and float buffers?
bool are_equal(const nn::Module& one, const nn::Module& other) {
    const auto numbers = [](const nn::Module& model) {
        std::vector<torch::Tensor> all = model.parameters();
        for (const torch::Tensor& buffer : model.buffers())
            if (buffer.is_floating_point()) all.push_back(buffer);
        return all;
    };
    return std::ranges::equal(
        numbers(one), numbers(other), [](const torch::Tensor& a, const torch::Tensor& b) {
            return a.equal(b);
        });
}

// The host makes the only step while the others are between two calls of step().
TEST_F(CollaborativeOptimizerTest, has_the_last_state_of_a_run_that_others_ended) {
    JoinOptions hosting = options("peer");
    hosting.run_file = run_file("", "steps = 1");
    nn::Sequential model = small_network();
    nn::Sequential model_of_one = small_network();
    nn::Sequential model_of_two = small_network();
    Session session = join(model, hosting);
    Session one = guest(model_of_one.ptr(), session, "one");
    Session two = guest(model_of_two.ptr(), session, "two");
    CollaborativeOptimizer optimizer(session);
    CollaborativeOptimizer optimizer_of_one(one);
    compute(model_of_one, micro_batch);
    compute(model_of_two, micro_batch);
    compute(model, batches_a_step * micro_batch);
    EXPECT_TRUE(optimizer.step(batches_a_step * micro_batch));
    session.leave(std::chrono::seconds(60));  // waits until both have made the step as well
    ASSERT_TRUE(one.finished());
    ASSERT_TRUE(two.finished());
    EXPECT_FALSE(are_equal(*model_of_one, *model));
    EXPECT_TRUE(optimizer_of_one.step(micro_batch));
    EXPECT_TRUE(are_equal(*model_of_one, *model)) << "after step()";
    EXPECT_FALSE(optimizer_of_one.step(micro_batch)) << "it has it already";
    two.leave();
    EXPECT_TRUE(are_equal(*model_of_two, *model)) << "after leave()";
    EXPECT_EQ(two.state_hash(), session.state_hash());
    // The owner's changes after that stay.
    torch::NoGradGuard no_grad;
    model_of_two->parameters().front().fill_(7);
    two.leave();
    EXPECT_FALSE(are_equal(*model_of_two, *model));
}

TEST_F(CollaborativeOptimizerTest, can_leave_again_when_its_last_state_could_not_be_saved) {
    const auto model = std::make_shared<NumberModule>();
    Session session = host(model, "[checkpoint]\nevery = 50\n");
    CollaborativeOptimizer optimizer(session);
    EXPECT_TRUE(step_once(optimizer, *model, 64));
    const std::filesystem::path folder = options("peer").directory + "/checkpoints";
    std::ofstream(folder) << "no folder";
    for (int i = 0; i < 2; ++i) EXPECT_NE(failure_of([&] { session.leave(); }), "");
    std::filesystem::remove(folder);
    EXPECT_EQ(failure_of([&] { session.leave(); }), "");
    EXPECT_TRUE(std::filesystem::is_directory(folder));
}

TEST_F(CollaborativeOptimizerTest, no_two_sessions_have_the_same_seed) {
    const Session session = host(std::make_shared<NumberModule>());
    const auto model = std::make_shared<NumberModule>();
    std::uint64_t seed_before = 0;
    {
        Session other = guest(model, session);
        seed_before = other.seed();
        EXPECT_NE(seed_before, session.seed());
        CollaborativeOptimizer optimizer(other);
        EXPECT_FALSE(step_once(optimizer, *model, micro_batch));
        EXPECT_EQ(other.seed(), seed_before);
        other.leave(Duration(0));
    }
    EXPECT_NE(guest(model, session).seed(), seed_before) << "it would draw the same ones again";
}

class KindsSink final : public events::EventSink {
  public:
    void record(const events::Event& event) override {
        const std::lock_guard lock(mutex_);
        kinds_.insert(std::string(event.kind()));
    }
    bool has(const std::string& kind) const {
        const std::lock_guard lock(mutex_);
        return kinds_.contains(kind);
    }

  private:
    mutable std::mutex mutex_;
    std::set<std::string> kinds_;
};

TEST_F(CollaborativeOptimizerTest, tells_its_sink_what_happens) {
    KindsSink events;
    JoinOptions hosting = options("peer");
    hosting.run_file = run_file();
    hosting.events = &events;
    const auto model = std::make_shared<NumberModule>();
    Session session = join(model, hosting);
    CollaborativeOptimizer optimizer(session);
    EXPECT_TRUE(step_once(optimizer, *model, 64));
    session.leave();
    for (const char* kind : {"run_started", "step", "left"}) EXPECT_TRUE(events.has(kind)) << kind;
}

TEST_F(CollaborativeOptimizerTest, computes_on_while_a_delayed_step_is_made) {
    JoinOptions hosting = options("peer");
    hosting.run_file = run_file("delayed = true\n", "steps = 4");
    const auto model = std::make_shared<NumberModule>();
    Session session = join(model, hosting);
    CollaborativeOptimizer optimizer(session);
    for (int i = 1; i <= batches_a_step; ++i)
        EXPECT_FALSE(step_once(optimizer, *model, micro_batch)) << "the step has only begun";
    EXPECT_EQ(model->number.item<float>(), 0);
    std::vector<float> seen;
    while (!optimizer.finished())
        if (step_once(optimizer, *model, micro_batch)) seen.push_back(model->number.item<float>());
    session.leave();
    EXPECT_EQ(session.global_step(), 4u);
    EXPECT_FLOAT_EQ(model->number.item<float>(), -4 * rate);
    ASSERT_FALSE(seen.empty());
    EXPECT_FLOAT_EQ(seen.front(), -rate) << "a later step() loads it";
}

// Inner steps of rate 1/2 on a gradient of 1: each of four goes half a unit; the outer step goes a
// quarter of the way.
TEST_F(CollaborativeOptimizerTest, makes_local_updates) {
    const auto model = std::make_shared<NumberModule>();
    Session session = host(model,
                           "[local]\nbatch = 16\n[local.optimizer]\nkind = \"sgd\"\nmomentum = 0\n"
                           "[local.schedule]\npeak = 0.5\n");
    CollaborativeOptimizer optimizer(session);
    for (int i = 1; i < batches_a_step; ++i) {
        EXPECT_FALSE(step_once(optimizer, *model, micro_batch));
        EXPECT_FLOAT_EQ(model->number.item<float>(), -0.5f * static_cast<float>(i));
    }
    EXPECT_TRUE(step_once(optimizer, *model, micro_batch));
    EXPECT_FLOAT_EQ(model->number.item<float>(), -0.25f * 2);
}

TEST_F(CollaborativeOptimizerTest, what_it_measures_ends_the_run_and_leaves_no_trace) {
    const auto model = std::make_shared<NumberModule>();
    JoinOptions hosting = options("peer");
    hosting.run_file = run_file("", "accuracy = 0.9");
    hosting.evaluate_every = 2;
    std::vector<float> measured;
    hosting.calls.evaluate = [&]() -> Result<collab::Evaluation> {
        measured.push_back(model->number.item<float>());
        model->number.sum().backward();  // as one who forgets to say no_grad
        return collab::Evaluation{
            .loss = 1, .accuracy = measured.size() < 2 ? 0.5 : 1.0, .samples = 10};
    };
    Session session = join(model, hosting);
    CollaborativeOptimizer optimizer(session);
    int calls = 0;
    while (!optimizer.finished() && calls < 100) {
        step_once(optimizer, *model, micro_batch);
        ++calls;
    }
    EXPECT_EQ(calls, 4 * batches_a_step);
    ASSERT_EQ(measured.size(), 2u);
    EXPECT_FLOAT_EQ(measured[0], -2 * rate);
    EXPECT_FLOAT_EQ(measured[1], -4 * rate);
    session.leave();
    EXPECT_FLOAT_EQ(model->number.item<float>(), -4 * rate);
}

constexpr const char* robust_section = "[robust]\ncheck = 1.0\nprobation = 1\n";

TEST_F(CollaborativeOptimizerTest,
       hosts_no_robust_run_in_which_newcomers_would_never_weigh_anything) {
    const std::string failure =
        failure_of([&] { host(std::make_shared<NumberModule>(), robust_section); });
    EXPECT_NE(failure.find("newcomers of this robust run would never weigh anything"),
              std::string::npos)
        << failure;
}

// The gradient of a sample is a function of author and number.
TEST_F(CollaborativeOptimizerTest, computes_numbered_samples_and_checks_a_newcomers) {
    std::mutex mutex;
    std::set<std::string> computed_as;  // by the host
    const auto calls_for = [&](const std::shared_ptr<NumberModule>& model, bool hosts) {
        train::LoopCalls calls;
        calls.compute = [&, model, hosts](const PeerId& author,
                                          collab::CounterRange samples) -> Result<double> {
            if (hosts) {
                const std::lock_guard lock(mutex);
                computed_as.insert(author.text());
            }
            const float slope = 1 + static_cast<float>(author.bytes().back() % 4) / 8 +
                                static_cast<float>(samples.begin % 7) / 8;
            (model->number.sum() * slope).backward();
            return 0.5;
        };
        return calls;
    };
    const auto model = std::make_shared<NumberModule>();
    JoinOptions hosting = options("peer");
    hosting.run_file = run_file(robust_section, "steps = 12");
    hosting.calls = calls_for(model, true);
    Session session = join(model, hosting);
    const auto newcomers = std::make_shared<NumberModule>();
    JoinOptions joining = options("guest");
    joining.join = session.join_string();
    joining.calls = calls_for(newcomers, false);
    Session other = join(newcomers, joining);
    const std::string id = other.peer_id();
    std::future<void> trained = std::async(std::launch::async, [&] {
        CollaborativeOptimizer optimizer(other);
        while (!optimizer.finished()) optimizer.step(micro_batch);
    });
    CollaborativeOptimizer optimizer(session);
    while (!optimizer.finished()) optimizer.step(micro_batch);  // without a gradient: it computes
    trained.get();
    other.leave();
    session.leave();
    EXPECT_TRUE(computed_as.contains(session.peer_id()));
    EXPECT_TRUE(computed_as.contains(id)) << "it checked the newcomer";
    EXPECT_EQ(session.state_hash(), other.state_hash());
}

TEST_F(CollaborativeOptimizerTest, keeps_its_event_log_and_a_join_string_in_its_folder) {
    const std::filesystem::path folder = directory_ / "peer";
    const auto text_of = [](const std::filesystem::path& path) {
        std::ifstream file(path);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    {
        const auto model = std::make_shared<NumberModule>();
        Session session = host(model);
        EXPECT_EQ(text_of(folder / "join.txt"), session.join_string() + "\n");
        CollaborativeOptimizer optimizer(session);
        EXPECT_TRUE(step_once(optimizer, *model, 64));
        session.leave();
        EXPECT_FALSE(std::filesystem::exists(folder / "join.txt"));
    }
    const std::string events = text_of(folder / "events.jsonl");
    for (const char* kind : {"\"run_started\"", "\"step\"", "\"left\""})
        EXPECT_NE(events.find(kind), std::string::npos) << kind;
}

TEST_F(CollaborativeOptimizerTest, hosts_a_run_that_lets_in_by_invitation) {
    JoinOptions hosting = options("peer");
    hosting.run_file = run_file();
    hosting.admit = "list";
    std::string join_string;
    {
        Session session = join(std::make_shared<NumberModule>(), hosting);
        EXPECT_TRUE(std::filesystem::exists(directory_ / "peer" / "authority.key"));
        const std::string refused =
            failure_of([&] { guest(std::make_shared<NumberModule>(), session); });
        EXPECT_NE(refused.find("invitation"), std::string::npos) << refused;
    }
    std::ofstream(hosting.run_file, std::ios::app)
        << "[access]\nauthority = \""
        << train::authority_in(directory_ / "peer")->value().id().text() << "\"\n";
    hosting.admit.clear();
    EXPECT_EQ(failure_of([&] { join(std::make_shared<NumberModule>(), hosting); }), "");
    hosting.directory = directory_ / "elsewhere";
    const std::string failure =
        failure_of([&] { join(std::make_shared<NumberModule>(), hosting); });
    EXPECT_NE(failure.find("authority.key"), std::string::npos) << failure;
}

// Two parameters, one of them frozen.
struct ChangingModule : nn::Module {
    torch::Tensor trained = register_parameter("trained", torch::zeros({2, 2}));
    torch::Tensor frozen = register_parameter("frozen", torch::ones({2}), false);
    void add_one() { register_parameter("another", torch::ones({2})); }
};

TEST_F(CollaborativeOptimizerTest, says_how_a_model_changed_after_it_joined) {
    const auto failure_after = [&](const std::function<void(ChangingModule&)>& change) {
        const auto model = std::make_shared<ChangingModule>();
        Session session = host(model);
        CollaborativeOptimizer optimizer(session);
        const auto step = [&] {
            optimizer.zero_grad();
            (model->parameters().front() * 2).sum().to(torch::kFloat32).backward();
            optimizer.step(micro_batch);
        };
        step();
        change(*model);
        return failure_of(step);
    };
    const auto expect = [](const std::string& failure, const char* words) {
        EXPECT_NE(failure.find(words), std::string::npos) << failure;
    };
    expect(failure_after([](ChangingModule& model) {
               torch::NoGradGuard no_grad;
               model.trained.clamp_(-1, 1);
           }),
           "'trained' was changed in place");
    expect(failure_after([](ChangingModule& model) { model.frozen.requires_grad_(true); }),
           "'frozen' was thawed");
    expect(failure_after([](ChangingModule& model) { model.to(torch::kFloat64); }),
           "'trained' was converted to Double");
    expect(failure_after([](ChangingModule& model) { model.add_one(); }), "other parameters");
    EXPECT_EQ(failure_after([](ChangingModule& model) {
                  model.trained.set_data(model.trained.data().t().contiguous().t());
              }),
              "")
        << "other strides are followed";
}

TEST_F(CollaborativeOptimizerTest, goes_on_from_a_checkpoint_of_its_own) {
    const auto model = std::make_shared<NumberModule>();
    JoinOptions resuming = options("peer");
    std::string hash;
    {
        Session session = host(model, "[checkpoint]\nevery = 1\n");
        CollaborativeOptimizer optimizer(session);
        EXPECT_TRUE(step_once(optimizer, *model, 64));
        hash = session.state_hash();
        const std::filesystem::path saved = resuming.directory + "/checkpoints";
        EXPECT_TRUE(std::filesystem::exists(saved)) << "before it leaves";
        std::filesystem::copy(saved, directory_ / "copy", std::filesystem::copy_options::recursive);
    }
    for (const std::string& folder : {resuming.directory, (directory_ / "copy").string()}) {
        const auto fresh = std::make_shared<NumberModule>();
        resuming.resume = folder;
        Session session = join(fresh, resuming);
        EXPECT_EQ(session.global_step(), 1u);
        EXPECT_EQ(session.state_hash(), hash);
        EXPECT_EQ(fresh->number.item<float>(), -static_cast<float>(rate));
    }
    const std::string failure =
        failure_of([&] { join(nn::Sequential(nn::Linear(1, 1)), resuming); });
    EXPECT_NE(failure.find("does not fit the model"), std::string::npos) << failure;
}

// A mean over all batches, whose weights follow from a counter; and a buffer of the loop's own.
struct CumulativeMean : nn::Module {
    nn::BatchNorm1d norm =
        register_module("norm", nn::BatchNorm1d(nn::BatchNormOptions(1).momentum(c10::nullopt)));
    torch::Tensor queue = register_buffer("queue", torch::zeros({2}));

    void compute() {
        queue.add_(1);
        norm->forward(torch::randn({micro_batch, 1}) + 10).mean().backward();
    }
    std::int64_t counter() const { return norm->num_batches_tracked.item<std::int64_t>(); }
    float mean() const { return norm->running_mean.item<float>(); }
};

TEST_F(CollaborativeOptimizerTest, counters_are_in_the_state_and_private_buffers_are_not) {
    constexpr int steps = 10;
    JoinOptions options_of_host = options("peer");
    options_of_host.run_file = run_file("[checkpoint]\nevery = 1\n", "steps = 1000");
    options_of_host.private_buffers = {"queue"};
    const auto take_steps = [](CumulativeMean& model, Session& session, int count) {
        CollaborativeOptimizer optimizer(session);
        for (int i = 0; i < count * batches_a_step; ++i) {
            optimizer.zero_grad();
            model.compute();
            optimizer.step(micro_batch);
        }
    };
    {
        const auto model = std::make_shared<CumulativeMean>();
        Session session = join(model, options_of_host);
        take_steps(*model, session, steps);
        EXPECT_EQ(model->counter(), steps * batches_a_step);
        EXPECT_EQ(model->queue[0].item<float>(), steps * batches_a_step);
        const auto newcomer = std::make_shared<CumulativeMean>();
        JoinOptions joining = options("guest");
        joining.join = session.join_string();
        joining.private_buffers = {"queue"};
        const Session other = join(newcomer, joining);
        EXPECT_EQ(newcomer->counter(), steps * batches_a_step);
        EXPECT_EQ(newcomer->queue[0].item<float>(), 0);
    }
    options_of_host.run_file.clear();
    options_of_host.resume = options_of_host.directory;
    const auto model = std::make_shared<CumulativeMean>();
    Session session = join(model, options_of_host);
    EXPECT_EQ(model->counter(), steps * batches_a_step);
    EXPECT_NEAR(model->mean(), 10, 0.3);
    take_steps(*model, session, 1);
    EXPECT_EQ(model->counter(), (steps + 1) * batches_a_step);
    EXPECT_NEAR(model->mean(), 10, 0.3) << "one step weighs as much as each before it";
}

// The inputs' variance is beyond fp16's range, and its change beyond any norm of a gradient.
TEST_F(CollaborativeOptimizerTest, buffers_of_inputs_that_are_not_normalised_follow_them) {
    for (const std::string codec : {"fp32", "fp16", "adaptive"}) {
        JoinOptions hosting = options(codec);
        hosting.run_file = run_file("", "steps = 1000", micro_batch, codec);
        const auto model = std::make_shared<nn::BatchNorm1dImpl>(1);
        Session session = join(model, hosting);
        CollaborativeOptimizer optimizer(session);
        for (int i = 0; i < 20 * batches_a_step; ++i) {
            optimizer.zero_grad();
            model->forward(torch::randn({micro_batch, 1}) * 1e4).mean().backward();
            optimizer.step(micro_batch);
        }
        EXPECT_EQ(session.global_step(), 20u) << codec;
        EXPECT_NEAR(model->running_var.item<float>(), 1e8, 5e7) << codec;
    }
}

TEST_F(CollaborativeOptimizerTest, trains_with_sparse_gradients) {
    nn::Embedding rows(nn::EmbeddingOptions(5, 1).sparse(true));
    torch::nn::init::zeros_(rows->weight);
    Session session = host(rows.ptr());
    CollaborativeOptimizer optimizer(session);
    for (int i = 0; i < batches_a_step; ++i) {
        optimizer.zero_grad();
        rows->forward(torch::tensor({1, 3}, torch::kLong)).mean().backward();
        optimizer.step(micro_batch);
    }
    ASSERT_EQ(session.global_step(), 1u);
    const auto half = static_cast<float>(-rate / 2);
    EXPECT_TRUE(rows->weight.equal(torch::tensor({{0.f}, {half}, {0.f}, {half}, {0.f}})));
}

TEST_F(CollaborativeOptimizerTest, saves_its_last_state_when_it_leaves) {
    const auto model = std::make_shared<NumberModule>();
    {
        Session session = host(model, "[checkpoint]\nevery = 50\n");
        CollaborativeOptimizer optimizer(session);
        EXPECT_TRUE(step_once(optimizer, *model, 64));
    }
    JoinOptions resuming = options("peer");
    resuming.resume = resuming.directory;
    EXPECT_EQ(join(model, resuming).global_step(), 1u);
}

TEST_F(CollaborativeOptimizerTest, hosts_no_run_that_only_an_accuracy_ends) {
    JoinOptions hosting = options("peer");
    hosting.run_file = run_file("", "accuracy = 0.9");
    const std::string failure =
        failure_of([&] { join(std::make_shared<NumberModule>(), hosting); });
    EXPECT_NE(failure.find("would never end"), std::string::npos) << failure;
}

// One trained layer, or two of equal sizes whose names are in either order, and a constant.
struct LayersModule : nn::Module {
    explicit LayersModule(float constant, std::vector<std::string> names = {"a", "b"}) {
        for (const std::string& name : names) register_parameter(name, torch::ones({2, 2}));
        register_parameter("frozen", torch::full({3}, constant), /*requires_grad=*/false);
        register_module("norm", nn::BatchNorm1d(2));
    }
};

TEST_F(CollaborativeOptimizerTest, trains_together_only_what_is_the_same_model) {
    const Session session = host(std::make_shared<LayersModule>(1.0f));
    const auto failure_with = [&](const std::shared_ptr<nn::Module>& model) {
        return failure_of([&] { guest(model, session); });
    };
    const std::string other_values = failure_with(std::make_shared<LayersModule>(2.0f));
    EXPECT_NE(other_values.find("frozen parameters"), std::string::npos) << other_values;
    const std::vector<std::string> turned_round{"b", "a"};
    const std::string other_order =
        failure_with(std::make_shared<LayersModule>(1.0f, turned_round));
    EXPECT_NE(other_order.find("built differently"), std::string::npos) << other_order;
    // Not with what training moves by itself.
    const auto used = std::make_shared<LayersModule>(1.0f);
    used->named_buffers()["norm.num_batches_tracked"].fill_(7);
    EXPECT_EQ(failure_with(used), "");
}

TEST_F(CollaborativeOptimizerTest, names_what_is_not_finite_in_a_model) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const auto failure_with = [&](const std::shared_ptr<nn::Module>& model) {
        return failure_of([&] { host(model); });
    };
    const auto masked = std::make_shared<LayersModule>(1.0f);
    masked->register_buffer("mask", torch::full({2}, -infinity));
    const std::string buffer = failure_with(masked);
    EXPECT_NE(buffer.find("'mask' holds numbers that are not finite; float buffers are averaged"),
              std::string::npos)
        << buffer;
    const auto broken = std::make_shared<NumberModule>();
    broken->number.data().fill_(infinity);
    const std::string parameter = failure_with(broken);
    EXPECT_NE(parameter.find("'number' holds numbers that are not finite"), std::string::npos)
        << parameter;
    EXPECT_EQ(failure_with(std::make_shared<LayersModule>(infinity)), "") << "it is not averaged";
}

}  // namespace
}  // namespace dedloc::torch_bridge
