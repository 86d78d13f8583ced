#include "dedloc/tasks/training_task.h"

#include "dedloc/data/catalogue.h"

namespace dedloc::tasks {
namespace {

Error writes_none() {
    return make_error(ErrorKind::unsupported,
                      "the task of this run writes no text (language_model does)");
}

Error draws_none() {
    return make_error(ErrorKind::unsupported,
                      "the task of this run draws no pictures (text_to_image does)");
}

}  // namespace

double value_of(const std::vector<Measure>& measures, std::string_view name) {
    for (const Measure& measure : measures)
        if (measure.name == name) return measure.value;
    return 0;
}

Result<std::shared_ptr<const data::OwnPieces>> TrainingTask::own_pieces() const {
    return std::shared_ptr<const data::OwnPieces>();
}

Result<std::vector<Measure>> TrainingTask::measure(std::span<const float>,
                                                   std::span<const float>,
                                                   std::uint64_t) const {
    return std::vector<Measure>();
}

Result<std::vector<std::string>> TrainingTask::export_model(std::span<const float>,
                                                            std::span<const float>,
                                                            const std::string&) const {
    return make_error(ErrorKind::unsupported, "models of this task are not exported yet");
}

Result<FineTuneScore> TrainingTask::fine_tune(std::span<const float>, const FineTuneInput&) const {
    return make_error(ErrorKind::unsupported,
                      "models of this task are not fine-tuned: it is no text");
}

Result<std::vector<std::string>> TrainingTask::sample_texts(std::uint64_t) const {
    return std::vector<std::string>();
}

MemoryEstimate TrainingTask::memory(std::uint64_t) const { return {}; }

Result<std::vector<float>> TrainingTask::read_weights(const std::string&) const {
    return make_error(ErrorKind::unsupported,
                      "models of this task do not begin with published weights (--weights); "
                      "those of language_model and albert do");
}

Result<std::unique_ptr<Generator>> TrainingTask::generator(std::span<const float>,
                                                           std::span<const float>) const {
    return make_error(ErrorKind::unsupported,
                      "the task of this run neither writes text nor draws pictures "
                      "(language_model and text_to_image do)");
}

Result<Writing> TrainingTask::write(std::span<const float>,
                                    std::span<const float>,
                                    const WriteRequest&) const {
    return writes_none();
}

Result<std::vector<TextScore>> TrainingTask::score(std::span<const float>,
                                                   std::span<const float>,
                                                   std::span<const ScoredText>) const {
    return make_error(ErrorKind::unsupported, "models of this task do not judge text");
}

Result<Drawing> TrainingTask::draw(std::span<const float>,
                                   std::span<const float>,
                                   const DrawRequest&) const {
    return draws_none();
}

Result<std::uint64_t> Generator::prompt_tokens(const std::string&) const { return writes_none(); }

Result<Writing> Generator::write(const WriteRequest&) { return writes_none(); }

Result<Drawing> Generator::draw(const DrawRequest&) { return draws_none(); }

}  // namespace dedloc::tasks
