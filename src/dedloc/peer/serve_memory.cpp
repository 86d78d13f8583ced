#include "dedloc/peer/serve_memory.h"

#include <algorithm>
#include <memory>

#include "dedloc/runtime/heap.h"
#include "dedloc/runtime/machine.h"
#include "dedloc/runtime/memory_use.h"

namespace dedloc::peer {
namespace {

constexpr std::size_t rows_to_begin_with = 16;
constexpr std::size_t sizes_measured_max = 16;  // each half as large as the one before
// A call's tensors as they arrive, as they are read, and as they wait.
constexpr std::uint64_t tensors_of_call = 3;
// Kernels, at least, which are measured where there is room for them.
constexpr std::uint64_t kernels_bytes = 8u << 20;
// Measured once; the next batch may find memory in other pieces.
constexpr double work_margin = 1.15;
// While an expert is taken over: its snapshot as bytes and as numbers, and what becomes of it.
constexpr std::uint64_t copies_at_once = 4;

std::vector<experts::Tensor> rows_for(const std::vector<experts::TensorSpec>& specs,
                                      std::size_t rows) {
    std::vector<experts::Tensor> tensors;
    for (const experts::TensorSpec& spec : specs)
        tensors.push_back(experts::zeros(rows, spec.sample));
    return tensors;
}

std::uint64_t bytes_of_call(const experts::ExpertSchema& schema, std::size_t rows) {
    std::uint64_t numbers = 0;
    for (const experts::TensorSpec& spec : schema.backward_inputs()) {
        std::uint64_t of_row = 1;
        for (const std::int64_t size : spec.sample) of_row *= static_cast<std::uint64_t>(size);
        numbers += of_row * rows;
    }
    return tensors_of_call * numbers * sizeof(float);
}

Ok compute_once(experts::ExpertBackend& expert, std::size_t rows) {
    const experts::ExpertSchema& schema = expert.schema();
    const auto inputs = rows_for(schema.inputs, rows);
    DEDLOC_TRY_VOID(expert.forward(inputs));
    DEDLOC_TRY_VOID(expert.backward(inputs, rows_for(schema.outputs, rows)));
    return {};
}

struct Measured {
    std::uint64_t stays = 0;   // kernels, threads, the library's own
    std::uint64_t passes = 0;  // while the largest batch is computed
    std::uint64_t call = 0;
};

Result<Measured> measure_work(const tasks::RunExperts& experts) {
    const runtime::OwnMemory before = runtime::own_memory();
    DEDLOC_TRY(auto expert, experts.factory(experts.grid.all().front()));
    Measured measured;
    measured.call = bytes_of_call(expert->schema(), experts.update_batch);
    // Pages of the library itself are no part of what is measured.
    DEDLOC_TRY_VOID(compute_once(*expert, rows_to_begin_with));
    Ok computed = Ok();
    measured.passes = runtime::most_memory_during([&] {
        std::size_t rows = experts.update_batch;
        for (std::size_t i = 0; i < sizes_measured_max && computed && rows > 0; ++i, rows /= 2)
            computed = compute_once(*expert, rows);
    });
    DEDLOC_TRY_VOID(computed);
    expert.reset();
    runtime::give_back_freed_memory();
    const runtime::OwnMemory after = runtime::own_memory();
    const auto grown = [](std::uint64_t now, std::uint64_t then) {
        return now - std::min(now, then);
    };
    measured.stays = grown(after.resident, before.resident);
    return measured;
}

}  // namespace

Outcome<ServeMemory> ServeMemory::reserve(const tasks::RunExperts& experts,
                                          std::uint64_t bytes,
                                          std::uint64_t beside) {
    ServeMemory memory;
    const runtime::OwnMemory program = runtime::own_memory();
    memory.program_ = program.resident;
    memory.program_data_ = program.data;
    memory.lent_ = bytes;
    if (const std::uint64_t left = runtime::memory_available(); left > 0 && left < bytes)
        return Failure{ExitCode::cannot_compute,
                       fmt::format("--memory {} is more than this machine, or what limits this "
                                   "program on it, has left: {} MiB",
                                   bytes >> 20,
                                   left >> 20)};
    if (!runtime::can_take_memory(bytes))
        return Failure{ExitCode::cannot_compute,
                       fmt::format("this process may not take the {} MiB that --memory says: its "
                                   "limit is lower (`ulimit -d`, `ulimit -v`, or a service's)",
                                   bytes >> 20)};
    experts::MemoryNeeds needs{.expert = experts.bytes_of_one,
                               .beside = beside,
                               .work = experts.work_bytes / 2,
                               .call = 1};
    // Far too little is not tried.
    if (const auto plan = experts::plan_memory(bytes, needs); !plan) {
        needs.work = experts.work_bytes + kernels_bytes;
        return failure(experts::plan_memory(bytes, needs).error());
    }
    const auto measured = measure_work(experts);
    if (!measured) return failure(measured.error());
    const auto with_margin = [](std::uint64_t amount) {
        return static_cast<std::uint64_t>(work_margin * static_cast<double>(amount));
    };
    memory.batch_ = with_margin(measured->passes);
    memory.expert_ = copies_at_once * experts.bytes_of_one;
    needs.work = measured->stays + memory.batch_;
    needs.call = measured->call;
    const auto plan = experts::plan_memory(bytes, needs);
    if (!plan) return failure(plan.error());
    memory.plan_ = *plan;
    return memory;
}

std::uint64_t ServeMemory::taken() const {
    const std::uint64_t now = runtime::own_memory().resident;
    return now - std::min(now, program_);
}

Ok ServeMemory::room_for(std::uint64_t bytes) const {
    if (taken() + bytes > lent_) runtime::give_back_freed_memory();
    if (taken() + bytes > lent_)
        return make_error(ErrorKind::overloaded,
                          "this server has {} MiB of the {} that it lends in use",
                          taken() >> 20,
                          lent_ >> 20);
    if (!runtime::can_take_memory(bytes))
        return make_error(ErrorKind::overloaded, "this server's machine gives it no more memory");
    return {};
}

}  // namespace dedloc::peer
