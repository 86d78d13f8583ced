#include "dedloc/tasks/training_task.h"

#include "dedloc/data/catalogue.h"

namespace dedloc::tasks {

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

Result<Writing> TrainingTask::write(std::span<const float>,
                                    std::span<const float>,
                                    const WriteRequest&) const {
    return make_error(ErrorKind::unsupported,
                      "the task of this run writes no text (language_model does)");
}

Result<std::vector<TextScore>> TrainingTask::score(std::span<const float>,
                                                   std::span<const float>,
                                                   std::span<const ScoredText>) const {
    return make_error(ErrorKind::unsupported, "models of this task do not judge text");
}

Result<Drawing> TrainingTask::draw(std::span<const float>,
                                   std::span<const float>,
                                   const DrawRequest&) const {
    return make_error(ErrorKind::unsupported,
                      "the task of this run draws no pictures (text_to_image does)");
}

}  // namespace dedloc::tasks
