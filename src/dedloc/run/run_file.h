// The run file: everything that must be equal on all peers of a run, in TOML.
//
// Parsing is strict: unknown keys, wrong types and impossible values are errors with line and
// column, and say what to write instead. The run hash is SHA-256 over the canonical form (all
// fields in declaration order with defaults filled in), so that comments and order do not matter.
//
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/time.h"
#include "dedloc/codec/codec.h"
#include "dedloc/optim/optimizer.h"
#include "dedloc/run/task_section.h"

namespace dedloc::run {

inline constexpr int run_format = 1;
// Changes whenever any bit of a step could change, or of what is signed about it.
inline constexpr int numerics_version = 5;
// The same of the rows by which robust rounds are proved; only runs with [robust] have it.
inline constexpr int robust_numerics_version = 4;
inline constexpr std::size_t run_file_bytes_max = 256 * 1024;

inline constexpr std::uint64_t micro_auto = 0;  // in the file: "auto"
inline constexpr double tau_auto = 0;           // likewise
inline constexpr std::uint64_t fragments_max = 64;

struct BatchConfig {
    std::uint64_t target = 1024;  // samples of the whole collaboration per global step
    // Samples of one gradient computation of one trainer; micro_auto: each finds its own.
    std::uint64_t micro = 64;
};

// Local updates: trainers make steps of their own between two averages (local_learner.h).
struct LocalConfig {
    std::uint64_t batch = 0;           // samples of one inner step of one peer
    optim::OptimizerConfig optimizer;  // the inner one; its schedule counts global steps
    // Parts of the vector that take turns: global step t moves fragment t mod fragments alone.
    std::uint64_t fragments = 1;
};

struct AveragingConfig {
    std::optional<codec::CodecId> codec = codec::CodecId::fp16;  // none: "adaptive", by tensor
    // With adaptive codecs: tensors of fewer elements are small (vector_codecs.h).
    std::uint64_t codec_threshold = 1u << 16;
    std::uint64_t part_elements_max = 1u << 20;  // of the largest part, at most 1 MiB
    std::uint64_t group_max = 64;                // more trainers than that average in a grid
    // Sparse contributions of more trainers than that are added by owners instead of gathered.
    std::uint64_t gather_max = codec::gather_max_usual;
    Duration round_deadline_min = std::chrono::seconds(1);
    Duration round_deadline_max = std::chrono::seconds(120);
    Duration quorum_timeout = std::chrono::seconds(10);  // without majority: a new branch
    std::uint32_t voter_after_contributions = 1;  // committed contributions before one may vote
    double norm_max = 1e6;  // of a contribution's mean gradient, in every part; 0: any
    // Trainers go on computing while a step is averaged and made; what they compute meanwhile goes
    // into the next step, one step stale.
    bool delayed = false;
    // A round does without those whose lines are so slow that it would be much faster without what
    // they bring (docs/plan.md); false: it waits for everybody, up to its deadline,
    // and nobody rests who is late for all of them.
    bool leave_out_slow = true;

    bool is_sparse() const { return codec && codec::is_sparse(*codec); }
};

// Runs in which contributions may be poisoned, by intent or by mistake (docs/robust-runs.md).
struct RobustConfig {
    std::string reducer = "centered_clip";
    // An honest mean gradient is so far from the average, over the whole vector. tau_auto: as the
    // run measures it.
    double tau = tau_auto;
    std::uint64_t iterations_max = 500;
    double eps = 1e-6;      // of tau
    double weight_cap = 2;  // times the median weight of a plan
    double check = 0.0625;  // of all contributions are computed again by others
    // How far a contribution that is computed again may be off, relative; 0: 0.002, in bf16
    // 0.02, with [local] 0.05.
    double tolerance = 0;
    std::uint64_t probation = 3;  // right contributions before a new key weighs anything
    // Steps in which it then weighs little, and always is checked, until it weighs as others do.
    std::uint64_t trust_after = 32;
    std::string quorum = "byzantine";  // of votes: two thirds, or a "majority"
};

// Runs that let in by invitation (docs/public-run.md).
struct AccessConfig {
    std::string authority;  // PeerId of the key that signs tokens
};

struct StopConfig {  // 0 = no such condition
    std::uint64_t steps = 0;
    std::uint64_t samples = 0;
    double accuracy = 0;  // fraction, on the task's held-out data

    bool is_met(std::uint64_t steps_made, double samples_in_it, double accuracy_reached) const {
        return (steps > 0 && steps_made >= steps) ||
               (samples > 0 && samples_in_it >= static_cast<double>(samples)) ||
               (accuracy > 0 && accuracy_reached >= accuracy);
    }
};

struct RunFile {
    std::string name;
    std::string protocol = "native";
    TaskConfig task;
    BatchConfig batch;
    optim::OptimizerConfig optimizer;  // with local updates: the outer one
    std::optional<LocalConfig> local;
    AveragingConfig averaging;
    std::optional<RobustConfig> robust;
    std::optional<AccessConfig> access;
    StopConfig stop;
    std::uint64_t checkpoint_every = 50;  // steps
    std::uint64_t evaluate_every = 10;    // steps

    std::uint64_t fragments() const { return local ? local->fragments : 1; }
    // Do others compute contributions again?
    bool is_checked() const { return robust && robust->check > 0; }
};

// How far a contribution to this robust run may be off what another machine computes, relative.
double recheck_tolerance(const RunFile& run);

// Errors: bad_input, "demo.toml:7:1: unknown key 'optimzer.kind'; did you mean 'optimizer.kind'?"
Result<RunFile> parse_run_file(std::string_view text, std::string_view file_name);

// The canonical TOML text; parse_run_file(to_toml(r)) gives r again.
std::string to_toml(const RunFile& run);
Digest run_hash(const RunFile& run);

// One sentence a field that differs: "batch.target: 1024 here, 2048 there".
std::vector<std::string> differences(const RunFile& here, const RunFile& there);

}  // namespace dedloc::run
