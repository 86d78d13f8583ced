#include "dedloc/tasks/language_model/decoder_json.h"

#include <nlohmann/json.hpp>

namespace dedloc::tasks {

namespace {

using nlohmann::json;

constexpr std::int64_t size_max = 1 << 20;

// A JSON object of sizes, read strictly.
class SizesReader {
  public:
    explicit SizesReader(const json& file) : file_(file) {}

    Result<std::int64_t> size(const char* key, std::int64_t otherwise = 0) const {
        const auto found = file_.find(key);
        if (otherwise > 0 && (found == file_.end() || found->is_null())) return otherwise;
        if (found == file_.end() || !found->is_number_integer())
            return make_error(
                ErrorKind::bad_input, "config.json: '{}' must be a whole number", key);
        const auto value = found->get<std::int64_t>();
        if (value < 1 || value > size_max)
            return make_error(
                ErrorKind::bad_input, "config.json: '{}' must be from 1 to {}", key, size_max);
        return value;
    }
    Result<double> number(const char* key, double otherwise) const {
        const auto found = file_.find(key);
        if (found == file_.end() || found->is_null()) return otherwise;
        if (!found->is_number() || !(found->get<double>() > 0))
            return make_error(
                ErrorKind::bad_input, "config.json: '{}' must be a number above 0", key);
        return found->get<double>();
    }
    bool flag(const char* key, bool otherwise) const {
        const auto found = file_.find(key);
        return found != file_.end() && found->is_boolean() ? found->get<bool>() : otherwise;
    }
    // A key that is missing counts as wanted.
    Ok expect(const char* key, const json& wanted) const {
        const auto found = file_.find(key);
        if (found == file_.end() || found->is_null() || *found == wanted) return {};
        return make_error(ErrorKind::unsupported,
                          "config.json: '{}' is {}; this model has {}",
                          key,
                          found->dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 64),
                          wanted.dump());
    }

  private:
    const json& file_;
};

Result<DecoderConfig> gpt2_from(const SizesReader& file) {
    DecoderConfig sizes;
    DEDLOC_TRY(sizes.vocabulary, file.size("vocab_size"));
    DEDLOC_TRY(sizes.hidden, file.size("n_embd"));
    DEDLOC_TRY(sizes.layers, file.size("n_layer"));
    DEDLOC_TRY(sizes.heads, file.size("n_head"));
    sizes.key_value_heads = sizes.heads;
    DEDLOC_TRY(sizes.feed_forward, file.size("n_inner", 4 * sizes.hidden));
    DEDLOC_TRY(sizes.positions, file.size("n_positions"));
    DEDLOC_TRY(sizes.norm_epsilon, file.number("layer_norm_epsilon", 1e-5));
    sizes.tied = file.flag("tie_word_embeddings", true);
    DEDLOC_TRY_VOID(file.expect("activation_function", "gelu_new"));
    DEDLOC_TRY_VOID(file.expect("scale_attn_weights", true));
    DEDLOC_TRY_VOID(file.expect("scale_attn_by_inverse_layer_idx", false));
    DEDLOC_TRY_VOID(file.expect("add_cross_attention", false));
    return sizes;
}

Result<DecoderConfig> llama_from(const json& text) {
    const SizesReader file(text);
    DecoderConfig sizes;
    sizes.family = DecoderFamily::llama;
    DEDLOC_TRY(sizes.vocabulary, file.size("vocab_size"));
    DEDLOC_TRY(sizes.hidden, file.size("hidden_size"));
    DEDLOC_TRY(sizes.layers, file.size("num_hidden_layers"));
    DEDLOC_TRY(sizes.heads, file.size("num_attention_heads"));
    DEDLOC_TRY(sizes.key_value_heads, file.size("num_key_value_heads", sizes.heads));
    DEDLOC_TRY(sizes.feed_forward, file.size("intermediate_size"));
    DEDLOC_TRY(sizes.positions, file.size("max_position_embeddings"));
    DEDLOC_TRY(sizes.norm_epsilon, file.number("rms_norm_eps", 1e-6));
    DEDLOC_TRY(sizes.rope_base, file.number("rope_theta", 10'000));
    sizes.tied = file.flag("tie_word_embeddings", false);
    DEDLOC_TRY_VOID(file.expect("hidden_act", "silu"));
    DEDLOC_TRY_VOID(file.expect("attention_bias", false));
    DEDLOC_TRY_VOID(file.expect("mlp_bias", false));
    DEDLOC_TRY_VOID(file.expect("rope_scaling", nullptr));
    DEDLOC_TRY_VOID(file.expect("head_dim", sizes.hidden / sizes.heads));
    // Newer files have rotary positions in an object of their own.
    if (const auto rope = text.find("rope_parameters"); rope != text.end() && rope->is_object()) {
        const SizesReader inner(*rope);
        DEDLOC_TRY_VOID(inner.expect("rope_type", "default"));
        DEDLOC_TRY(sizes.rope_base, inner.number("rope_theta", sizes.rope_base));
    }
    return sizes;
}

}  // namespace

Result<DecoderConfig> decoder_from_json(std::string_view text) {
    if (text.size() > decoder_json_bytes_max)
        return make_error(ErrorKind::bad_input, "config.json: {} bytes are too many", text.size());
    const json file = json::parse(text.begin(), text.end(), nullptr, false);
    if (!file.is_object())
        return make_error(ErrorKind::bad_input, "config.json is not a JSON object");
    const auto kind = file.find("model_type");
    DecoderConfig sizes;
    if (kind != file.end() && *kind == "gpt2") {
        DEDLOC_TRY(sizes, gpt2_from(SizesReader(file)));
    } else if (kind != file.end() && *kind == "llama") {
        DEDLOC_TRY(sizes, llama_from(file));
    } else {
        return make_error(ErrorKind::unsupported,
                          "config.json: its model_type must be \"gpt2\" or \"llama\"");
    }
    DEDLOC_TRY_VOID(check(sizes));
    return sizes;
}

std::string decoder_json(const DecoderConfig& sizes, const DecoderTokens& tokens) {
    nlohmann::ordered_json out;
    if (sizes.family == DecoderFamily::gpt2) {
        out = {{"architectures", {"GPT2LMHeadModel"}},
               {"model_type", "gpt2"},
               {"vocab_size", sizes.vocabulary},
               {"n_embd", sizes.hidden},
               {"n_layer", sizes.layers},
               {"n_head", sizes.heads},
               {"n_inner", sizes.feed_forward},
               {"n_positions", sizes.positions},
               {"n_ctx", sizes.positions},
               {"activation_function", "gelu_new"},
               {"layer_norm_epsilon", sizes.norm_epsilon},
               {"resid_pdrop", 0.0},
               {"embd_pdrop", 0.0},
               {"attn_pdrop", 0.0}};
    } else {
        out = {{"architectures", {"LlamaForCausalLM"}},
               {"model_type", "llama"},
               {"vocab_size", sizes.vocabulary},
               {"hidden_size", sizes.hidden},
               {"num_hidden_layers", sizes.layers},
               {"num_attention_heads", sizes.heads},
               {"num_key_value_heads", sizes.key_value_heads},
               {"intermediate_size", sizes.feed_forward},
               {"max_position_embeddings", sizes.positions},
               {"hidden_act", "silu"},
               {"rms_norm_eps", sizes.norm_epsilon},
               {"rope_theta", sizes.rope_base},
               {"attention_bias", false}};
    }
    out["tie_word_embeddings"] = sizes.tied;
    out["initializer_range"] = decoder_initial_deviation;
    out["bos_token_id"] = tokens.begin;
    out["eos_token_id"] = tokens.end;
    out["torch_dtype"] = "float32";
    return out.dump(2) + "\n";
}

}  // namespace dedloc::tasks
