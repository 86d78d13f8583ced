#include "dedloc/tasks/albert/albert_weights.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "dedloc/base/file.h"
#include "dedloc/tasks/module_weights.h"

namespace dedloc::tasks {

namespace {

using nlohmann::json;
using torch::Tensor;

// Written by some versions of Hugging Face's tools beside the parameters; nothing is lost.
constexpr std::string_view ignored_weights[] = {"albert.embeddings.position_ids",
                                                "albert.embeddings.token_type_ids",
                                                "predictions.decoder.weight",
                                                "predictions.decoder.bias"};

constexpr std::size_t weights_bytes_max = std::size_t{16} << 30;

bool is_ignored(const std::string& name) {
    for (const std::string_view ignored : ignored_weights)
        if (name == ignored) return true;
    return false;
}

Result<Tensor> tensor_for(const std::string& name, const Tensor& place, const Safetensor& weight) {
    if (weight.shape != place.sizes().vec())
        return make_error(ErrorKind::bad_input,
                          "'{}' has the shape [{}], this model's is [{}]",
                          name,
                          fmt::join(weight.shape, ", "),
                          fmt::join(place.sizes().vec(), ", "));
    DEDLOC_TRY(const std::vector<float> values, weight.floats());
    return torch::tensor(torch::ArrayRef<float>(values)).view(place.sizes());
}

Result<std::int64_t> size_in(const json& config, const char* key) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_number_integer())
        return make_error(ErrorKind::bad_input, "config.json: '{}' must be a whole number", key);
    return found->get<std::int64_t>();
}

Result<double> number_in(const json& config, const char* key, double otherwise) {
    const auto found = config.find(key);
    if (found == config.end()) return otherwise;
    if (!found->is_number())
        return make_error(ErrorKind::bad_input, "config.json: '{}' must be a number", key);
    return found->get<double>();
}

Ok expect(const json& config, const char* key, const json& wanted) {
    const auto found = config.find(key);
    if (found == config.end() || *found == wanted) return {};
    return make_error(ErrorKind::unsupported,
                      "config.json: '{}' is {}; this ALBERT has {}",
                      key,
                      found->dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 64),
                      wanted.dump());
}

}  // namespace

Ok load_albert_weights(AlbertModel& model, const Safetensors& weights) {
    std::vector<std::pair<Tensor, Tensor>> copies;
    std::size_t used = 0;
    for (const auto& item : model.named_parameters()) {
        DEDLOC_TRY(const Safetensor weight, weights.find(item.key()));
        DEDLOC_TRY(Tensor values, tensor_for(item.key(), item.value(), weight));
        copies.emplace_back(item.value(), std::move(values));
        ++used;
    }
    for (const auto& item : weights.tensors) {
        if (is_ignored(item.first)) ++used;
    }
    if (used != weights.tensors.size()) {
        const auto known = model.named_parameters();
        for (const auto& item : weights.tensors) {
            if (!known.contains(item.first) && !is_ignored(item.first))
                return make_error(
                    ErrorKind::bad_input, "ALBERT has no weight '{}'", item.first.substr(0, 80));
        }
    }
    torch::NoGradGuard no_grad;
    for (auto& [place, values] : copies) place.copy_(values);
    return {};
}

Ok load_albert_folder(AlbertModel& model, const std::string& folder) {
    DEDLOC_TRY(const std::string config,
               base::read_file(folder + "/config.json", albert_config_bytes_max));
    auto sizes = albert_config_from_json(config);
    if (!sizes) return sizes.error().with_context(folder);
    // How much is dropped out is the new run's affair.
    sizes->dropout = model.config().dropout;
    sizes->attention_dropout = model.config().attention_dropout;
    sizes->classifier_dropout = model.config().classifier_dropout;
    if (!(*sizes == model.config()))
        return make_error(ErrorKind::bad_input,
                          "{}/config.json has other sizes than [albert] of the run file: "
                          "vocabulary {}, embedding {}, hidden {}, layers {}, heads {}, "
                          "feed_forward {}, positions {}",
                          folder,
                          sizes->vocabulary,
                          sizes->embedding,
                          sizes->hidden,
                          sizes->layers,
                          sizes->heads,
                          sizes->feed_forward,
                          sizes->positions);
    const std::string path = folder + "/model.safetensors";
    DEDLOC_TRY(const std::string bytes, base::read_file(path, weights_bytes_max));
    const auto file = parse_safetensors(base::as_bytes(bytes));
    if (!file) return file.error().with_context(path);
    const Ok loaded = load_albert_weights(model, *file);
    if (!loaded) return loaded.error().with_context(path);
    return {};
}

Bytes albert_safetensors(const AlbertModel& model) {
    WeightsFile file;
    file.add_parameters(model);
    return file.encoded();
}

std::string albert_config_json(const AlbertConfig& config) {
    const nlohmann::ordered_json out{{"architectures", {"AlbertForPreTraining"}},
                                     {"model_type", "albert"},
                                     {"vocab_size", config.vocabulary},
                                     {"embedding_size", config.embedding},
                                     {"hidden_size", config.hidden},
                                     {"num_hidden_layers", config.layers},
                                     {"num_hidden_groups", 1},
                                     {"inner_group_num", 1},
                                     {"num_attention_heads", config.heads},
                                     {"intermediate_size", config.feed_forward},
                                     {"hidden_act", "gelu_new"},
                                     {"max_position_embeddings", config.positions},
                                     {"type_vocab_size", albert_token_types},
                                     {"hidden_dropout_prob", config.dropout},
                                     {"attention_probs_dropout_prob", config.attention_dropout},
                                     {"classifier_dropout_prob", config.classifier_dropout},
                                     {"initializer_range", albert_initial_deviation},
                                     {"layer_norm_eps", albert_norm_epsilon},
                                     {"position_embedding_type", "absolute"},
                                     {"pad_token_id", albert_pad_id},
                                     {"bos_token_id", 2},
                                     {"eos_token_id", 3},
                                     {"torch_dtype", "float32"}};
    return out.dump(2) + "\n";
}

std::string albert_tokenizer_json(const AlbertConfig& config) {
    const nlohmann::ordered_json out{{"tokenizer_class", "AlbertTokenizer"},
                                     {"do_lower_case", false},
                                     {"keep_accents", true},
                                     {"remove_space", true},
                                     {"model_max_length", config.positions}};
    return out.dump(2) + "\n";
}

Result<AlbertConfig> albert_config_from_json(std::string_view text) {
    if (text.size() > albert_config_bytes_max)
        return make_error(ErrorKind::bad_input, "config.json: {} bytes are too many", text.size());
    const json config = json::parse(text.begin(), text.end(), nullptr, false);
    if (!config.is_object())
        return make_error(ErrorKind::bad_input, "config.json is not a JSON object");
    DEDLOC_TRY_VOID(expect(config, "model_type", "albert"));
    DEDLOC_TRY_VOID(expect(config, "hidden_act", "gelu_new"));
    DEDLOC_TRY_VOID(expect(config, "num_hidden_groups", 1));
    DEDLOC_TRY_VOID(expect(config, "inner_group_num", 1));
    DEDLOC_TRY_VOID(expect(config, "type_vocab_size", albert_token_types));
    DEDLOC_TRY_VOID(expect(config, "position_embedding_type", "absolute"));
    DEDLOC_TRY_VOID(expect(config, "layer_norm_eps", albert_norm_epsilon));
    DEDLOC_TRY_VOID(expect(config, "pad_token_id", albert_pad_id));
    AlbertConfig sizes;
    DEDLOC_TRY(sizes.vocabulary, size_in(config, "vocab_size"));
    DEDLOC_TRY(sizes.embedding, size_in(config, "embedding_size"));
    DEDLOC_TRY(sizes.hidden, size_in(config, "hidden_size"));
    DEDLOC_TRY(sizes.layers, size_in(config, "num_hidden_layers"));
    DEDLOC_TRY(sizes.heads, size_in(config, "num_attention_heads"));
    DEDLOC_TRY(sizes.feed_forward, size_in(config, "intermediate_size"));
    DEDLOC_TRY(sizes.positions, size_in(config, "max_position_embeddings"));
    DEDLOC_TRY(sizes.dropout, number_in(config, "hidden_dropout_prob", 0));
    DEDLOC_TRY(sizes.attention_dropout, number_in(config, "attention_probs_dropout_prob", 0));
    DEDLOC_TRY(sizes.classifier_dropout, number_in(config, "classifier_dropout_prob", 0.1));
    DEDLOC_TRY_VOID(check(sizes));
    return sizes;
}

}  // namespace dedloc::tasks
