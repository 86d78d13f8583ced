#include "dedloc/tasks/text_to_image/text_to_image_task.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <set>

#include "dedloc/images/images_testing.h"
#include "dedloc/security/hash.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/safetensors.h"
#include "dedloc/tasks/tasks_testing.h"
#include "dedloc/tasks/text_to_image/picture_codec.h"
#include "dedloc/tasks/text_to_image/text_to_image_section.h"

namespace dedloc::tasks {
namespace {

constexpr const char* colours[] = {"red", "green", "blue", "white"};
constexpr const char* places[] = {"left", "right", "above", "below"};

images::Picture patch(std::size_t colour, std::size_t place) {
    images::Picture picture = images::Picture::of_size(8, 8, 30);
    for (std::uint32_t y = 0; y < 8; ++y)
        for (std::uint32_t x = 0; x < 8; ++x) {
            const bool inside[] = {x < 4, x >= 4, y < 4, y >= 4};
            if (!inside[place]) continue;
            for (std::size_t c = 0; c < 3; ++c)
                picture.at(x, y)[c] = colour == 3 || colour == c ? 250 : 30;
        }
    return picture;
}

// Sixteen pictures, one of them held out, in a folder and a cache of their own.
class TextToImageTaskTest : public testing::Test {
  protected:
    void SetUp() override {
        ::setenv("XDG_CACHE_HOME", cache_.path().c_str(), 1);
        write_pictures(folder_, "");
        keys_.width = 32;
        keys_.layers = 3;
        keys_.heads = 2;
        keys_.head_width = 16;
        keys_.text_vocabulary = 16;
        keys_.text_length = 4;
        keys_.convolution_side = 3;
        pictures_.sizes.side = 8;
        pictures_.sizes.codes_side = 2;
        pictures_.sizes.codes = 16;
        pictures_.sizes.width = 16;
        pictures_.codes_steps = 500;
    }
    void TearDown() override { ::unsetenv("XDG_CACHE_HOME"); }

    static void write_pictures(const images::TemporaryFolder& folder, const std::string& more) {
        std::string captions;
        for (std::size_t c = 0; c < 4; ++c)
            for (std::size_t p = 0; p < 4; ++p) {
                const std::string name = fmt::format("{}{}.png", c, p);
                folder.write(name, images::encode_png(patch(c, p)));
                captions += fmt::format(R"({{"file": "{}", "caption": "{} {}", "held_out": {}}})"
                                        "\n",
                                        name,
                                        colours[c],
                                        places[p],
                                        c == 2 && p == 1);
            }
        folder.write("captions.jsonl", as_bytes(captions + more));
    }

    run::TaskConfig config() const {
        run::TaskConfig config{
            .kind = "text_to_image", .model = "transformer", .data = "captions", .seed = 3};
        config.set_section(run::section_from(text_to_image_section_name, keys_));
        config.set_section(run::section_from(pictures_section_name, pictures_));
        return config;
    }
    TaskOptions options() const {
        return {.device = "cpu", .threads_count = 1, .data_directory = folder_.path()};
    }

    images::TemporaryFolder folder_;
    images::TemporaryFolder cache_;
    TextToImageConfig keys_;
    PicturesKeys pictures_;
};

double measured(const std::vector<Measure>& measures, std::string_view name) {
    for (const Measure& measure : measures)
        if (measure.name == name) return measure.value;
    return -1;
}

TEST_F(TextToImageTaskTest, learns_what_belongs_to_a_caption_and_draws_it) {
    const auto task = make_task(config(), options());
    ASSERT_TRUE(task) << to_string(task.error());
    const auto learner = *(*task)->learner(made_peer(1));
    const run::Layout layout = learner->layout();
    EXPECT_EQ(layout.buffers_count, 0u);
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> gradient(layout.parameters_count);
    std::vector<float> first(layout.parameters_count);
    std::vector<float> second(layout.parameters_count);
    learner->store(parameters, {});
    const optim::OptimizerConfig adam{.kind = optim::OptimizerKind::adamw,
                                      .schedule = {.peak = 0.01}};
    const std::vector<std::span<float>> moments = {first, second};
    const auto before = (*task)->measure(parameters, {}, 0);
    ASSERT_TRUE(before) << to_string(before.error());
    EXPECT_EQ(measured(*before, "samples"), 1);
    double last = 0;
    for (std::uint64_t step = 0; step < 60; ++step) {
        learner->load(parameters, {});
        const auto report = learner->accumulate({15 * step, 15 * (step + 1)});
        ASSERT_TRUE(report) << to_string(report.error());
        last = report->loss_sum / 15;
        learner->take(gradient, {}, 15);
        for (float& value : gradient) value /= 15;
        optim::step(adam, layout.parameters, step, parameters, gradient, moments);
    }
    EXPECT_LT(last, 0.5 * measured(*before, "ignorance_loss"));

    const DrawRequest request{.prompts = {"red left", "white above"}, .count = 2, .temperature = 0};
    const auto drawing = (*task)->draw(parameters, {}, request);
    ASSERT_TRUE(drawing) << to_string(drawing.error());
    ASSERT_EQ(drawing->pictures.size(), 4u);
    EXPECT_TRUE(drawing->remarks.empty());
    const images::Picture& red = drawing->pictures.front();
    EXPECT_GT(red.at(1, 4)[0], red.at(1, 4)[2] + 60) << "left is red";
    EXPECT_LT(red.at(6, 4)[0], 120) << "right is dark";
}

// Others who compute a sample again have other micro-batches.
TEST_F(TextToImageTaskTest, reads_the_same_noise_in_micro_batches_of_any_size) {
    pictures_.codes_steps = 5;
    const auto gradient_in = [&](double noise, std::vector<collab::CounterRange> parts) {
        keys_.caption_drop = noise;
        keys_.code_noise = noise;
        const auto task = make_task(config(), options());
        EXPECT_TRUE(task) << to_string(task.error());
        const auto learner = *(*task)->learner(made_peer(1));
        for (const collab::CounterRange& part : parts) EXPECT_TRUE(learner->accumulate(part));
        std::vector<float> gradient(learner->layout().parameters_count);
        learner->take(gradient, {}, 12);
        return torch::tensor(gradient);
    };
    const auto whole = gradient_in(0.5, {{20, 32}});
    const auto apart = gradient_in(0.5, {{20, 23}, {23, 30}, {30, 32}});
    const auto clean = gradient_in(0, {{20, 32}});
    const double length = whole.norm().item<double>();
    EXPECT_LT((whole - apart).norm().item<double>(), 1e-4 * length);
    EXPECT_GT((whole - clean).norm().item<double>(), 0.1 * length);
}

TEST_F(TextToImageTaskTest, draws_with_guidance_where_captions_were_dropped) {
    pictures_.codes_steps = 5;
    const DrawRequest guided{.prompts = {"red left"}, .temperature = 0, .guidance = 3};
    for (const double drop : {0.0, 0.1}) {
        keys_.caption_drop = drop;
        const auto task = make_task(config(), options());
        ASSERT_TRUE(task) << to_string(task.error());
        std::vector<float> parameters((*(*task)->learner(made_peer(1)))->layout().parameters_count);
        const auto drawing = (*task)->draw(parameters, {}, guided);
        EXPECT_EQ(bool(drawing), drop > 0);
        if (drawing) continue;
        EXPECT_NE(drawing.error().message().find("caption_drop"), std::string::npos);
    }
    keys_.caption_drop = 0;
    keys_.guidance = 3;
    EXPECT_FALSE(make_task(config(), options())) << "no run has such a guidance";
}

TEST_F(TextToImageTaskTest, says_which_words_of_a_prompt_it_does_not_know) {
    const auto task = make_task(config(), options());
    ASSERT_TRUE(task) << to_string(task.error());
    std::vector<float> parameters((*(*task)->learner(made_peer(1)))->layout().parameters_count);
    const auto partly = (*task)->draw(parameters, {}, {.prompts = {"a red dragon"}});
    ASSERT_TRUE(partly) << to_string(partly.error());
    ASSERT_EQ(partly->remarks.size(), 1u);
    EXPECT_NE(partly->remarks[0].find("a, dragon"), std::string::npos) << partly->remarks[0];
    const auto unknown = (*task)->draw(parameters, {}, {.prompts = {"red left", "xyzzy"}});
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().message().find("xyzzy"), std::string::npos);
}

// A peer without the host's cache takes the codes' file, and finds out about another folder.
TEST_F(TextToImageTaskTest, gives_others_its_image_codes_and_refuses_other_pictures) {
    const auto host = make_task(config(), options());
    ASSERT_TRUE(host) << to_string(host.error());
    const auto decided = (*host)->decided_config();
    ASSERT_TRUE(decided);
    const TaskKind* kind = find_task("text_to_image");
    EXPECT_TRUE(kind->is_undecided(config()));
    EXPECT_FALSE(kind->is_undecided(*decided));
    ASSERT_EQ((*host)->files().size(), 1u);
    const Bytes file((*host)->files()[0]->begin(), (*host)->files()[0]->end());

    const images::TemporaryFolder elsewhere;
    ::setenv("XDG_CACHE_HOME", elsewhere.path().c_str(), 1);
    const auto missing = missing_files(*decided, options());
    ASSERT_TRUE(missing && missing->size() == 1);
    EXPECT_EQ(missing->front().hash, security::sha256(file));
    EXPECT_FALSE(make_task(*decided, options())) << "nobody gave the codes";
    Bytes damaged = file;
    damaged.back() ^= 1;
    EXPECT_FALSE(keep_file(*decided, missing->front(), damaged));
    ASSERT_TRUE(keep_file(*decided, missing->front(), file));
    EXPECT_TRUE(make_task(*decided, options()));
    EXPECT_TRUE(missing_files(*decided, options())->empty());

    const images::TemporaryFolder other;
    write_pictures(other, R"({"file": "00.png", "caption": "another"})");
    TaskOptions of_other = options();
    of_other.data_directory = other.path();
    const auto refused = make_task(*decided, of_other);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("take the same files as the run's host"),
              std::string::npos);
}

TEST_F(TextToImageTaskTest, can_be_looked_at_without_pictures) {
    TaskOptions look{.device = "cpu", .threads_count = 1, .unprepared = true};
    const auto task = make_task(config(), look);
    ASSERT_TRUE(task) << to_string(task.error());
    EXPECT_FALSE((*task)->decided_config());
    EXPECT_TRUE((*(*task)->learner(made_peer(1)))->accumulate({0, 4}));
    look.unprepared = false;
    const auto refused = make_task(config(), look);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("--data"), std::string::npos);
    EXPECT_TRUE(std::filesystem::is_empty(cache_.path())) << "nothing was trained";
}

TEST_F(TextToImageTaskTest, says_what_is_wrong_with_the_folder) {
    const auto sentence = [&](const images::TemporaryFolder& folder) {
        TaskOptions bad = options();
        bad.data_directory = folder.path();
        const auto task = make_task(config(), bad);
        return task ? std::string() : task.error().message();
    };
    const images::TemporaryFolder no_captions;
    no_captions.write("a.png", images::encode_png(patch(0, 0)));
    EXPECT_NE(sentence(no_captions).find("no captions.jsonl"), std::string::npos);
    const images::TemporaryFolder missing;
    write_pictures(missing, R"({"file": "nowhere.png", "caption": "a ghost"})");
    EXPECT_NE(sentence(missing).find("nowhere.png"), std::string::npos) << sentence(missing);
    // A picture that cannot be read is left out, and the run goes on.
    const images::TemporaryFolder damaged;
    write_pictures(damaged, R"({"file": "cut.jpg", "caption": "red left"})");
    Bytes jpeg = images::encode_jpeg(patch(0, 0));
    jpeg.resize(12);
    damaged.write("cut.jpg", jpeg);
    EXPECT_EQ(sentence(damaged), "");
}

TEST(PictureCodec, refuses_files_that_are_none) {
    const ImageCodesConfig sizes{.side = 8, .codes_side = 2, .codes = 16, .width = 16};
    EXPECT_FALSE(PictureCodec::parse(Bytes(100, 7), sizes));
    const auto words = CaptionWords::of(std::vector<std::string>{"red left"}, 10);
    const Bytes file = train_codec(
        torch::zeros({2, 3, 8, 8}, torch::kUInt8), *words, {.sizes = sizes, .steps = 1});
    ASSERT_TRUE(PictureCodec::parse(file, sizes));
    EXPECT_EQ((*PictureCodec::parse(file, sizes))->words().encode("left", 1),
              words->encode("left", 1));
    ImageCodesConfig others = sizes;
    others.codes = 17;
    EXPECT_FALSE(PictureCodec::parse(file, others));
    const auto parsed = parse_safetensors(file);
    ASSERT_TRUE(parsed);
    Safetensors changed = *parsed;
    const float endless[1] = {std::numeric_limits<float>::infinity()};
    Bytes counts(16 * 4);
    std::memcpy(counts.data(), endless, 4);
    changed.tensors["counts"].data = counts;
    EXPECT_FALSE(PictureCodec::parse(encode_safetensors(changed), sizes));
}

TEST(TextToImageMemory, of_the_published_run_fits_a_volunteers_13_gb) {
    EXPECT_LT(text_to_image_memory(TextToImageConfig(), 1).total(), 13'000'000'000u);
    EXPECT_GT(text_to_image_memory(TextToImageConfig(), 1).total(), 3'000'000'000u);
}

}  // namespace
}  // namespace dedloc::tasks
