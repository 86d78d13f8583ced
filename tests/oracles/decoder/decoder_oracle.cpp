// Our decoder and tokenizers answer here, for tests/oracles/language to compare.
//
//   dedloc_decoder_oracle gradients FOLDER BATCH OUT   logits, loss and gradients of the model in a
//                         Hugging Face folder; BATCH has ids, segments, positions, labels (I64)
//   dedloc_decoder_oracle ids TOKENIZER TEXTS OUT      ids of each text of a JSON list

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dedloc/base/file.h"
#include "dedloc/tasks/language_model/decoder_json.h"
#include "dedloc/tasks/language_model/language_model_weights.h"
#include "dedloc/tasks/module_weights.h"
#include "dedloc/text/language_tokenizer.h"

namespace dedloc {
namespace {

constexpr std::size_t file_bytes_max = std::size_t{1} << 30;

Result<void> gradients(const std::string& folder, const std::string& in, const std::string& out) {
    DEDLOC_TRY(const std::string config,
               base::read_file(folder + "/config.json", tasks::decoder_json_bytes_max));
    DEDLOC_TRY(const auto sizes, tasks::decoder_from_json(config));
    tasks::Decoder model(sizes, 1);
    DEDLOC_TRY_VOID(tasks::load_decoder_folder(model, folder));
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
        const bool turned = tasks::Decoder::is_turned(sizes, item.key());
        file.add("gradient." + item.key(), turned ? gradient.t() : gradient);
    }
    const Bytes encoded = file.encoded();
    std::ofstream(out, std::ios::binary) << as_text(encoded);
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
    const auto run = what == "gradients" ? dedloc::gradients : dedloc::ids;
    if (what != "gradients" && what != "ids") {
        std::fputs("usage: dedloc_decoder_oracle gradients|ids MODEL IN OUT\n", stderr);
        return 2;
    }
    const auto done = run(words[2], words[3], words[4]);
    if (!done) std::fprintf(stderr, "%s\n", done.error().message().c_str());
    return done ? 0 : 1;
}
