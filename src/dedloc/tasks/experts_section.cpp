#include "dedloc/tasks/experts_section.h"

#include <charconv>

namespace dedloc::tasks {

namespace {

constexpr std::uint64_t grid_experts_max = 65536;  // each server asks for all of them

// The layers' values of a batch and their gradients, with the library's copies of them, and as much
// for the parameters.
std::uint64_t work_bytes(std::uint64_t width, std::uint64_t hidden, std::uint64_t rows) {
    constexpr std::uint64_t values_of_layer = 6;
    constexpr std::uint64_t copies_of_parameters = 4;
    return sizeof(float) *
           (values_of_layer * rows * (hidden + 2 * width) +
            copies_of_parameters * experts::FfnExpert::parameters_count(width, hidden));
}

// An own loop's run file was read without a schema: whoever hosts it may have written anything.
struct OwnLoopExpertKeys : ExpertKeys {
    std::uint64_t width = 0;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        ExpertKeys::fields(visit, self);
        visit("width", self.width, run::Integers{1, 65536}, "numbers in a row");
    }
};

bool keeps_rule(const run::SectionValue& value, const run::SectionSchema::Field& field) {
    if (value.index() != field.initial.index()) return false;
    if (const auto* integers = std::get_if<run::Integers>(&field.rule)) {
        const std::uint64_t number = std::get<std::uint64_t>(value);
        return number >= integers->min && number <= integers->max;
    }
    if (const auto* numbers = std::get_if<run::Numbers>(&field.rule)) {
        const double number = std::get<double>(value);
        return number >= numbers->min && number <= numbers->max;  // NaN: false
    }
    return true;
}

}  // namespace

Result<experts::ExpertGrid> expert_grid(const run::TaskConfig& task) {
    const ExpertKeys keys = expert_keys(task);
    experts::ExpertGrid grid{.name = keys.name, .sizes = {}};
    const char* at = keys.grid.data();
    const char* const end = at + keys.grid.size();
    while (at < end) {
        std::uint32_t size = 0;
        const auto [next, error] = std::from_chars(at, end, size);
        if (error != std::errc() || size == 0 || (next != end && *next != 'x')) break;
        grid.sizes.push_back(size);
        at = next == end ? end : next + 1;
    }
    const bool read = at == end && !keys.grid.ends_with('x');
    if (const Ok named = experts::check_grid_name(grid.name); !named)
        return make_error(
            ErrorKind::bad_input, "experts.name: '{}': {}", grid.name, named.error().message());
    if (!read || !experts::check(grid) || grid.experts_count() > grid_experts_max)
        return make_error(ErrorKind::bad_input,
                          "experts.grid: '{}' is no grid of at most {} experts; write \"4x4\"",
                          keys.grid,
                          grid_experts_max);
    if (keys.best > grid.experts_count() || keys.at_least > keys.best)
        return make_error(
            ErrorKind::bad_input,
            "experts.best = {}, experts.at_least = {}: best is at most the {} experts "
            "of the grid, and at_least at most best",
            keys.best,
            keys.at_least,
            grid.experts_count());
    return grid;
}

experts::FfnOptions expert_options(const run::TaskConfig& task, std::uint64_t width) {
    const ExpertKeys keys = expert_keys(task);
    experts::FfnOptions options;
    options.width = width;
    options.hidden = keys.hidden;
    options.optimizer = experts::default_optimizer();
    options.optimizer.schedule.peak = keys.rate;
    options.seed = task.seed;
    return options;
}

Result<experts::MixtureOptions> mixture_options(const run::TaskConfig& task) {
    const ExpertKeys keys = expert_keys(task);
    experts::MixtureOptions options;
    DEDLOC_TRY(options.grid, expert_grid(task));
    options.best = keys.best;
    options.at_least = keys.at_least;
    return options;
}

Result<RunExperts> run_experts(const run::TaskConfig& task,
                               std::uint64_t width,
                               experts::ExpertFactory factory) {
    const ExpertKeys keys = expert_keys(task);
    const experts::FfnOptions options = expert_options(task, width);
    RunExperts result;
    DEDLOC_TRY(result.grid, expert_grid(task));
    result.keepers = keys.keepers;
    result.update_batch = keys.update_batch;
    const std::size_t numbers = experts::FfnExpert::parameters_count(width, keys.hidden);
    result.bytes_of_one = sizeof(float) * numbers * (1 + optim::moments_count(options.optimizer));
    result.parameters_bytes = sizeof(float) * numbers;
    result.work_bytes = work_bytes(width, keys.hidden, keys.update_batch);
    result.factory = std::move(factory);
    if (!result.factory)
        result.factory =
            [options](
                const experts::ExpertUid& uid) -> Result<std::unique_ptr<experts::ExpertBackend>> {
            return std::unique_ptr<experts::ExpertBackend>(
                std::make_unique<experts::FfnExpert>(uid, options));
        };
    return result;
}

Result<RunExperts> own_loop_experts(const run::TaskConfig& task) {
    const run::Section* section = task.section(experts_section_name);
    for (const auto& field : run::section_schema<OwnLoopExpertKeys>(experts_section_name).fields) {
        const run::SectionValue* value = section != nullptr ? section->find(field.key) : nullptr;
        if (value == nullptr || !keeps_rule(*value, field))
            return make_error(ErrorKind::bad_input,
                              "experts.{} of this run's file ({}) is missing or out of its bounds; "
                              "the run's host has to write it",
                              field.key,
                              field.comment);
    }
    DEDLOC_TRY_VOID(expert_grid(task));
    const auto keys = run::keys_of<OwnLoopExpertKeys>(task, experts_section_name);
    return run_experts(task, keys.width);
}

std::vector<Measure> measures_of(const experts::MixtureCounts& counts) {
    return {{"expert_calls", static_cast<double>(counts.calls)},
            {"expert_calls_failed", static_cast<double>(counts.failed)},
            {"expert_rows", static_cast<double>(counts.rows)},
            {"expert_rows_lost", static_cast<double>(counts.rows_lost)},
            {"expert_pass_longest_s", to_seconds(counts.longest)}};
}

Error experts_are_elsewhere() {
    return make_error(
        ErrorKind::unsupported,
        "this model's experts live at the run's servers: `dedloc eval CHECKPOINT --run "
        "JOIN_STRING` calls them while the run goes on; the checkpoint has the trunk "
        "alone, which cannot be exported");
}

}  // namespace dedloc::tasks
