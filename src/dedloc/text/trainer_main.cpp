// dedloc-train-tokenizer: SentencePiece's unigram trainer in a process of its own.
//
//   dedloc-train-tokenizer TEXT MODEL RECIPE
//
// TEXT has one sentence a line; RECIPE as in recipe.h. dedloc calls it (tokenizer_training.h);
// people call `dedloc tokenizer train`. Exit status: 0, or 2 with a sentence on standard error.

#include <cstdio>
#include <fstream>
#include <sentencepiece_trainer.h>
#include <string>
#include <unordered_map>

#include "dedloc/text/recipe.h"
#include "dedloc/text/tokenizer_training.h"

namespace dedloc::text {
namespace {

class Lines : public sentencepiece::SentenceIterator {
  public:
    explicit Lines(const std::string& path) : file_(path, std::ios::binary) { Lines::Next(); }
    bool done() const override { return done_; }
    void Next() override { done_ = !std::getline(file_, line_); }
    const std::string& value() const override { return line_; }
    sentencepiece::util::Status status() const override { return {}; }

  private:
    std::ifstream file_;
    std::string line_;
    bool done_ = false;
};

int fail(const std::string& sentence) {
    std::fprintf(stderr, "%s\n", sentence.c_str());
    return 2;
}

int run(const std::string& text, const std::string& model_path, const std::string& recipe_text) {
    const auto recipe = parse_recipe(recipe_text);
    if (!recipe) return fail(recipe.error().message());
    // Ids of the special pieces as Hugging Face's ALBERT has them: 0 to 4.
    const std::unordered_map<std::string, std::string> arguments{
        {"model_type", "unigram"},
        {"vocab_size", std::to_string(recipe->vocabulary)},
        {"pad_id", "0"},
        {"unk_id", "1"},
        {"bos_id", "-1"},
        {"eos_id", "-1"},
        {"control_symbols", "[CLS],[SEP],[MASK]"},
        {"normalization_rule_name", std::string(to_string(recipe->normalization))},
        {"split_digits", recipe->split_digits ? "true" : "false"},
        {"character_coverage", fmt::format("{}", recipe->coverage)},
        {"num_threads", std::to_string(training_threads)},
        {"max_sentence_length", "65536"},
        {"train_extremely_large_corpus", "false"},
        {"minloglevel", "1"}};
    Lines lines(text);
    std::string model;
    const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &lines, &model);
    if (!status.ok()) return fail(status.ToString());
    std::ofstream file(model_path, std::ios::binary);
    file << model;
    file.flush();
    return file.good() ? 0 : fail("cannot write " + model_path);
}

}  // namespace
}  // namespace dedloc::text

int main(int argc, char** argv) {
    if (argc != 4) return dedloc::text::fail("usage: dedloc-train-tokenizer TEXT MODEL RECIPE");
    return dedloc::text::run(argv[1], argv[2], argv[3]);
}
