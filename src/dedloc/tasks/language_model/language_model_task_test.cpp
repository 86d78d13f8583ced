#include "dedloc/tasks/language_model/language_model_task.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "dedloc/data/catalogue.h"
#include "dedloc/optim/optimizer.h"
#include "dedloc/security/identity.h"
#include "dedloc/tasks/data_section.h"
#include "dedloc/tasks/language_model/language_model_section.h"
#include "dedloc/text/language_tokenizer.h"
#include "dedloc/text/shared_blocks.h"

namespace dedloc::tasks {
namespace {

namespace fs = std::filesystem;

PeerId peer(std::uint8_t number) { return security::Identity::from_seed(Bytes(32, number))->id(); }

// A folder with little sentences about few things.
class LanguageModelTest : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        folder_ = (fs::temp_directory_path() / fmt::format("dedloc-lm-{}", ::getpid())).string();
        ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
        fs::create_directories(folder_ + "/books");
        std::ofstream book(folder_ + "/books/one.txt");
        const char* who[] = {"The king", "A shepherd", "The old ship", "My brother", "No lion"};
        const char* did[] = {"went over", "looked upon", "built", "remembered", "spoke against"};
        const char* what[] = {"the river", "a great city", "his father's house", "seven stars"};
        Random random(4);
        for (int i = 0; i < 3000; ++i)
            book << who[random.below(5)] << ' ' << did[random.below(5)] << ' '
                 << what[random.below(4)] << (i % 20 == 19 ? ".\n\n" : ". ");
        book.close();
        task_ = make_task(config(), options());
    }
    static void TearDownTestSuite() {
        task_ = make_error(ErrorKind::not_found, "over");
        fs::remove_all(folder_);
    }
    static run::TaskConfig config(const std::string& model = "llama") {
        run::TaskConfig made{
            .kind = "language_model", .model = model, .data = "text:books?documents=paragraph"};
        made.set_section(run::section_from(language_model_section_name,
                                           DecoderConfig{.vocabulary = 320,
                                                         .hidden = 32,
                                                         .layers = 2,
                                                         .heads = 4,
                                                         .key_value_heads = model == "gpt2" ? 4 : 2,
                                                         .feed_forward = 64,
                                                         .positions = 64}));
        made.set_section(
            run::section_from(text_section_name,
                              PackedTextKeys{.tokenizer = "kind=byte_bpe&vocabulary=320",
                                             .length = 64,
                                             .held_out = 0.2,
                                             .held_out_samples = 20,
                                             .window_samples = 64}));
        return made;
    }
    static TaskOptions options() {
        return {.device = "cpu", .threads_count = 1, .data_directory = folder_};
    }
    static const TrainingTask& task() { return **task_; }
    void SetUp() override { ASSERT_TRUE(task_) << task_.error().message(); }
    static std::vector<float> first_parameters() {
        const auto learner = *task().learner(peer(1));
        std::vector<float> parameters(learner->layout().parameters_count);
        learner->store(parameters, {});
        return parameters;
    }

    static std::string folder_;
    static Result<std::shared_ptr<const TrainingTask>> task_;
};
std::string LanguageModelTest::folder_;
Result<std::shared_ptr<const TrainingTask>> LanguageModelTest::task_ =
    make_error(ErrorKind::not_found, "not made");

TEST_F(LanguageModelTest, learns_to_write) {
    const auto learner = *task().learner(peer(1));
    const run::Layout layout = learner->layout();
    std::vector<float> parameters = first_parameters();
    std::vector<std::vector<float>> moments(2, std::vector<float>(parameters.size()));
    const std::span<float> moment_spans[] = {moments[0], moments[1]};
    optim::OptimizerConfig adam{.kind = optim::OptimizerKind::adamw};
    adam.schedule = {.peak = 0.01, .warmup_steps = 5};
    const auto before = task().measure(parameters, {}, 0);
    ASSERT_TRUE(before) << before.error().message();
    EXPECT_NEAR(value_of(*before, "token_loss"), std::log(320), 0.1);
    std::vector<float> gradient(parameters.size());
    for (std::uint64_t step = 0; step < 60; ++step) {
        learner->load(parameters, {});
        ASSERT_TRUE(learner->accumulate({step * 8, step * 8 + 8}));
        learner->take(gradient, {}, 8);
        for (float& value : gradient) value /= 8;
        (void)optim::step(adam, layout.parameters, step, parameters, gradient, moment_spans);
    }
    const auto after = task().measure(parameters, {}, 0);
    ASSERT_TRUE(after);
    EXPECT_LT(value_of(*after, "bits_per_byte"), 0.5 * value_of(*before, "bits_per_byte"));
    EXPECT_NEAR(value_of(*after, "bits_per_byte"),
                value_of(*after, "token_loss") * value_of(*after, "tokens") /
                    value_of(*after, "bytes") / std::log(2.0),
                1e-6);
    learner->load(parameters, {});
    const auto evaluation = learner->evaluate();
    ASSERT_TRUE(evaluation);
    EXPECT_NEAR(evaluation->loss, value_of(*after, "token_loss"), 0.1);
    EXPECT_GT(evaluation->accuracy, 0.3);
    const auto written =
        task().write(parameters, {}, {.prompt = "The king", .tokens_max = 12, .temperature = 0});
    ASSERT_TRUE(written) << written.error().message();
    EXPECT_GT(written->text.size(), 12u);
}

TEST_F(LanguageModelTest, anyone_computes_anyones_gradient) {
    const std::vector<float> parameters = first_parameters();
    const auto gradient_of = [&](train::SampledModel& learner, collab::CounterRange samples) {
        learner.load(parameters, {});
        EXPECT_TRUE(learner.accumulate(samples));
        std::vector<float> gradient(parameters.size());
        learner.take(gradient, {}, samples.size());
        return gradient;
    };
    const auto author = *task().learner(peer(1));
    const auto validator = *task().learner(peer(2));
    const auto truth = gradient_of(*author, {100, 104});
    EXPECT_NE(gradient_of(*validator, {100, 104}), truth);
    ASSERT_TRUE(validator->compute_as(peer(1)));
    EXPECT_EQ(gradient_of(*validator, {100, 104}), truth);
    EXPECT_FALSE(author->depends_on_micro_batch());
}

TEST_F(LanguageModelTest, micro_batches_add_up) {
    const std::vector<float> parameters = first_parameters();
    const auto learner = *task().learner(peer(1));
    const auto sum_of = [&](const std::vector<collab::CounterRange>& parts) {
        learner->load(parameters, {});
        for (const auto& part : parts) EXPECT_TRUE(learner->accumulate(part));
        std::vector<float> gradient(parameters.size());
        learner->take(gradient, {}, 8);
        return gradient;
    };
    const auto whole = sum_of({{0, 8}});
    const auto parts = sum_of({{0, 3}, {3, 8}});
    for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(whole[i], parts[i], 1e-4);
}

TEST_F(LanguageModelTest, names_the_tokenizer_that_it_trained_and_gives_it_away) {
    const auto decided = task().decided_config();
    ASSERT_TRUE(decided);
    const std::string hash = packed_text_keys(*decided).tokenizer_hash;
    EXPECT_EQ(hash.size(), 64u);
    ASSERT_EQ(task().files().size(), 1u);
    EXPECT_EQ((*text::LanguageTokenizer::parse(*task().files()[0]))->hash().hex(), hash);
    // A look at the model needs no text.
    TaskOptions looking{.device = "cpu", .unprepared = true};
    const auto looked = make_task(*decided, looking);
    ASSERT_TRUE(looked) << looked.error().message();
    EXPECT_TRUE((*looked)->write(first_parameters(), {}, {.prompt = "A", .tokens_max = 3}));
    EXPECT_FALSE((*looked)->measure(first_parameters(), {}, 0));
    run::TaskConfig unknown = *decided;
    PackedTextKeys keys = packed_text_keys(unknown);
    keys.tokenizer_hash = std::string(64, 'a');
    unknown.set_section(run::section_from(text_section_name, keys));
    const auto missing = missing_files(unknown, looking);
    ASSERT_TRUE(missing);
    ASSERT_EQ(missing->size(), 1u);
    EXPECT_EQ(missing->front().what, "tokenizer");
}

TEST_F(LanguageModelTest, exports_what_it_takes_as_weights) {
    const std::string out = folder_ + "/out";
    fs::create_directories(out);
    const std::vector<float> parameters = first_parameters();
    const auto names = task().export_model(parameters, {}, out);
    ASSERT_TRUE(names) << names.error().message();
    EXPECT_EQ(names->size(), 5u);
    const auto weights = task().read_weights(out);
    ASSERT_TRUE(weights) << weights.error().message();
    EXPECT_EQ(*weights, parameters);
    // A run that begins with them takes their tokenizer, too.
    TaskOptions with = options();
    with.weights_directory = out;
    run::TaskConfig other = config();
    other.data = "kjv";  // not needed: the tokenizer is there
    with.unprepared = true;
    const auto begun = make_task(other, with);
    ASSERT_TRUE(begun) << begun.error().message();
    EXPECT_EQ(packed_text_keys(*(*begun)->decided_config()).tokenizer_hash,
              packed_text_keys(*task().decided_config()).tokenizer_hash);
    EXPECT_FALSE(task().read_weights(folder_));
    // Another tokenizer would not fit the weights.
    fs::remove(out + "/tokenizer.json");
    for (const bool unprepared : {false, true}) {
        with.unprepared = unprepared;
        const auto alone = make_task(config(), with);
        ASSERT_FALSE(alone);
        EXPECT_EQ(alone.error().kind(), ErrorKind::bad_input);
        EXPECT_NE(alone.error().message().find("has no tokenizer.json"), std::string::npos)
            << alone.error().message();
    }
}

// The host's pieces, as they come from it.
class LentText final : public text::SharedBlocks {
  public:
    explicit LentText(std::shared_ptr<const data::OwnPieces> pieces) : pieces_(std::move(pieces)) {}
    std::span<const std::uint32_t> sizes() const override { return pieces_->catalogue.sizes; }
    ByteView table() const override { return pieces_->catalogue.table; }
    Result<std::string> read(std::uint64_t block) override {
        DEDLOC_TRY(const Bytes content, pieces_->read(block));
        return std::string(as_text(content));
    }
    void expect(const std::vector<std::uint64_t>&) override {}

  private:
    std::shared_ptr<const data::OwnPieces> pieces_;
};

run::TaskConfig shared_config(run::TaskConfig config) {
    config.set_section(run::section_from(
        data_section_name,
        DataKeys{.source = run_source, .licence = "CC0-1.0", .origin = "this test"}));
    return config;
}

TEST_F(LanguageModelTest, who_takes_the_text_from_the_run_computes_the_same) {
    const auto host = make_task(shared_config(config()), options());
    ASSERT_TRUE(host) << host.error().message();
    const auto decided = (*host)->decided_config();
    ASSERT_TRUE(decided);
    EXPECT_EQ(data_keys(*decided).catalogue.size(), 64u);
    EXPECT_EQ(data_keys(*decided).bytes, fs::file_size(folder_ + "/books/one.txt"));
    EXPECT_EQ((*host)->files().size(), 2u) << "tokenizer and catalogue";
    const auto again = make_task(*decided, options());
    ASSERT_TRUE(again) << again.error().message();
    const auto pieces = (*again)->own_pieces();
    ASSERT_TRUE(pieces) << pieces.error().message();
    ASSERT_TRUE(*pieces);

    const TaskOptions newcomer{
        .device = "cpu", .threads_count = 1, .shared = std::make_shared<LentText>(*pieces)};
    const auto there = make_task(*decided, newcomer);
    ASSERT_TRUE(there) << there.error().message();
    EXPECT_FALSE(*(*there)->own_pieces()) << "what was taken is given on piece by piece";
    const std::vector<float> parameters = first_parameters();
    const auto gradient_of = [&](const TrainingTask& task) {
        const auto learner = *task.learner(peer(3));
        learner->load(parameters, {});
        EXPECT_TRUE(learner->accumulate({60, 68}));
        std::vector<float> gradient(parameters.size());
        learner->take(gradient, {}, 8);
        return gradient;
    };
    EXPECT_EQ(gradient_of(**there), gradient_of(task()));
    EXPECT_EQ(value_of(*(*there)->measure(parameters, {}, 0), "token_loss"),
              value_of(*task().measure(parameters, {}, 0), "token_loss"));
}

TEST_F(LanguageModelTest, data_that_are_not_the_runs_are_not_shared) {
    const auto host = make_task(shared_config(config()), options());
    ASSERT_TRUE(host) << host.error().message();
    run::TaskConfig other = *(*host)->decided_config();
    DataKeys keys = data_keys(other);
    keys.catalogue = std::string(64, 'b');
    other.set_section(run::section_from(data_section_name, keys));
    const auto made = make_task(other, options());
    ASSERT_TRUE(made) << made.error().message();
    const auto pieces = (*made)->own_pieces();
    ASSERT_FALSE(pieces);
    EXPECT_EQ(pieces.error().kind(), ErrorKind::conflict);
    const auto missing = missing_files(other, options());
    ASSERT_TRUE(missing && missing->size() == 1);
    EXPECT_EQ(missing->front().what, catalogue_words);
    EXPECT_EQ(missing->front().hash.hex(), keys.catalogue);
}

TEST_F(LanguageModelTest, judges_texts_as_it_learns_them) {
    const std::vector<float> parameters = first_parameters();
    const std::string first = "The king went over the river.";
    const std::string second = " A shepherd built a great city.";
    const ScoredText texts[] = {{.text = first + second},
                                {.text = first},
                                {.before = first, .text = second},
                                {.before = first + " ", .text = second.substr(1)}};
    const auto scores = task().score(parameters, {}, texts);
    ASSERT_TRUE(scores) << scores.error().message();
    const TextScore& whole = scores->at(0);
    EXPECT_NEAR(whole.nats, scores->at(1).nats + scores->at(2).nats, 1e-3);
    EXPECT_EQ(whole.tokens, scores->at(1).tokens + scores->at(2).tokens);
    EXPECT_NEAR(scores->at(2).nats, scores->at(3).nats, 1e-3);
    EXPECT_NEAR(whole.nats / static_cast<double>(whole.tokens), std::log(320), 0.3);
    // Longer than the context: each token once.
    std::string many;
    for (int i = 0; i < 20; ++i) many += first;
    const ScoredText twice[] = {{.text = many}, {.before = many, .text = second}};
    const auto longer = task().score(parameters, {}, twice);
    ASSERT_TRUE(longer);
    EXPECT_GT(longer->at(0).tokens, 64u);
    EXPECT_EQ(longer->at(1).tokens, scores->at(2).tokens);
    const ScoredText nothing[] = {{.before = first, .text = ""}};
    EXPECT_FALSE(task().score(parameters, {}, nothing));
}

TEST_F(LanguageModelTest, says_what_does_not_fit) {
    const auto problem = [&](const run::TaskConfig& wrong) {
        const auto made = make_task(wrong, options());
        return made ? std::string() : made.error().message();
    };
    run::TaskConfig wrong = config();
    wrong.model = "rnn";
    EXPECT_NE(problem(wrong).find("task.model"), std::string::npos);
    wrong = config();
    auto keys = packed_text_keys(wrong);
    keys.length = 65;
    wrong.set_section(run::section_from(text_section_name, keys));
    EXPECT_NE(problem(wrong).find("text.length"), std::string::npos);
    wrong = config();
    auto sizes = run::keys_of<DecoderConfig>(wrong, language_model_section_name);
    sizes.vocabulary = 260;
    wrong.set_section(run::section_from(language_model_section_name, sizes));
    EXPECT_NE(problem(wrong).find("language_model.vocabulary"), std::string::npos);
    wrong = config("gpt2");
    EXPECT_EQ(problem(wrong), "");
    wrong.set_section(run::section_from(data_section_name, DataKeys{.source = run_source}));
    const Ok without_licence = check_data(wrong);
    ASSERT_FALSE(without_licence);
    EXPECT_NE(without_licence.error().message().find("data.licence"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::tasks
