// Our decoder and tokenizers answer here, for tests/oracles/language to compare.
//
//   dedloc_decoder_oracle gradients FOLDER BATCH OUT   logits, loss and gradients of the model in a
//                         Hugging Face folder; BATCH has ids, segments, positions, labels (I64)
//   dedloc_decoder_oracle lora FOLDER BATCH OUT        the same with adapters, which are written
//                         into the folder OUT as `peft` reads them; beside them out.safetensors
//   dedloc_decoder_oracle ids TOKENIZER TEXTS OUT      ids of each text of a JSON list

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dedloc/base/file.h"
#include "dedloc/tasks/language_model/decoder_json.h"
#include "dedloc/tasks/language_model/language_model_weights.h"
#include "dedloc/tasks/language_model/lora_files.h"
#include "dedloc/tasks/module_weights.h"
#include "dedloc/text/language_tokenizer.h"

namespace dedloc {
namespace {

constexpr std::size_t file_bytes_max = std::size_t{1} << 30;

Result<tasks::DecoderConfig> sizes_of(const std::string& folder) {
    DEDLOC_TRY(const std::string config,
               base::read_file(folder + "/config.json", tasks::decoder_json_bytes_max));
    return tasks::decoder_from_json(config);
}

Result<void> compute(tasks::Decoder& model, const std::string& in, const std::string& out) {
    DEDLOC_TRY(const std::string bytes, base::read_file(in, file_bytes_max));
    DEDLOC_TRY(const auto batch_file, tasks::parse_safetensors(as_bytes(bytes)));
    const auto tensor = [&](const std::string& name) -> Result<torch::Tensor> {
        DEDLOC_TRY(const auto found, batch_file.find(name));
        DEDLOC_TRY(const auto values, found.integers());
        return torch::tensor(values).view(torch::IntArrayRef(found.shape));
    };
    tasks::DecoderBatch batch;
    DEDLOC_TRY(batch.ids, tensor("ids"));
    DEDLOC_TRY(batch.segments, tensor("segments"));
    DEDLOC_TRY(batch.positions, tensor("positions"));
    DEDLOC_TRY(batch.labels, tensor("labels"));
    const torch::Tensor logits = model.logits(batch);
    const auto loss = tasks::decoder_loss(logits, batch.labels);
    loss.sum.backward();
    tasks::WeightsFile file;
    file.add("logits", logits);
    file.add("loss", loss.sum.to(torch::kFloat32).view({1}));
    for (const auto& item : model.named_parameters()) {
        const torch::Tensor gradient = item.value().grad();
        if (!gradient.defined()) continue;  // frozen
        const bool turned = tasks::Decoder::is_turned(model.config(), item.key());
        file.add("gradient." + item.key(), turned ? gradient.t() : gradient);
    }
    const Bytes encoded = file.encoded();
    std::ofstream(out, std::ios::binary) << as_text(encoded);
    return {};
}

Result<void> gradients(const std::string& folder, const std::string& in, const std::string& out) {
    DEDLOC_TRY(const auto sizes, sizes_of(folder));
    tasks::Decoder model(sizes, 1);
    DEDLOC_TRY_VOID(tasks::load_decoder_folder(model, folder));
    return compute(model, in, out);
}

// Adapters everywhere; the second of each pair, zero at first, is drawn as well.
Result<void> lora(const std::string& folder, const std::string& in, const std::string& out) {
    DEDLOC_TRY(auto sizes, sizes_of(folder));
    sizes.lora = {.rank = 4, .alpha = 12, .targets = "all"};
    tasks::Decoder model(sizes, 1);
    DEDLOC_TRY_VOID(tasks::load_decoder_folder(model, folder));
    {
        const torch::NoGradGuard no_grad;
        for (auto& item : model.named_parameters())
            if (tasks::Decoder::is_adapter(item.key())) item.value().normal_(0, 0.2);
    }
    DEDLOC_TRY_VOID(compute(model, in, out + "/out.safetensors"));
    const Bytes adapters = tasks::adapter_safetensors(model);
    std::ofstream(out + "/adapter_model.safetensors", std::ios::binary) << as_text(adapters);
    std::ofstream(out + "/adapter_config.json") << tasks::adapter_config(sizes);
    model.merge_adapters();
    const Bytes merged = tasks::decoder_safetensors(model);
    std::ofstream(out + "/merged.safetensors", std::ios::binary) << as_text(merged);
    return {};
}

Result<void> ids(const std::string& tokenizer_path, const std::string& in, const std::string& out) {
    DEDLOC_TRY(const auto tokenizer, text::LanguageTokenizer::load(tokenizer_path));
    DEDLOC_TRY(const std::string json, base::read_file(in, file_bytes_max));
    nlohmann::json result = nlohmann::json::array();
    for (const auto& text : nlohmann::json::parse(json)) {
        const auto encoded = tokenizer->encode(text.get<std::string>());
        const std::vector<std::int64_t> wide(encoded.begin(), encoded.end());
        result.push_back({{"ids", encoded}, {"text", text::valid_utf8(tokenizer->decode(wide))}});
    }
    std::ofstream(out) << result.dump();
    return {};
}

}  // namespace
}  // namespace dedloc

int main(int count, char** words) {
    const std::string what = count == 5 ? words[1] : "";
    const auto run = what == "gradients" ? dedloc::gradients
                     : what == "lora"    ? dedloc::lora
                                         : dedloc::ids;
    if (what != "gradients" && what != "lora" && what != "ids") {
        std::fputs("usage: dedloc_decoder_oracle gradients|lora|ids MODEL IN OUT\n", stderr);
        return 2;
    }
    const auto done = run(words[2], words[3], words[4]);
    if (!done) std::fprintf(stderr, "%s\n", done.error().message().c_str());
    return done ? 0 : 1;
}
