#include "dedloc/text/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "dedloc/cli/commands.h"
#include "dedloc/peer/exit_codes.h"

namespace dedloc::cli {
namespace {

struct Outcome {
    int code = 0;
    std::string out;
    std::string error;
    nlohmann::json json() const {
        const std::size_t begin = out.rfind("\n", out.size() - 2);
        return nlohmann::json::parse(out.substr(begin == std::string::npos ? 0 : begin + 1));
    }
};

template <typename Run>
Outcome outcome_of(Run run) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run();
    std::fflush(stdout);
    return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

class TokenizerCommands : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = "/tmp/dedloc-cli-XXXXXX";
        folder_ = mkdtemp(pattern.data());
        ::setenv("XDG_CACHE_HOME", (folder_ + "/cache").c_str(), 1);
        std::ofstream text(folder_ + "/poem.txt");
        for (int i = 0; i < 200; ++i)
            text << "The cat number " << i << " sat on the mat. A dog saw the " << i * 7
                 << " other cats!\n";
        options_ = {.input = "text:poem.txt",
                    .vocabulary = 60,
                    .data_directory = folder_,
                    .output = folder_ + "/t.model",
                    .json = true};
    }
    void TearDown() override {
        ::unsetenv("XDG_CACHE_HOME");
        std::filesystem::remove_all(folder_);
    }
    Outcome train() const {
        return outcome_of([&] { return run_tokenizer_train(options_); });
    }

    std::string folder_;
    TokenizerTrainOptions options_;
};

TEST_F(TokenizerCommands, train_writes_a_file_whose_hash_it_says) {
    const Outcome trained = train();
    ASSERT_EQ(trained.code, 0) << trained.error;
    const auto tokenizer = text::Tokenizer::load(options_.output);
    ASSERT_TRUE(tokenizer);
    EXPECT_EQ(trained.json()["hash"], (*tokenizer)->hash().hex());
    EXPECT_EQ(trained.json()["pieces"], 60);
    EXPECT_EQ(trained.json()["recipe"],
              "vocabulary=60&normalization=nmt_nfkc_cf&rules=none&split_digits=false&"
              "coverage=0.9995");
    EXPECT_GT(trained.json()["bytes_per_token"].get<double>(), 1.0);

    const TokenizerShowOptions show{.file = options_.output, .text = "The cat", .json = true};
    const Outcome shown = outcome_of([&] { return run_tokenizer_show(show); });
    ASSERT_EQ(shown.code, 0);
    EXPECT_EQ(shown.json()["hash"], trained.json()["hash"]);
    EXPECT_EQ(shown.json()["ids"].size(), (*tokenizer)->encode("The cat").size());
}

TEST_F(TokenizerCommands, train_leaves_a_file_alone_without_force) {
    std::ofstream(options_.output) << "precious";
    const Outcome refused = train();
    EXPECT_EQ(refused.code, static_cast<int>(peer::ExitCode::bad_input));
    EXPECT_NE(refused.error.find("is there already"), std::string::npos) << refused.error;
    options_.force = true;
    EXPECT_EQ(train().code, 0);
    EXPECT_TRUE(text::Tokenizer::load(options_.output));
}

TEST_F(TokenizerCommands, mistakes_are_one_sentence_and_their_exit_code) {
    const auto expect =
        [&](const TokenizerTrainOptions& options, peer::ExitCode code, const std::string& words) {
            const Outcome outcome = outcome_of([&] { return run_tokenizer_train(options); });
            EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.error;
            EXPECT_NE(outcome.error.find(words), std::string::npos) << outcome.error;
            EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1);
            EXPECT_FALSE(std::filesystem::exists(options.output));
        };
    auto options = options_;
    options.input = "text:none.txt";
    expect(options, peer::ExitCode::data_missing, "there is no file or folder");
    options = options_;
    options.input = "poem.txt";
    expect(options, peer::ExitCode::bad_input, "is not a source of text");
    options = options_;
    options.rules = "klingon";
    expect(options, peer::ExitCode::bad_input, "there is no set of rules 'klingon'");
    options = options_;
    options.vocabulary = 5000;
    expect(options, peer::ExitCode::bad_input, "Vocabulary size too high");
    options = options_;
    options.output = folder_ + "/no/such/folder.model";
    expect(options, peer::ExitCode::bad_input, "there is no folder");
    const TokenizerShowOptions show{.file = folder_ + "/poem.txt"};
    const Outcome shown = outcome_of([&] { return run_tokenizer_show(show); });
    EXPECT_EQ(shown.code, static_cast<int>(peer::ExitCode::bad_input));
    EXPECT_NE(shown.error.find("not a tokenizer for dedloc"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::cli
