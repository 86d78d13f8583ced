#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <torch/script.h>

#include "dedloc/security/hash.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/tasks_testing.h"
#include "dedloc/tasks/torchscript/script_archive.h"
#include "dedloc/tasks/torchscript/script_data.h"
#include "dedloc/tasks/torchscript/script_graph.h"
#include "dedloc/tasks/torchscript/script_module.h"
#include "dedloc/tasks/torchscript/script_pickle.h"
#include "dedloc/tasks/torchscript/torchscript_section.h"

namespace dedloc::tasks {
namespace {

namespace fs = std::filesystem;
namespace jit = torch::jit;

Bytes saved(const jit::Module& module) {
    std::ostringstream out;
    module.save(out);
    return to_bytes(out.str());
}

// A model of one parameter, w, whose forward(inputs, targets) is this.
Bytes script_with(const std::string& body, const std::string& more = "") {
    jit::Module module("Tiny");
    module.register_parameter("w", torch::ones({2}).requires_grad_(), false);
    if (!more.empty()) module.define(more);
    module.define("def forward(self, inputs: Tensor, targets: Tensor):\n" + body);
    return saved(module);
}

std::string refusal(const Bytes& file) {
    if (const Ok fine = check_script_archive(file); !fine) return fine.error().message();
    const auto model = load_script_model(file);
    return model ? "" : model.error().message();
}

class TorchScriptTest : public testing::Test {
  protected:
    void SetUp() override {
        folder_ =
            fs::temp_directory_path() /
            ("torchscript-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) +
             testing::UnitTest::GetInstance()->current_test_info()->name());
        fs::remove_all(folder_);
        fs::create_directories(folder_);
        ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    }
    void TearDown() override { fs::remove_all(folder_); }
    void write(const std::string& name, const Bytes& bytes) {
        std::ofstream(folder_ / name, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
    }
    TaskOptions options() const {
        return {.device = "cpu", .threads_count = 1, .data_directory = folder_.string()};
    }
    fs::path folder_;
};

constexpr const char* fashion_mnist = "/usr/share/datasets/fashion-mnist";

std::shared_ptr<const TrainingTask> built_in_network() {
    return *make_task(
        {.kind = "vision_classifier", .model = "small_cnn", .data = "fashion-mnist", .seed = 7},
        {.device = "cpu", .threads_count = 1});
}

// The demo's network with its first parameters, as PyTorch would write it.
Bytes small_cnn_script(const TrainingTask& built_in) {
    const auto learner = *built_in.learner(made_peer(3));
    std::vector<float> parameters(learner->layout().parameters_count);
    learner->store(parameters, {});
    const std::vector<std::vector<std::int64_t>> shapes{
        {16, 1, 3, 3}, {16}, {32, 16, 3, 3}, {32}, {64, 32, 7, 7}, {64}, {10, 64}, {10}};
    jit::Module module("SmallCnn");
    float* at = parameters.data();
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const torch::Tensor values = torch::from_blob(at, shapes[i]).clone();
        at += values.numel();
        module.register_parameter("p" + std::to_string(i), values.requires_grad_(), false);
    }
    module.define(R"(
def forward(self, inputs: Tensor, targets: Tensor):
    x = torch.relu(torch.conv2d(inputs, self.p0, self.p1, [2, 2], [1, 1]))
    x = torch.relu(torch.conv2d(x, self.p2, self.p3, [2, 2], [1, 1]))
    x = torch.relu(torch.conv2d(x, self.p4, self.p5))
    logits = torch.linear(torch.flatten(x, 1), self.p6, self.p7)
    loss = torch.cross_entropy_loss(logits, targets, None, 2)
    return loss, (torch.argmax(logits, 1) == targets).sum()
)");
    return saved(module);
}

run::TaskConfig on_fashion_mnist(const std::string& model) {
    run::TaskConfig config{.kind = "torchscript", .model = model};
    config.data = "idx:train-images-idx3-ubyte.gz,train-labels-idx1-ubyte.gz";
    config.seed = 7;
    TorchScriptKeys keys;
    keys.held_out = "idx:t10k-images-idx3-ubyte.gz,t10k-labels-idx1-ubyte.gz";
    keys.mean = 0.2860;
    keys.deviation = 0.3530;
    config.set_section(run::section_from(torchscript_section_name, keys));
    return config;
}

// Three steps of plain descent: losses, sums of gradients, and what is measured afterwards.
std::vector<double> trained(const TrainingTask& task) {
    const auto learner = *task.learner(made_peer(3));
    const run::Layout layout = learner->layout();
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> gradient(layout.parameters_count);
    learner->store(parameters, {});
    std::vector<double> seen(parameters.begin(), parameters.end());
    for (std::uint64_t step = 0; step < 3; ++step) {
        learner->load(parameters, {});
        const auto report = learner->accumulate({32 * step, 32 * step + 32});
        EXPECT_TRUE(report && report->finite);
        seen.push_back(report->loss_sum);
        seen.push_back(report->correct_sum);
        learner->take(gradient, {}, 32);
        seen.insert(seen.end(), gradient.begin(), gradient.end());
        for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 1e-3f * gradient[i];
    }
    learner->load(parameters, {});
    const auto measured = learner->evaluate();
    EXPECT_TRUE(measured);
    seen.push_back(measured->loss);
    seen.push_back(measured->accuracy);
    return seen;
}

TEST_F(TorchScriptTest, equals_the_built_in_network_bit_for_bit) {
    if (!fs::exists(fashion_mnist))
        GTEST_SKIP() << "wants the Debian package dataset-fashion-mnist";
    const auto built_in = built_in_network();
    write("model.pt", small_cnn_script(*built_in));
    for (const auto& file : fs::directory_iterator(fashion_mnist))
        fs::create_symlink(file.path(), folder_ / file.path().filename());
    const auto script = make_task(on_fashion_mnist("model.pt"), options());
    ASSERT_TRUE(script) << script.error().message();
    EXPECT_EQ(trained(**script), trained(*built_in));
}

TEST_F(TorchScriptTest, refuses_a_model_that_reads_files_by_the_operators_name) {
    const Bytes file = script_with(
        "    x = torch.from_file(\"/etc/passwd\", False, 3)\n    return x.sum(), self.w.sum()\n");
    const Ok looked_at = check_script_archive(file);  // before it is loaded
    ASSERT_FALSE(looked_at);
    EXPECT_EQ(looked_at.error().kind(), ErrorKind::unsupported);
    EXPECT_NE(looked_at.error().message().find("aten::from_file"), std::string::npos);
    write("model.pt", file);
    const auto task = make_task(on_fashion_mnist("model.pt"), options());
    ASSERT_FALSE(task);
    EXPECT_NE(task.error().message().find("aten::from_file"), std::string::npos);
}

TEST_F(TorchScriptTest, refuses_what_loops_prints_saves_or_runs_while_it_is_loaded) {
    const std::string end = "    return self.w.sum(), self.w.sum()\n";
    EXPECT_EQ(refusal(script_with(end)), "");
    EXPECT_NE(refusal(script_with("    x = self.w\n    for i in range(9):\n        x = x + 1\n"
                                  "    return x.sum(), x.sum()\n"))
                  .find("loop"),
              std::string::npos);
    EXPECT_NE(refusal(script_with("    while True:\n        pass\n" + end)).find("loop"),
              std::string::npos);
    EXPECT_NE(refusal(script_with("    print(inputs)\n" + end)).find("prim::Print"),
              std::string::npos);
    EXPECT_NE(refusal(script_with("    torch.save(inputs, \"x\")\n" + end)).find("aten::save"),
              std::string::npos);
    EXPECT_NE(refusal(script_with("    x = torch.empty([9])\n    return x.sum(), x.sum()\n"))
                  .find("aten::empty"),
              std::string::npos);
    const std::string at_loading =
        "def __setstate__(self, state: Tensor):\n    self.w = state\n"
        "def __getstate__(self):\n    return self.w\n";
    EXPECT_NE(refusal(script_with(end, at_loading)).find("__setstate__"), std::string::npos);
}

TEST_F(TorchScriptTest, refuses_calls_that_double_with_each_function) {
    std::string functions = "def f0(self, x: Tensor):\n    return x + 1\n";
    for (int i = 1; i < 30; ++i)
        functions += fmt::format(
            "def f{0}(self, x: Tensor):\n    return self.f{1}(self.f{1}(x))\n", i, i - 1);
    EXPECT_NE(
        refusal(script_with("    x = self.f29(self.w)\n    return x.sum(), x.sum()\n", functions))
            .find("operators at a time"),
        std::string::npos);
}

TEST_F(TorchScriptTest, says_what_forward_must_return) {
    EXPECT_NE(refusal(script_with("    return self.w.sum()\n")).find("right answers"),
              std::string::npos);
}

TEST_F(TorchScriptTest, no_damaged_file_does_harm) {
    const Bytes whole = script_with("    return self.w.sum(), self.w.sum()\n");
    for (std::size_t length = 0; length < whole.size(); length += 7)
        EXPECT_FALSE(check_script_archive(ByteView(whole).first(length)));
    for (std::size_t at = 0; at < whole.size(); at += 3) {
        Bytes damaged = whole;
        damaged[at] ^= 0x41;
        (void)refusal(damaged);  // fine or not, it comes back
    }
}

TEST_F(TorchScriptTest, a_pickle_may_name_the_files_own_modules_and_tensors_only) {
    const auto check = [](std::string_view text) {
        return static_cast<bool>(check_script_pickle(as_bytes(text), "data.pkl"));
    };
    EXPECT_TRUE(
        check("\x80\x02"
              "c__torch__\nTiny\n)\x81."));
    EXPECT_FALSE(
        check("\x80\x02"
              "cos\nsystem\n)\x81."));
    EXPECT_FALSE(
        check("\x80\x02"
              "R."));  // nothing is on the stack
    EXPECT_FALSE(
        check("\x80\x02"
              "N"));  // no end
    EXPECT_FALSE(
        check("\x80\x02"
              "N.N"));  // goes on
    EXPECT_FALSE(
        check("\x80\x02"
              "(N\x93"
              "."));  // an unknown word
    EXPECT_FALSE(
        check("\x80\x02"
              "X\xff\xff\xff\xff"
              "."));
}

TEST_F(TorchScriptTest, is_found_by_its_hash_and_kept) {
    const Bytes file = script_with("    return self.w.sum(), self.w.sum()\n");
    write("model.pt", file);
    write("a.txt", to_bytes(std::string(1000, 'a')));
    run::TaskConfig config{.kind = "torchscript", .model = "model.pt", .data = "text:a.txt"};
    TorchScriptKeys keys;
    keys.text_length = 8;
    config.set_section(run::section_from(torchscript_section_name, keys));
    const auto task = make_task(config, options());
    ASSERT_TRUE(task) << task.error().message();
    const run::TaskConfig decided = *(*task)->decided_config();
    EXPECT_EQ(torchscript_keys(decided).model_hash, security::sha256(file).hex());
    EXPECT_TRUE(missing_files(decided, options())->empty());

    fs::remove(folder_ / "model.pt");  // as on a volunteer's machine
    const auto missing = *missing_files(decided, options());
    ASSERT_EQ(missing.size(), 1u);
    EXPECT_EQ(missing[0].what, "model");
    EXPECT_FALSE(keep_file(decided, missing[0], as_bytes("another file")));
    const Ok kept = keep_file(decided, missing[0], *(*task)->files().front());
    ASSERT_TRUE(kept) << kept.error().message();
    EXPECT_TRUE(make_task(decided, options()));
}

TEST_F(TorchScriptTest, exports_what_it_loads_again) {
    write("model.pt", script_with("    return self.w.sum(), self.w.sum()\n"));
    write("a.txt", to_bytes(std::string(10'000, 'a')));
    const auto task =
        make_task({.kind = "torchscript", .model = "model.pt", .data = "text:a.txt"}, options());
    ASSERT_TRUE(task) << task.error().message();
    const std::vector<float> trained{3, 4};
    fs::create_directories(folder_ / "out");
    const auto names = (*task)->export_model(trained, {}, (folder_ / "out").string());
    ASSERT_TRUE(names) << names.error().message();
    const jit::Module again = jit::load((folder_ / "out" / names->front()).string());
    EXPECT_TRUE(torch::equal(again.attr("w").toTensor(), torch::tensor({3.0f, 4.0f})));
}

std::vector<std::int64_t> int64s(const std::vector<std::uint8_t>& bytes) {
    std::vector<std::int64_t> numbers(bytes.size() / 8);
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
}

Bytes npy(const std::string& type, const std::string& shape, std::string_view values) {
    std::string header =
        "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(118, ' ');
    std::string file = std::string("\x93NUMPY\x01\x00", 8) + std::string("\x76\x00", 2) + header;
    file.append(values);
    return to_bytes(file);
}

TEST_F(TorchScriptTest, reads_numpys_files) {
    write("x.npy", npy("|u1", "(2, 3)", "abcdef"));
    write("y.npy", npy("<i4", "(2,)", std::string_view("\x07\0\0\0\xff\xff\xff\xff", 8)));
    const auto data = open_script_data("npy:x.npy,y.npy", {.folder = folder_.string()});
    ASSERT_TRUE(data) << data.error().message();
    EXPECT_EQ((*data)->count(), 2u);
    EXPECT_EQ((*data)->inputs().shape, std::vector<std::int64_t>{3});
    std::vector<std::uint8_t> inputs(3);
    std::vector<std::uint8_t> targets(8);
    ASSERT_TRUE((*data)->read(1, inputs, targets));
    EXPECT_EQ(inputs, (std::vector<std::uint8_t>{'d', 'e', 'f'}));
    EXPECT_EQ(int64s(targets), std::vector<std::int64_t>{-1});
    EXPECT_FALSE(parse_npy(npy("<f2", "(1,)", "ab"), "x"));
    EXPECT_FALSE(parse_npy(npy("|u1", "(3, 99999999999)", "abcdef"), "x"));
    EXPECT_FALSE(parse_npy(npy("|u1", "(0,)", ""), "x"));
}

TEST_F(TorchScriptTest, text_is_bytes_and_those_one_later) {
    write("a.txt", to_bytes("abcdefghijklmnopq!"));
    const auto data =
        open_script_data("text:a.txt", {.folder = folder_.string(), .text_length = 8});
    ASSERT_TRUE(data) << data.error().message();
    EXPECT_EQ((*data)->count(), 2u);
    std::vector<std::uint8_t> inputs(64);
    std::vector<std::uint8_t> targets(64);
    ASSERT_TRUE((*data)->read(1, inputs, targets));
    EXPECT_EQ(int64s(inputs).front(), 'i');
    EXPECT_EQ(int64s(targets).back(), 'q');
}

TEST_F(TorchScriptTest, a_run_file_names_nothing_outside_the_data_folder) {
    for (const char* source : {"text:../secret",
                               "text:/etc/passwd",
                               "text:.ssh/id",
                               "text:",
                               "npy:a.npy",
                               "csv:a.csv",
                               "idx:a,b,c"})
        EXPECT_FALSE(check_script_source(source)) << source;
    EXPECT_TRUE(check_script_source("pictures:train/large"));
    const auto model =
        make_task({.kind = "torchscript", .model = "../model.pt", .data = "text:a.txt"}, options());
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().message().find("no file's name"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::tasks
