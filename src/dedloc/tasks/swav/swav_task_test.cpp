#include "dedloc/tasks/swav/swav_task.h"

#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>

#include "dedloc/images/images_testing.h"
#include "dedloc/optim/optimizer.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/safetensors.h"
#include "dedloc/tasks/swav/swav_evaluation.h"
#include "dedloc/tasks/swav/swav_models.h"
#include "dedloc/tasks/swav/swav_pictures.h"
#include "dedloc/tasks/tasks_testing.h"

namespace dedloc::tasks {
namespace {

using images::TemporaryFolder;

// Two classes of small pictures: one is red on the left, the other on the right.
void fill(const TemporaryFolder& folder, int pictures) {
    Random random(1);
    for (int i = 0; i < pictures; ++i) {
        images::Picture picture = images::sample_picture(24, 20);
        for (std::uint8_t& value : picture.rgb)
            value = static_cast<std::uint8_t>(value / 2 + random.below(100));
        folder.write(fmt::format("{}/{}.jpg", i % 2 == 0 ? "left" : "right", i),
                     images::encode_jpeg(i % 2 == 0 ? picture : images::flipped(picture)));
    }
}

run::TaskConfig folder_task(std::uint64_t queue = 0) {
    SwavKeys keys;
    keys.large_side = 16;
    keys.small_side = 8;
    keys.small_crops = 2;
    keys.queue = queue;
    keys.queue_from = 1;
    keys.held_out = 0.25;
    run::TaskConfig config{.kind = "swav", .model = "small", .data = "folder"};
    config.set_section(run::section_from(swav_section_name, keys));
    return config;
}

Result<std::shared_ptr<const TrainingTask>> made(const TemporaryFolder& folder,
                                                 const run::TaskConfig& config) {
    return make_task(config,
                     {.device = "cpu", .threads_count = 1, .data_directory = folder.path()});
}

struct Gradient {
    std::vector<float> parameters;
    std::vector<float> buffers;
    double loss = 0;
};

Gradient gradient_of(train::SampledModel& learner, collab::CounterRange samples) {
    const run::Layout layout = learner.layout();
    Gradient gradient{.parameters = std::vector<float>(layout.parameters_count),
                      .buffers = std::vector<float>(layout.buffers_count)};
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> buffers(layout.buffers_count);
    learner.store(parameters, buffers);
    learner.load(parameters, buffers);
    const auto report = learner.accumulate(samples);
    EXPECT_TRUE(report) << report.error().message();
    if (report) gradient.loss = report->loss_sum / static_cast<double>(samples.size());
    learner.take(gradient.parameters, gradient.buffers, samples.size());
    return gradient;
}

TEST(SwavTask, has_a_layout_whose_size_is_known_without_libtorch) {
    const TemporaryFolder folder;
    fill(folder, 8);
    const auto task = made(folder, folder_task());
    ASSERT_TRUE(task) << task.error().message();
    const auto learner = *(*task)->learner(made_peer(1));
    const run::Layout layout = learner->layout();
    EXPECT_EQ(layout.vector_count(), *find_task("swav")->vector_count(folder_task()));
    const SwavSizes& resnet = *find_swav_sizes("resnet50");
    EXPECT_EQ(resnet.parameters_count(3), 28'354'752u);
    EXPECT_EQ(resnet.parameters_count(3) + resnet.buffers_count(), 28'411'968u);
    const optim::ParameterGroup& prototypes = layout.parameters.front();
    EXPECT_EQ(prototypes.name, prototypes_name);
    EXPECT_EQ(prototypes.unit_rows, 128u);
    EXPECT_EQ(prototypes.frozen_until, 39u);
    for (const auto& group : layout.parameters) EXPECT_TRUE(group.decay) << group.name;
}

TEST(SwavTask, computes_the_same_gradient_whoever_does) {
    const TemporaryFolder folder;
    fill(folder, 24);
    const auto task = made(folder, folder_task());
    ASSERT_TRUE(task);
    const Gradient one = gradient_of(**(*task)->learner(made_peer(1)), {30, 38});
    const Gradient two = gradient_of(**(*task)->learner(made_peer(1)), {30, 38});
    const Gradient other = gradient_of(**(*task)->learner(made_peer(2)), {30, 38});
    EXPECT_EQ(one.parameters, two.parameters);
    EXPECT_EQ(one.buffers, two.buffers);
    EXPECT_NE(one.parameters, other.parameters);
    EXPECT_NEAR(one.loss, std::log(60.0), 0.5);
}

TEST(SwavTask, uses_its_queue_from_a_step_on_and_empties_it_after_a_jump) {
    const TemporaryFolder folder;
    fill(folder, 24);
    const auto task = made(folder, folder_task(8));
    ASSERT_TRUE(task);
    // The loss of the same samples, after others at the steps before the last.
    const auto loss_after = [&](std::vector<std::uint64_t> steps) {
        const auto learner = *(*task)->learner(made_peer(1));
        for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
            learner->at_step(steps[i]);
            (void)gradient_of(*learner, {8 * i, 8 * i + 8});
        }
        learner->at_step(steps.back());
        return gradient_of(*learner, {800, 808}).loss;
    };
    const double without = loss_after({0});
    EXPECT_EQ(loss_after({0, 1}), without) << "it is filled only now";
    EXPECT_NE(loss_after({0, 1, 2}), without);
    EXPECT_EQ(loss_after({0, 1, 7}), without);
}

TEST(SwavTask, evaluates_on_pictures_that_it_does_not_train_on) {
    const TemporaryFolder folder;
    fill(folder, 80);
    const auto task = made(folder, folder_task());
    ASSERT_TRUE(task);
    const auto learner = *(*task)->learner(made_peer(1));
    (void)gradient_of(*learner, {0, 16});
    const auto evaluation = learner->evaluate();
    ASSERT_TRUE(evaluation) << evaluation.error().message();
    EXPECT_EQ(evaluation->samples, 10u);  // half of a quarter of 80: the others are neighbours
    EXPECT_GT(evaluation->accuracy, 0.8);
    std::vector<float> parameters(learner->layout().parameters_count);
    std::vector<float> buffers(learner->layout().buffers_count);
    learner->store(parameters, buffers);
    const auto measures = (*task)->measure(parameters, buffers, 0);
    ASSERT_TRUE(measures);
    ASSERT_EQ(measures->size(), 3u);
    EXPECT_EQ(measures->at(1).name, "linear_accuracy");
    EXPECT_GT(measures->at(1).value, 0.8);
    learner->cancel_evaluation();
    EXPECT_EQ(learner->evaluate().error().kind(), ErrorKind::cancelled);
}

TEST(SwavPictures, hold_out_the_same_pictures_everywhere_and_train_on_none_of_them) {
    const HeldOutSplit split = split_held_out(1000, 0.02, 100, 7);
    EXPECT_EQ(split.held_out.size(), 20u);
    EXPECT_EQ(split.training.size(), 980u);
    for (const std::uint32_t index : split.held_out)
        EXPECT_FALSE(std::ranges::binary_search(split.training, index));
    EXPECT_EQ(split_held_out(1000, 0.02, 100, 7).held_out, split.held_out);
    EXPECT_NE(split_held_out(1000, 0.02, 100, 8).held_out, split.held_out);
    EXPECT_EQ(split_held_out(1000, 0.5, 100, 7).held_out.size(), 100u);
}

TEST(SwavPictures, take_another_picture_in_place_of_one_that_is_cut_off) {
    const TemporaryFolder folder;
    fill(folder, 8);
    const Bytes whole = images::encode_jpeg(images::sample_picture(24, 20));
    folder.write("left/cut.jpg", ByteView(whole).first(whole.size() - 30));
    const auto pictures = open_swav_pictures(folder_task(), {.data_directory = folder.path()});
    ASSERT_TRUE(pictures) << pictures.error().message();
    for (std::uint32_t i = 0; i < (*pictures)->training_count(); ++i)
        EXPECT_TRUE((*pictures)->training(i));
}

TEST(SwavTask, goes_without_pictures_where_only_the_model_is_wanted) {
    const TemporaryFolder folder;
    const auto task =
        make_task(folder_task(), {.device = "cpu", .threads_count = 1, .unprepared = true});
    ASSERT_TRUE(task) << task.error().message();
    const auto learner = *(*task)->learner(made_peer(1));
    std::vector<float> parameters(learner->layout().parameters_count);
    std::vector<float> buffers(learner->layout().buffers_count);
    learner->store(parameters, buffers);
    const auto names = (*task)->export_model(parameters, buffers, folder.path());
    ASSERT_TRUE(names);
    EXPECT_EQ(*names, std::vector<std::string>{"model.safetensors"});
}

std::string complaint(const std::string& change) {
    std::string text =
        "name = \"x\"\n[task]\nkind = \"swav\"\nmodel = \"small\"\ndata = \"folder\"\n" + change;
    const auto run = run::parse_run_file(text, "run.toml");
    return run ? "" : run.error().message();
}

TEST(SwavRunFile, is_refused_with_a_sentence) {
    EXPECT_EQ(complaint(""), "");
    EXPECT_NE(complaint("[batch]\nmicro = \"auto\"\n").find("batch.micro"), std::string::npos);
    EXPECT_NE(complaint("[swav]\nqueue = 8\n[robust]\n").find("swav.queue"), std::string::npos);
    EXPECT_NE(complaint("[swav]\nlarge_crops = 1\n").find("large_crops"), std::string::npos);
    EXPECT_NE(complaint("[swav]\nsmall_scale_min = 0.5\n").find("small_scale_max"),
              std::string::npos);
    EXPECT_NE(complaint("[swav]\npictures = \"mine\"\n").find("swav.pictures"), std::string::npos);
}

TEST(SwavEvaluation, finds_neighbours_and_a_line_between_classes) {
    torch::manual_seed(1);
    const auto half = [](std::int64_t count) {
        const auto labels = torch::arange(count, torch::kInt64).remainder(2);
        auto features = torch::randn({count, 8});
        features.select(1, 3) += 4 * (labels.to(torch::kFloat32) * 2 - 1);
        return LabelledFeatures{features, labels};
    };
    const EvaluationHalves halves{half(100), half(60)};
    EXPECT_GT(neighbours_accuracy(halves, 20, 2), 0.95);
    EXPECT_GT(linear_accuracy(halves, 2), 0.95);
    const EvaluationHalves mixed{{halves.bank.features, torch::zeros({100}, torch::kInt64)},
                                 halves.queries};
    EXPECT_EQ(neighbours_accuracy(mixed, 20, 2), 0.5);
}

}  // namespace
}  // namespace dedloc::tasks
