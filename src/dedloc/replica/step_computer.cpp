#include "dedloc/replica/step_computer.h"

#include <bit>

#include "dedloc/consensus/ledger.h"
#include "dedloc/wire/message.h"

namespace dedloc::replica {
namespace {

Digest digest_of(const consensus::Decision& decision) {
    return consensus::decision_digest(wire::encode(decision));
}

// As a processor might that rounds otherwise.
Result<std::shared_ptr<const state::Snapshot>> with_another_bit(const state::Snapshot& state) {
    std::vector<state::Section> sections = state.sections();
    float& first = sections.front().values.front();
    first = std::bit_cast<float>(std::bit_cast<std::uint32_t>(first) ^ 1u);
    return state::Snapshot::make(state.info(), std::move(sections));
}

}  // namespace

struct StepComputer::Expected {
    Digest decision;
    StatePointer before;
    std::optional<Result<Stepped>> outcome{};  // nothing: it is being computed
};

StepComputer::StepComputer(runtime::Executor executor,
                           runtime::Workers& workers,
                           const allreduce::PartStore& parts,
                           const run::RunFile& run,
                           const run::Layout& layout,
                           consensus::PlantedBugs bugs)
    : workers_(workers),
      parts_(parts),
      run_(run),
      layout_(layout),
      bugs_(bugs),
      computed_(executor),
      scope_(executor) {}

StepComputer::~StepComputer() = default;

void StepComputer::expect(const consensus::Decision& decision,
                          StatePointer before,
                          OnNext on_next) {
    if (expected_ && !expected_->outcome) return;
    Expected expected{.decision = digest_of(decision), .before = std::move(before)};
    expected_ = std::make_shared<Expected>(std::move(expected));
    scope_.spawn("compute the next state", compute_ahead(expected_, decision, std::move(on_next)));
}

Task<void> StepComputer::compute_ahead(std::shared_ptr<Expected> expected,
                                       consensus::Decision decision,
                                       OnNext on_next) {
    expected->outcome = co_await compute(std::move(decision), expected->before, std::move(on_next));
    computed_.pulse();
}

Task<Result<StepComputer::Stepped>> StepComputer::step(consensus::Decision decision,
                                                       StatePointer before) {
    const std::shared_ptr<Expected> expected = std::move(expected_);
    expected_ = nullptr;
    if (expected && expected->before == before && expected->decision == digest_of(decision)) {
        while (!expected->outcome) co_await computed_.wait();
        // An average may have been forgotten before it was looked at; now it is there.
        if (*expected->outcome) co_return *std::move(expected->outcome);
    }
    Result<Stepped> stepped = co_await compute(std::move(decision), std::move(before), OnNext());
    co_return stepped;
}

Task<Result<StepComputer::Stepped>> StepComputer::compute(consensus::Decision decision,
                                                          StatePointer before,
                                                          OnNext on_next) {
    DEDLOC_CO_TRY(const consensus::RoundPlan plan,
                  wire::decode<consensus::RoundPlan>(decision.plan));
    std::vector<SharedBytes> parts;
    for (const consensus::FinishedPart& part : decision.parts)
        parts.push_back(parts_.find(part.digest));
    auto facts = std::make_shared<StepFacts>();
    auto work = [this, plan, parts = std::move(parts), before, decision, facts]()
        -> Result<std::shared_ptr<const state::Snapshot>> {
        const optim::ParallelFor parallel_for = [this](std::size_t count, const auto& task) {
            workers_.parallel_for(count, task);
        };
        DEDLOC_TRY(AveragedVector average,
                   averaged_vector(layout_, plan, parts, parallel_for, run_.fragments()));
        if (!bugs_.step_unbounded) shorten(average, layout_, consensus::step_scale(decision, plan));
        DEDLOC_TRY(auto next,
                   next_state(run_,
                              layout_,
                              *before->snapshot,
                              decision,
                              average.view(),
                              facts.get(),
                              parallel_for));
        if (bugs_.differs_at_step > 0 && next->step() == bugs_.differs_at_step)
            return with_another_bit(*next);
        return next;
    };
    Result<std::shared_ptr<const state::Snapshot>> next = co_await workers_.run(std::move(work));
    if (!next) co_return std::move(next).error();
    if (on_next) on_next(*next);
    Stepped stepped;
    stepped.facts = *facts;
    stepped.state = co_await state::publish(workers_, *next);
    co_return stepped;
}

}  // namespace dedloc::replica
