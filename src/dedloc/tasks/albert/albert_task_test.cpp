#include "dedloc/tasks/albert/albert_task.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <unistd.h>

#include "dedloc/base/random.h"
#include "dedloc/optim/optimizer.h"
#include "dedloc/security/identity.h"
#include "dedloc/tasks/albert/albert_section.h"
#include "dedloc/tasks/safetensors.h"
#include "dedloc/tasks/text_section.h"

namespace dedloc::tasks {
namespace {

namespace fs = std::filesystem;

PeerId peer(std::uint8_t number) { return security::Identity::from_seed(Bytes(32, number))->id(); }

// A folder with little sentences about few things, and the tokenizer of it.
class AlbertTaskTest : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        folder_ =
            (fs::temp_directory_path() / fmt::format("dedloc-albert-{}", ::getpid())).string();
        ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
        fs::create_directories(folder_ + "/books");
        std::ofstream book(folder_ + "/books/one.txt");
        const char* who[] = {"The king", "A shepherd", "The old ship", "My brother", "No lion"};
        const char* did[] = {"went over", "looked upon", "built", "remembered", "spoke against"};
        const char* what[] = {"the river", "a great city", "his father's house", "seven stars"};
        Random random(4);
        for (int i = 0; i < 3000; ++i) {
            book << who[random.below(5)] << ' ' << did[random.below(5)] << ' '
                 << what[random.below(4)] << (i % 20 == 19 ? ".\n\n" : ". ");
        }
        book.close();
        task_ = make_task(config(), options());
    }
    static void TearDownTestSuite() {
        task_ = make_error(ErrorKind::not_found, "over");
        fs::remove_all(folder_);
    }

    struct Keys {
        AlbertConfig albert{.vocabulary = 64,
                            .embedding = 16,
                            .hidden = 32,
                            .layers = 2,
                            .heads = 2,
                            .feed_forward = 64,
                            .positions = 32};
        TextKeys text{.tokenizer = "vocabulary=50",
                      .length = 32,
                      .held_out = 0.2,
                      .held_out_samples = 40,
                      .window_samples = 256};
    };
    static run::TaskConfig config() { return config(Keys()); }
    static run::TaskConfig config(const Keys& keys) {
        run::TaskConfig config{
            .kind = "albert", .model = "albert", .data = "text:books?documents=paragraph"};
        config.set_section(run::section_from(albert_section_name, keys.albert));
        config.set_section(run::section_from(text_section_name, keys.text));
        return config;
    }
    static TaskOptions options() {
        return {.device = "cpu", .threads_count = 1, .data_directory = folder_};
    }
    static const TrainingTask& task() { return **task_; }
    void SetUp() override { ASSERT_TRUE(task_) << task_.error().message(); }

    static std::string folder_;
    static Result<std::shared_ptr<const TrainingTask>> task_;
};
std::string AlbertTaskTest::folder_;
Result<std::shared_ptr<const TrainingTask>> AlbertTaskTest::task_ =
    make_error(ErrorKind::not_found, "not made");

double measured(const std::vector<Measure>& measures, const std::string& name) {
    for (const Measure& measure : measures)
        if (measure.name == name) return measure.value;
    ADD_FAILURE() << name;
    return 0;
}

TEST_F(AlbertTaskTest, learns_to_fill_in_words) {
    const auto learner = *task().learner(peer(1));
    const run::Layout layout = learner->layout();
    std::vector<float> parameters(layout.parameters_count);
    learner->store(parameters, {});
    std::vector<std::vector<float>> moments(2, std::vector<float>(parameters.size()));
    const std::span<float> moment_spans[] = {moments[0], moments[1]};
    optim::OptimizerConfig adam{.kind = optim::OptimizerKind::adamw};
    adam.schedule = {.peak = 0.01, .warmup_steps = 10};
    const auto before = task().measure(parameters, {}, 0);
    ASSERT_TRUE(before) << before.error().message();
    EXPECT_NEAR(measured(*before, "masked_loss"), std::log(64), 0.3);
    EXPECT_EQ(measured(*before, "samples"), 40);
    std::vector<float> gradient(parameters.size());
    for (std::uint64_t step = 0; step < 80; ++step) {
        learner->load(parameters, {});
        ASSERT_TRUE(learner->accumulate({step * 16, (step + 1) * 16}));
        learner->take(gradient, {}, 16);
        for (float& value : gradient) value /= 16;
        (void)optim::step(adam, layout.parameters, step, parameters, gradient, moment_spans);
    }
    const auto after = task().measure(parameters, {}, 0);
    ASSERT_TRUE(after);
    EXPECT_LT(measured(*after, "masked_loss"), 3.0);       // 4.2 at the start
    EXPECT_GT(measured(*after, "masked_accuracy"), 0.12);  // 1 of 50 at the start
    EXPECT_NEAR(measured(*after, "perplexity"), std::exp(measured(*after, "masked_loss")), 1e-6);
    learner->load(parameters, {});
    const auto evaluation = learner->evaluate();
    ASSERT_TRUE(evaluation);
    EXPECT_NEAR(evaluation->loss,
                measured(*after, "masked_loss") + measured(*after, "order_loss"),
                0.3);  // means over samples there, over words here
}

// The same steps in both precisions, by 8 samples, from the same start.
TEST_F(AlbertTaskTest, learns_in_mixed_precision_as_well) {
    const auto losses_in = [&](const std::string& precision) {
        run::TaskConfig mixed = config();
        mixed.precision = precision;
        const auto made = make_task(mixed, options());
        EXPECT_TRUE(made) << made.error().message();
        const auto learner = *(*made)->learner(peer(1));
        const run::Layout layout = learner->layout();
        std::vector<float> parameters(layout.parameters_count);
        learner->store(parameters, {});
        std::vector<std::vector<float>> moments(2, std::vector<float>(parameters.size()));
        const std::span<float> moment_spans[] = {moments[0], moments[1]};
        optim::OptimizerConfig adam{.kind = optim::OptimizerKind::adamw};
        adam.schedule = {.peak = 0.01, .warmup_steps = 10};
        std::vector<float> gradient(parameters.size());
        std::vector<double> losses;
        for (std::uint64_t step = 0; step < 40; ++step) {
            learner->load(parameters, {});
            const auto report = learner->accumulate({step * 8, (step + 1) * 8});
            EXPECT_TRUE(report) << report.error().message();
            if (!report) return losses;
            if (step == 0) losses.push_back(report->loss_sum / 8);
            learner->take(gradient, {}, 8);
            for (float& value : gradient) value /= 8;
            (void)optim::step(adam, layout.parameters, step, parameters, gradient, moment_spans);
        }
        learner->load(parameters, {});
        losses.push_back(learner->evaluate()->loss);
        return losses;
    };
    const std::vector<double> fp32 = losses_in("fp32");
    const std::vector<double> bf16 = losses_in("bf16");
    ASSERT_EQ(bf16.size(), 2u);
    EXPECT_NE(fp32[0], bf16[0]);  // it does compute differently
    EXPECT_NEAR(bf16[0] / fp32[0], 1, 0.01);
    EXPECT_LT(fp32[1], fp32[0] - 0.5);
    EXPECT_NEAR(bf16[1] / fp32[1], 1, 0.05) << fp32[1];
}

TEST_F(AlbertTaskTest, a_gradient_is_a_function_of_peer_and_numbers) {
    const auto gradient_of = [&](const PeerId& id, std::vector<collab::CounterRange> ranges) {
        const auto learner = *task().learner(id);
        std::vector<float> parameters(learner->layout().parameters_count);
        learner->store(parameters, {});
        learner->load(parameters, {});
        for (const collab::CounterRange& range : ranges) EXPECT_TRUE(learner->accumulate(range));
        std::vector<float> gradient(parameters.size());
        learner->take(gradient, {}, 1);
        return gradient;
    };
    const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
        double squares = 0;
        double size = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            squares += std::pow(static_cast<double>(a[i] - b[i]), 2);
            size += std::pow(static_cast<double>(b[i]), 2);
        }
        return std::sqrt(squares / size);
    };
    const auto once = gradient_of(peer(1), {{250, 262}});  // over the end of a window
    EXPECT_LT(distance(gradient_of(peer(1), {{250, 255}, {255, 262}}), once), 1e-5);
    EXPECT_GT(distance(gradient_of(peer(2), {{250, 262}}), once), 0.01);
    EXPECT_GT(distance(gradient_of(peer(1), {{251, 263}}), once), 0.01);
}

TEST_F(AlbertTaskTest, exports_files_that_open) {
    const auto learner = *task().learner(peer(1));
    std::vector<float> parameters(learner->layout().parameters_count);
    learner->store(parameters, {});
    const std::string out = folder_ + "/out";
    fs::create_directories(out);
    const auto names = task().export_model(parameters, {}, out);
    ASSERT_TRUE(names) << names.error().message();
    EXPECT_EQ(names->size(), 5u);
    std::ifstream tokenizer(out + "/tokenizer_config.json");
    const std::string said((std::istreambuf_iterator<char>(tokenizer)), {});
    EXPECT_NE(said.find("\"do_lower_case\": false"), std::string::npos) << said;
    EXPECT_NE(said.find("\"keep_accents\": true"), std::string::npos) << said;
    for (const std::string& name : *names) EXPECT_GT(fs::file_size(out + "/" + name), 0u) << name;
    torch::jit::Module script = torch::jit::load(out + "/model.pt");
    const torch::Tensor ids = torch::full({2, 7}, 6, torch::kInt64);
    const auto outputs =
        script.forward({ids, torch::ones_like(ids), torch::zeros_like(ids)}).toTuple();
    EXPECT_EQ(outputs->elements()[0].toTensor().sizes(), (torch::IntArrayRef{2, 7, 64}));
    const auto weights = task().read_weights(out);
    ASSERT_TRUE(weights) << weights.error().message();
    EXPECT_EQ(*weights, parameters);
    EXPECT_FALSE(task().read_weights(folder_));
    EXPECT_FALSE(task().export_model(std::span(parameters).first(5), {}, out));
    EXPECT_FALSE(task().export_model(parameters, {}, folder_ + "/nowhere"));
}

TEST_F(AlbertTaskTest, says_what_it_decided_and_shows_samples) {
    const auto decided = task().decided_config();
    ASSERT_TRUE(decided);
    EXPECT_EQ(text_keys(*decided).tokenizer_hash.size(), 64u);
    EXPECT_TRUE(make_task(*decided, options()));
    Keys keys;
    keys.text.tokenizer_hash = std::string(64, 'a');
    const run::TaskConfig other = config(keys);
    const auto conflict = make_task(other, options());
    ASSERT_FALSE(conflict);
    EXPECT_EQ(conflict.error().kind(), ErrorKind::conflict);
    const auto texts = task().sample_texts(3);
    ASSERT_TRUE(texts);
    ASSERT_EQ(texts->size(), 3u);
    EXPECT_NE((*texts)[0].find("[CLS]"), std::string::npos);
    EXPECT_NE((*texts)[0].find("[MASK]"), std::string::npos);
    EXPECT_GT(task().memory(4).activations, task().memory(1).activations * 3);
}

TEST_F(AlbertTaskTest, refuses_what_does_not_fit) {
    const auto reason = [&](const run::TaskConfig& changed) {
        const auto made = make_task(changed, options());
        return made ? std::string() : made.error().message();
    };
    const auto problem = [&](auto change) {
        Keys keys;
        change(keys);
        return reason(config(keys));
    };
    run::TaskConfig large = config();
    large.model = "large";
    EXPECT_NE(reason(large).find("task.model"), std::string::npos);
    run::TaskConfig nowhere = config();
    nowhere.data = "text:nowhere";
    EXPECT_NE(reason(nowhere), "");
    EXPECT_NE(problem([](auto& c) { c.albert.vocabulary = 49; }).find("50 pieces"),
              std::string::npos);
    EXPECT_NE(problem([](auto& c) { c.albert.heads = 3; }).find("heads"), std::string::npos);
    EXPECT_NE(problem([](auto& c) { c.text.length = 33; }).find("positions"), std::string::npos);
    EXPECT_NE(problem([](auto& c) { c.text.masked_as_random = 0.5; }).find("masked"),
              std::string::npos);
    EXPECT_NE(problem([](auto& c) { c.text.tokenizer_hash = "xyz"; }).find("tokenizer_hash"),
              std::string::npos);
    EXPECT_NE(problem([](auto& c) { c.text.held_out = 0; }).find("text.held_out: 0 leaves no"),
              std::string::npos);
    EXPECT_NE(problem([](auto& c) { c.text.tokenizer = "vocabulary=four"; }), "");
}

// A run file is a stranger's; text that it names is seen in gradients.
TEST_F(AlbertTaskTest, refuses_text_that_no_run_file_may_name) {
    const auto problem = [&](const std::string& data, const TaskOptions& with) {
        run::TaskConfig changed = config();
        changed.data = data;
        const auto made = make_task(changed, with);
        return made ? std::string() : made.error().message();
    };
    fs::create_directories(folder_ + "/data/.ssh");
    fs::copy_file(folder_ + "/books/one.txt", folder_ + "/data/.ssh/key");
    fs::create_directory_symlink(folder_ + "/books", folder_ + "/data/link");
    TaskOptions with = options();
    with.data_directory = folder_ + "/data";
    const std::string& whole = folder_;
    for (const std::string& path : {std::string("/etc/passwd"),
                                    whole + "/books",
                                    std::string("../books"),
                                    std::string("link/../books"),
                                    std::string(".ssh/key"),
                                    std::string("./.ssh/key")})
        EXPECT_EQ(problem("text:" + path + "?documents=paragraph", with),
                  fmt::format("task.data: {} is not below --data, or hidden there; a run file may "
                              "name only what is there, by its path from there",
                              path));
    EXPECT_NE(problem("text:link?documents=paragraph, jsonl:/x.jsonl", with)
                  .find("task.data: /x.jsonl is"),
              std::string::npos);
    // The link is the user's own.
    EXPECT_EQ(problem("text:./link?documents=paragraph", with), "");
    with.data_directory.clear();
    EXPECT_EQ(problem("text:books?documents=paragraph", with),
              "this run's text is text:books?documents=paragraph: say with --data which folder "
              "has it");
}

TEST_F(AlbertTaskTest, says_that_less_is_held_out_than_evaluations_want) {
    Keys keys;
    keys.text.held_out_samples = 100'000;
    const run::TaskConfig many = config(keys);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(make_task(many, options()));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("samples, not text.held_out_samples = 100000"), std::string::npos) << said;
}

}  // namespace
}  // namespace dedloc::tasks
