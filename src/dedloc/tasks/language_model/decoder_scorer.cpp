#include "dedloc/tasks/language_model/decoder_scorer.h"

#include <algorithm>

namespace dedloc::tasks {

namespace {

struct TextIds {
    std::vector<std::int64_t> ids;  // a document's beginning, what stands before, the text
    std::size_t first = 0;          // of the text
};

Result<TextIds> ids_of(const text::LanguageTokenizer& tokenizer, const ScoredText& scored) {
    const std::size_t end = scored.before.find_last_not_of(' ') + 1;  // npos + 1: all are spaces
    const auto before = tokenizer.encode(text::valid_utf8(scored.before.substr(0, end)));
    const auto whole = tokenizer.encode(text::valid_utf8(scored.before + scored.text));
    if (whole.size() <= before.size())
        return make_error(ErrorKind::bad_input, "a text that is to be judged is empty");
    TextIds made;
    made.ids.push_back(tokenizer.begin_id());
    made.ids.insert(made.ids.end(), whole.begin(), whole.end());
    made.first = before.size() + 1;
    return made;
}

// Judges the last `count` of these ids, each behind those before it.
void add_window(Decoder& model,
                std::span<const std::int64_t> ids,
                std::size_t count,
                TextScore& to) {
    const auto columns = static_cast<std::int64_t>(ids.size() - 1);
    const torch::Tensor all = torch::tensor(torch::ArrayRef<std::int64_t>(ids.data(), ids.size()));
    const torch::Device device = model.parameters().front().device();
    DecoderBatch batch;
    batch.ids = all.slice(0, 0, columns).view({1, columns}).to(device);
    batch.segments = torch::zeros({1, columns}, torch::kInt64).to(device);
    batch.positions = torch::arange(columns, torch::kInt64).view({1, columns}).to(device);
    batch.labels = all.slice(0, 1).view({1, columns}).to(device);
    const auto judged = static_cast<std::int64_t>(count);
    const torch::Tensor scores = torch::log_softmax(
        model.logits(batch)[0].slice(0, columns - judged).to(torch::kFloat64), -1);
    const torch::Tensor labels = batch.labels[0].slice(0, columns - judged);
    to.nats -= scores.gather(1, labels.unsqueeze(1)).sum().item<double>();
    to.is_greedy = to.is_greedy && scores.argmax(-1).equal(labels);
    to.tokens += count;
}

}  // namespace

Result<TextScore> score_text(Decoder& model,
                             const text::LanguageTokenizer& tokenizer,
                             const ScoredText& scored) {
    DEDLOC_TRY(const TextIds text, ids_of(tokenizer, scored));
    // Inputs and, one further, the last label.
    const auto window = static_cast<std::size_t>(model.config().positions) + 1;
    TextScore score;
    score.is_greedy = true;
    score.bytes = scored.text.size();
    const std::span<const std::int64_t> ids(text.ids);
    for (std::size_t next = text.first; next < ids.size();) {
        // As much as fits; behind the first window no more than half of it is judged at a time.
        const std::size_t begin = next < window ? 0 : next - window / 2;
        const std::size_t end = std::min(ids.size(), begin + window);
        add_window(model, ids.subspan(begin, end - begin), end - next, score);
        next = end;
    }
    return score;
}

}  // namespace dedloc::tasks
