#include "dedloc/tasks/language_model/decoder_writer.h"

#include "dedloc/tasks/choose_token.h"

namespace dedloc::tasks {

Result<std::vector<std::int64_t>> ids_of_prompt(const text::LanguageTokenizer& tokenizer,
                                                std::int64_t positions,
                                                const std::string& prompt) {
    const auto encoded = tokenizer.encode(text::valid_utf8(prompt));
    std::vector<std::int64_t> ids{tokenizer.begin_id()};
    ids.insert(ids.end(), encoded.begin(), encoded.end());
    if (static_cast<std::int64_t>(ids.size()) >= positions)
        return make_error(ErrorKind::bad_input,
                          "the prompt has {} tokens, and this model sees {} together with what it "
                          "writes; give the last part of the prompt alone",
                          ids.size(),
                          positions);
    return ids;
}

Result<Writing> write_text(Decoder& model,
                           const text::LanguageTokenizer& tokenizer,
                           const WriteRequest& request) {
    DEDLOC_TRY(const std::vector<std::int64_t> prompt,
               ids_of_prompt(tokenizer, model.config().positions, request.prompt));
    Random random(request.seed);
    DecoderCache cache = model.empty_cache();
    text::TextFromIds text(tokenizer);
    // A first space belongs to the text: what comes continues the prompt.
    for (const std::int64_t id : prompt) (void)text.add(id);
    Writing writing;
    writing.prompt_tokens = prompt.size() - 1;
    const auto tell = [&](const std::string& added) {
        writing.text += added;
        return added.empty() || !request.told || request.told(added);
    };
    // The model may know more tokens than the tokenizer.
    const auto known = static_cast<std::size_t>(
        std::min<std::int64_t>(tokenizer.size(), model.config().vocabulary));
    torch::Tensor scores = model.next_logits(prompt, cache);
    while (writing.tokens < request.tokens_max) {
        const torch::Tensor here = scores.to(torch::kCPU).to(torch::kFloat32).contiguous();
        const auto id = static_cast<std::int64_t>(choose_token(
            {here.data_ptr<float>(), known},
            {.top_k = request.top_k, .top_p = request.top_p, .temperature = request.temperature},
            random));
        writing.ended = id == tokenizer.end_id();
        if (writing.ended) break;
        ++writing.tokens;
        if (!tell(text.add(id))) break;
        writing.is_full = cache.length == model.config().positions;
        if (writing.is_full || writing.tokens == request.tokens_max) break;
        scores = model.next_logits({id}, cache);
    }
    (void)tell(text.finish());
    return writing;
}

}  // namespace dedloc::tasks
