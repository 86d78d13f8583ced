#include "dedloc/train/trainer.h"

#include <fmt/format.h>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/train/evaluator.h"
#include "dedloc/train/first_line.h"

namespace dedloc::train {

Trainer::Trainer(runtime::Spawn spawn,
                 runtime::Clock& clock,
                 runtime::Disk& disk,
                 collab::Collaboration& collaboration,
                 std::unique_ptr<SampledModel> model,
                 TrainerOptions options)
    : clock_(clock),
      collaboration_(collaboration),
      model_(std::move(model)),
      options_(std::move(options)),
      micro_batch_(clock,
                   {.samples = options_.micro_batch,
                    .search = options_.micro_search,
                    .again = options_.micro_search_again,
                    .memory = options_.memory,
                    .on_found = options_.on_micro_batch}),
      loop_(std::move(spawn),
            clock,
            disk,
            collaboration,
            *model_,
            model_.get(),
            std::move(options_.loop)) {
    loop_.wait_only_while([this] { return wait_on(); });
}

Trainer::~Trainer() {
    stop(Duration(0));
    if (thread_.joinable()) thread_.join();
}

void Trainer::start() {
    DEDLOC_CHECK(!thread_.joinable(), "started twice");
    thread_ = std::thread([this] {
        if (options_.computes_on_cpu) runtime::lower_thread_priority();
        outcome_ = run();
        if (options_.on_end && !stopping_) options_.on_end(outcome_);
        ended_ = true;
    });
}

void Trainer::stop(Duration grace_period) {
    give_up_at_ = (clock_.now() + grace_period).since_start.count();
    stopping_ = true;
    loop_.stop();
}

Result<void> Trainer::join() {
    if (thread_.joinable()) thread_.join();
    return outcome_;
}

Result<void> Trainer::wait_on() const {
    if (!stopping_ || clock_.now().since_start.count() < give_up_at_) return {};
    return make_error(ErrorKind::cancelled, "the trainer was stopped");
}

Result<void> Trainer::run() {
    micro_batch_.begin();
    collaboration_.trainer_runs(true);
    const Result<void> trained = train_or_say_why();
    collaboration_.trainer_runs(false);
    if (trained && !stopping_) loop_.evaluate_the_end();
    loop_.wait_for_evaluations();
    const Result<void> closed = loop_.end();
    DEDLOC_TRY_VOID(trained);
    return closed;
}

// A model throws what it has no way to return: libtorch's memory runs out in load(), too.
Result<void> Trainer::train_or_say_why() {
    try {
        const Result<void> trained = train();
        if (!trained && trained.error().kind() == ErrorKind::cancelled) return {};
        return trained;
    } catch (const std::exception& failure) {
        return make_error(ErrorKind::cannot_compute,
                          "this machine cannot go on training: {} (if memory ran out, --device cpu "
                          "may have more)",
                          first_line(failure));
    }
}

Result<void> Trainer::train() {
    DEDLOC_TRY_VOID(loop_.begin());
    for (;;) {
        loop_.check_in(micro_batch_.size());
        DEDLOC_TRY(const bool more, loop_.until_compute());
        if (!more) break;
        DEDLOC_TRY_VOID(compute());
    }
    return loop_.finish();
}

Result<void> Trainer::compute() {
    const Result<collab::CounterRange> range = loop_.take_numbers(micro_batch_.next());
    if (range) return compute(*range);
    if (loop_.is_over()) return {};  // what was computed before is handed in all the same
    return range.error();
}

Result<void> Trainer::compute(collab::CounterRange range) {
    const TimePoint begun = clock_.now();
    const Result<GradientReport> report = model_->accumulate(range);
    if (!report) {
        if (range.size() == 1 || !says_out_of_memory(report.error())) return report.error();
        if (micro_batch_.does_not_fit(range.size())) return compute_in_halves(range);
        return report.error().with_context(fmt::format(
            "the run's batch.micro, {} samples at a time, does not fit into the memory here (the "
            "run file could say \"auto\"; --device cpu may have more)",
            range.size()));
    }
    const double seconds = to_seconds(clock_.now() - begun);
    DEDLOC_TRY(const bool counts, loop_.computed(range, *report, seconds));
    if (!counts) return {};
    samples_computed_ += range.size();
    micro_batch_.computed(seconds);
    return {};
}

// The samples that were too many at a time are computed all the same.
Result<void> Trainer::compute_in_halves(collab::CounterRange range) {
    const std::uint64_t middle = range.begin + range.size() / 2;
    DEDLOC_TRY_VOID(compute(collab::CounterRange{range.begin, middle}));
    return compute(collab::CounterRange{middle, range.end});
}

}  // namespace dedloc::train
