// Against Hugging Face's GPT-2 and Llama: tests/oracles/language compares logits, losses and
// gradients; here is what must hold without them.

#include "dedloc/tasks/language_model/decoder.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "dedloc/tasks/language_model/decoder_json.h"
#include "dedloc/tasks/language_model/decoder_writer.h"
#include "dedloc/tasks/language_model/language_model_weights.h"
#include "dedloc/text/byte_pairs_training.h"

namespace dedloc::tasks {
namespace {

using torch::Tensor;

DecoderConfig small(DecoderFamily family) {
    const bool groups = family == DecoderFamily::llama;
    return {.family = family,
            .vocabulary = 300,
            .hidden = 32,
            .layers = 3,
            .heads = 4,
            .key_value_heads = groups ? 2 : 4,
            .feed_forward = 48,
            .positions = 40,
            .tied = !groups};
}

class DecoderTest : public testing::TestWithParam<DecoderFamily> {
  protected:
    // Weights that matter more than the first ones do.
    std::shared_ptr<Decoder> model(const DecoderConfig& config) const {
        auto made = std::make_shared<Decoder>(config, 3);
        const torch::NoGradGuard no_grad;
        for (auto& parameter : made->parameters()) parameter.mul_(4);
        return made;
    }
    std::shared_ptr<Decoder> model() const { return model(small(GetParam())); }
};

// Documents of these lengths, one behind the other in one row.
DecoderBatch row_of(const std::vector<std::vector<std::int64_t>>& documents) {
    text::PackedBatch batch;
    batch.rows = 1;
    for (std::size_t i = 0; i < documents.size(); ++i)
        for (std::size_t at = 0; at < documents[i].size(); ++at) {
            batch.ids.push_back(documents[i][at]);
            batch.labels.push_back(at + 1 < documents[i].size() ? documents[i][at + 1] : 0);
            batch.segments.push_back(static_cast<std::int64_t>(i));
            batch.positions.push_back(static_cast<std::int64_t>(at));
        }
    batch.columns = static_cast<std::int64_t>(batch.ids.size());
    return decoder_batch(batch);
}

double apart(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST_P(DecoderTest, has_the_parameters_that_its_sizes_say) {
    std::int64_t count = 0;
    for (const auto& parameter : model()->parameters()) count += parameter.numel();
    EXPECT_EQ(count, parameters_count(small(GetParam())));
}

TEST_P(DecoderTest, documents_of_a_row_do_not_see_each_other) {
    const auto decoder = model();
    const std::vector<std::int64_t> first{5, 9, 200, 7, 31};
    const std::vector<std::int64_t> second{17, 4, 4, 250};
    const Tensor both = decoder->logits(row_of({first, second}));
    EXPECT_LT(apart(both.slice(1, 0, 5), decoder->logits(row_of({first}))), 1e-5);
    EXPECT_LT(apart(both.slice(1, 5, 9), decoder->logits(row_of({second}))), 1e-5);
}

TEST_P(DecoderTest, a_token_does_not_see_what_follows) {
    const auto decoder = model();
    const Tensor one = decoder->logits(row_of({{5, 9, 200, 7}}));
    const Tensor other = decoder->logits(row_of({{5, 9, 11, 8}}));
    EXPECT_LT(apart(one.slice(1, 0, 2), other.slice(1, 0, 2)), 1e-6);
    EXPECT_GT(apart(one.slice(1, 2, 3), other.slice(1, 2, 3)), 1e-3);
}

TEST_P(DecoderTest, kept_keys_and_values_give_the_same_scores) {
    const auto decoder = model();
    const std::vector<std::int64_t> ids{5, 9, 200, 7, 31, 17, 4, 4, 250};
    const Tensor whole = decoder->logits(row_of({ids}))[0];
    DecoderCache cache = decoder->empty_cache();
    EXPECT_LT(apart(decoder->next_logits({5, 9, 200, 7}, cache), whole[3]), 1e-5);
    for (std::size_t at = 4; at < ids.size(); ++at)
        EXPECT_LT(
            apart(decoder->next_logits({ids[at]}, cache), whole[static_cast<std::int64_t>(at)]),
            1e-5);
    EXPECT_EQ(cache.length, 9);
}

TEST_P(DecoderTest, layers_that_are_computed_again_give_the_same_gradients) {
    DecoderConfig sizes = small(GetParam());
    const auto kept = model(sizes);
    sizes.recompute = true;
    const auto again = model(sizes);
    const DecoderBatch batch = row_of({{5, 9, 200, 7, 31}, {17, 4, 4, 250}});
    for (const auto& decoder : {kept, again})
        decoder_loss(decoder->logits(batch), batch.labels).sum.backward();
    const auto parameters = again->named_parameters();
    for (const auto& item : kept->named_parameters())
        EXPECT_LT(apart(item.value().grad(), parameters[item.key()].grad()), 1e-6) << item.key();
}

TEST_P(DecoderTest, goes_out_as_a_folder_and_comes_back) {
    const std::string folder =
        (std::filesystem::temp_directory_path() / fmt::format("dedloc-decoder-{}", ::getpid()))
            .string();
    std::filesystem::create_directories(folder);
    const auto decoder = model();
    const Bytes weights = decoder_safetensors(*decoder);
    const auto write = [&](const std::string& name, std::string_view content) {
        std::ofstream(folder + "/" + name, std::ios::binary) << content;
    };
    write("config.json", decoder_json(decoder->config(), {}));
    write("model.safetensors", as_text(weights));
    auto other = std::make_shared<Decoder>(decoder->config(), 9);
    const Ok loaded = load_decoder_folder(*other, folder);
    ASSERT_TRUE(loaded) << loaded.error().message();
    const DecoderBatch batch = row_of({{5, 9, 200, 7}});
    EXPECT_EQ(apart(decoder->logits(batch), other->logits(batch)), 0);

    write("model.safetensors", as_text(weights).substr(0, weights.size() - 100));
    const Ok cut = load_decoder_folder(*other, folder);
    ASSERT_FALSE(cut);
    EXPECT_NE(cut.error().message().find("cut short"), std::string::npos) << cut.error().message();

    DecoderConfig wider = decoder->config();
    wider.feed_forward += 2;
    Decoder another(wider, 1);
    const Ok unlike = load_decoder_folder(another, folder);
    ASSERT_FALSE(unlike);
    EXPECT_NE(unlike.error().message().find("language_model.feed_forward is 50 in the run file and "
                                            "48"),
              std::string::npos)
        << unlike.error().message();
    std::filesystem::remove_all(folder);
}

TEST_P(DecoderTest, refuses_weights_that_do_not_fit) {
    const auto decoder = model();
    const Bytes bytes = decoder_safetensors(*decoder);
    Safetensors file = *parse_safetensors(bytes);
    const std::string name = file.tensors.begin()->first;
    const auto problem = [&](const Safetensors& changed) {
        const Ok loaded = load_decoder_weights(*decoder, {changed});
        return loaded ? std::string() : loaded.error().message();
    };
    EXPECT_EQ(problem(file), "");
    Safetensors fewer = file;
    fewer.tensors.erase(name);
    EXPECT_NE(problem(fewer).find(name), std::string::npos);
    Safetensors more = file;
    more.tensors["extra.weight"] = file.tensors[name];
    EXPECT_NE(problem(more).find("extra.weight"), std::string::npos);
    Safetensors other = file;
    other.tensors[name].shape.insert(other.tensors[name].shape.begin(), 1);
    EXPECT_NE(problem(other).find("shape"), std::string::npos);
}

TEST_P(DecoderTest, writes_the_same_text_for_the_same_seed) {
    const auto decoder = model();
    const auto tokenizer =
        *text::LanguageTokenizer::parse(as_bytes(text::BytePairsTrainer().train(257)));
    std::string told;
    WriteRequest request{.prompt = "ab", .tokens_max = 20, .seed = 4};
    request.told = [&](std::string_view added) {
        told += added;
        return true;
    };
    const auto once = write_text(*decoder, *tokenizer, request);
    ASSERT_TRUE(once) << once.error().message();
    EXPECT_EQ(once->text, told);
    EXPECT_EQ(once->prompt_tokens, 2u);
    request.told = nullptr;
    EXPECT_EQ(write_text(*decoder, *tokenizer, request)->text, once->text);
    request.seed = 5;
    EXPECT_NE(write_text(*decoder, *tokenizer, request)->text, once->text);
}

TEST_P(DecoderTest, says_that_a_prompt_is_longer_than_its_context) {
    const auto decoder = model();
    const auto tokenizer =
        *text::LanguageTokenizer::parse(as_bytes(text::BytePairsTrainer().train(257)));
    const auto refused =
        write_text(*decoder, *tokenizer, {.prompt = std::string(40, 'a'), .tokens_max = 5});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("41 tokens"), std::string::npos)
        << refused.error().message();
    const auto full =
        write_text(*decoder, *tokenizer, {.prompt = std::string(37, 'a'), .tokens_max = 50});
    ASSERT_TRUE(full);
    EXPECT_TRUE(full->is_full || full->ended);
    EXPECT_LE(full->tokens, 3u);
}

INSTANTIATE_TEST_SUITE_P(families,
                         DecoderTest,
                         testing::Values(DecoderFamily::gpt2, DecoderFamily::llama),
                         [](const auto& test) {
                             return test.param == DecoderFamily::gpt2 ? "gpt2" : "llama";
                         });

TEST(DecoderSizes, of_gpt2s_smallest_are_the_published_ones) {
    EXPECT_EQ(parameters_count({}), 124'439'808);
    EXPECT_EQ(parameters_count({.hidden = 1024,
                                .layers = 24,
                                .heads = 16,
                                .key_value_heads = 16,
                                .feed_forward = 4096}),
              354'823'168);
}

TEST(DecoderSizes, first_loss_is_that_of_knowing_nothing) {
    const DecoderConfig published{.layers = 2};
    Decoder decoder(published, 1);
    const torch::NoGradGuard no_grad;
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 64; ++i) ids.push_back(i * 781 % published.vocabulary);
    const DecoderBatch batch = row_of({ids});
    const double loss = decoder_loss(decoder.logits(batch), batch.labels).sum.item<double>();
    EXPECT_NEAR(loss, std::log(50257.0), 0.1);
}

TEST_P(DecoderTest, adapters_add_nothing_at_first_and_are_all_that_is_trained) {
    DecoderConfig config = small(GetParam());
    config.lora = {.rank = 3, .alpha = 6, .targets = "all"};
    config.recompute = true;
    const auto base = model();
    Decoder adapted(config, 8);
    adapted.share_frozen(*base);
    const DecoderBatch batch = row_of({{5, 9, 200, 7, 31}});
    EXPECT_EQ(apart(adapted.logits(batch), base->logits(batch)), 0);
    decoder_loss(adapted.logits(batch), batch.labels).sum.backward();
    std::int64_t trained = 0;
    for (const auto& item : adapted.named_parameters()) {
        EXPECT_EQ(item.value().requires_grad(), Decoder::is_adapter(item.key())) << item.key();
        if (!item.value().requires_grad()) continue;
        trained += item.value().numel();
        ASSERT_TRUE(item.value().grad().defined()) << item.key();
        // The second of a pair is zero, so that the first has no gradient yet.
        if (item.key().find("lora_B") == std::string::npos) continue;
        EXPECT_GT(item.value().grad().abs().max().item<float>(), 0) << item.key();
    }
    EXPECT_EQ(trained, trained_count(config));
}

TEST_P(DecoderTest, adapters_that_are_merged_say_the_same) {
    DecoderConfig config = small(GetParam());
    config.lora = {.rank = 3, .alpha = 6};
    const auto base = model();
    const auto before = base->logits(row_of({{5, 9, 200}}));
    Decoder adapted(config, 8);
    adapted.share_frozen(*base);
    const torch::NoGradGuard no_grad;
    for (auto& item : adapted.named_parameters())
        if (Decoder::is_adapter(item.key())) item.value().normal_(0, 0.3);
    const DecoderBatch batch = row_of({{5, 9, 200, 7, 31}});
    const Tensor apart_from_base = adapted.logits(batch);
    EXPECT_GT(apart(apart_from_base, base->logits(batch)), 0.01);
    adapted.merge_adapters();
    EXPECT_LT(apart(adapted.logits(batch), apart_from_base), 1e-3);
    EXPECT_EQ(apart(base->logits(row_of({{5, 9, 200}})), before), 0) << "the base is shared";
}

TEST(DecoderJson, refuses_what_the_model_does_not_do) {
    const auto problem = [](const std::string& key, const std::string& value) {
        std::string text = decoder_json(small(DecoderFamily::llama), {});
        const std::size_t brace = text.rfind('}');
        text.insert(brace, fmt::format(", \"{}\": {}", key, value));
        const auto read = decoder_from_json(text);
        return read ? std::string() : read.error().message();
    };
    EXPECT_EQ(problem("hidden_act", "\"silu\""), "");
    EXPECT_NE(problem("hidden_act", "\"gelu\"").find("hidden_act"), std::string::npos);
    EXPECT_NE(problem("rope_scaling", "{\"factor\": 2}").find("rope_scaling"), std::string::npos);
    EXPECT_NE(problem("hidden_size", "-3").find("hidden_size"), std::string::npos);
    EXPECT_NE(problem("num_attention_heads", "5").find("heads"), std::string::npos);
    EXPECT_NE(problem("model_type", "\"bert\"").find("gpt2"), std::string::npos);
    EXPECT_FALSE(decoder_from_json("[]"));
    EXPECT_FALSE(decoder_from_json(""));
}

TEST(DecoderJson, gives_back_what_it_wrote) {
    for (const auto family : {DecoderFamily::gpt2, DecoderFamily::llama}) {
        const auto again = decoder_from_json(decoder_json(small(family), {}));
        ASSERT_TRUE(again) << again.error().message();
        EXPECT_EQ(*again, small(family));
    }
}

}  // namespace
}  // namespace dedloc::tasks
