#include "dedloc/tasks/language_model/language_model_weights.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "dedloc/base/file.h"
#include "dedloc/tasks/language_model/decoder_json.h"
#include "dedloc/tasks/module_weights.h"

namespace dedloc::tasks {

namespace {

namespace fs = std::filesystem;
using torch::Tensor;

constexpr std::size_t weights_bytes_max = std::size_t{64} << 30;
constexpr std::size_t index_bytes_max = 16u << 20;
constexpr std::size_t weight_files_max = 1024;
constexpr std::string_view prefix = "transformer.";

// Constants that some versions write beside the parameters, and the second name of a tied matrix.
bool is_ignored(const std::string& name, const DecoderConfig& config) {
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
           name.ends_with("rotary_emb.inv_freq") || (config.tied && name == "lm_head.weight");
}

// Null: in none of them.
const Safetensor* find_weight(const std::vector<Safetensors>& files, const std::string& name) {
    for (const Safetensors& file : files) {
        auto found = file.tensors.find(name);
        if (found == file.tensors.end() && name.starts_with(prefix))
            found = file.tensors.find(name.substr(prefix.size()));
        if (found != file.tensors.end()) return &found->second;
    }
    return nullptr;
}

Result<Tensor> values_for(const std::string& name,
                          const Tensor& place,
                          const Safetensor& weight,
                          bool turned) {
    std::vector<std::int64_t> shape = place.sizes().vec();
    if (turned) std::reverse(shape.begin(), shape.end());
    if (weight.shape != shape)
        return make_error(ErrorKind::bad_input,
                          "'{}' has the shape [{}], this model's is [{}]",
                          name,
                          fmt::join(weight.shape, ", "),
                          fmt::join(shape, ", "));
    DEDLOC_TRY(const std::vector<float> values, weight.floats());
    const Tensor tensor =
        torch::tensor(torch::ArrayRef<float>(values)).view(torch::IntArrayRef(shape));
    return turned ? tensor.t() : tensor;
}

Result<std::vector<std::string>> weight_files(const std::string& folder) {
    std::error_code error;
    if (fs::exists(folder + "/model.safetensors", error))
        return std::vector<std::string>{"model.safetensors"};
    const std::string index = folder + "/model.safetensors.index.json";
    if (!fs::exists(index, error))
        return make_error(ErrorKind::not_found,
                          "{} has no model.safetensors (and no model.safetensors.index.json); "
                          "weights are read in this format alone",
                          folder);
    DEDLOC_TRY(const std::string text, base::read_file(index, index_bytes_max));
    const auto map = nlohmann::json::parse(text, nullptr, false);
    std::set<std::string> names;
    if (map.is_object() && map.contains("weight_map") && map["weight_map"].is_object())
        for (const auto& item : map["weight_map"].items())
            if (item.value().is_string()) names.insert(item.value().get<std::string>());
    // A name with a slash would be a file somewhere else.
    const bool good = !names.empty() && names.size() <= weight_files_max &&
                      std::none_of(names.begin(), names.end(), [](const std::string& name) {
                          return name.find('/') != std::string::npos;
                      });
    if (!good) return make_error(ErrorKind::bad_input, "{} names no files of weights", index);
    return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace

Ok check_same_model(const DecoderConfig& run, const DecoderConfig& folder) {
    const auto other = [](const char* field, const auto& here, const auto& there) -> Ok {
        if (here == there) return {};
        return make_error(ErrorKind::bad_input,
                          "{} is {} in the run file and {} in the weights' config.json; `dedloc "
                          "init language_model --weights FOLDER` writes a run file that fits",
                          field,
                          here,
                          there);
    };
    const auto name = [](const DecoderConfig& config) -> std::string_view {
        return config.family == DecoderFamily::gpt2 ? "gpt2" : "llama";
    };
    DEDLOC_TRY_VOID(other("task.model", name(run), name(folder)));
    DEDLOC_TRY_VOID(other("language_model.vocabulary", run.vocabulary, folder.vocabulary));
    DEDLOC_TRY_VOID(other("language_model.hidden", run.hidden, folder.hidden));
    DEDLOC_TRY_VOID(other("language_model.layers", run.layers, folder.layers));
    DEDLOC_TRY_VOID(other("language_model.heads", run.heads, folder.heads));
    DEDLOC_TRY_VOID(
        other("language_model.key_value_heads", run.key_value_heads, folder.key_value_heads));
    DEDLOC_TRY_VOID(other("language_model.feed_forward", run.feed_forward, folder.feed_forward));
    DEDLOC_TRY_VOID(other("language_model.norm_epsilon", run.norm_epsilon, folder.norm_epsilon));
    DEDLOC_TRY_VOID(other("language_model.tied", run.tied, folder.tied));
    if (run.family == DecoderFamily::llama) {
        // The number of positions costs nothing: a shorter context than the published one is
        // allowed.
        return other("language_model.rope_base", run.rope_base, folder.rope_base);
    }
    return other("language_model.positions", run.positions, folder.positions);
}

Ok load_decoder_weights(Decoder& model, const std::vector<Safetensors>& files) {
    std::vector<std::pair<Tensor, Tensor>> copies;
    std::set<std::string> known;
    for (const auto& item : model.named_parameters()) {
        const std::string& name = item.key();
        if (Decoder::is_adapter(name)) continue;
        known.insert(name);
        if (name.starts_with(prefix)) known.insert(name.substr(prefix.size()));
        const Safetensor* weight = find_weight(files, name);
        if (weight == nullptr)
            return make_error(ErrorKind::bad_input, "there is no weight '{}'", name);
        DEDLOC_TRY(
            Tensor values,
            values_for(name, item.value(), *weight, Decoder::is_turned(model.config(), name)));
        copies.emplace_back(item.value(), std::move(values));
    }
    for (const Safetensors& file : files)
        for (const auto& item : file.tensors)
            if (!known.contains(item.first) && !is_ignored(item.first, model.config()))
                return make_error(ErrorKind::bad_input,
                                  "this model has no weight '{}'",
                                  item.first.substr(0, 80));
    const torch::NoGradGuard no_grad;
    for (auto& [place, values] : copies) place.copy_(values);
    return {};
}

Ok load_decoder_folder(Decoder& model, const std::string& folder) {
    DEDLOC_TRY(const std::string config,
               base::read_file(folder + "/config.json", decoder_json_bytes_max));
    const auto sizes = decoder_from_json(config);
    if (!sizes) return sizes.error().with_context(folder);
    DEDLOC_TRY_VOID(check_same_model(model.config(), *sizes));
    DEDLOC_TRY(const auto names, weight_files(folder));
    std::vector<std::string> contents;
    std::vector<Safetensors> files;
    contents.reserve(names.size());  // the files view them
    for (const std::string& name : names) {
        DEDLOC_TRY(contents.emplace_back(),
                   base::read_file(folder + "/" + name, weights_bytes_max));
        auto file = parse_safetensors(as_bytes(contents.back()));
        if (!file) return file.error().with_context(folder + "/" + name);
        files.push_back(*std::move(file));
    }
    const Ok loaded = load_decoder_weights(model, files);
    if (!loaded) return loaded.error().with_context(folder);
    return {};
}

Bytes decoder_safetensors(const Decoder& model, SafetensorsType as) {
    WeightsFile file;
    for (const auto& item : model.named_parameters()) {
        if (Decoder::is_adapter(item.key())) continue;
        const Tensor values = item.value().detach().cpu();
        const bool turned = Decoder::is_turned(model.config(), item.key());
        file.add(item.key(), turned ? values.t() : values, as);
    }
    return file.encoded();
}

}  // namespace dedloc::tasks
