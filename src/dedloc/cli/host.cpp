// dedloc host: starts a run, perhaps with the model of an earlier one, or goes on with one whose
// peers were all gone.

#include "dedloc/cli/checkpoint_source.h"
#include "dedloc/cli/commands.h"
#include "dedloc/cli/decided_run.h"
#include "dedloc/cli/given_run_file.h"
#include "dedloc/cli/published_weights.h"
#include "dedloc/peer/copied_folder.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/run_files.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/task_progress.h"
#include "dedloc/run/join_string.h"
#include "dedloc/train/host_access.h"

namespace dedloc::cli {
namespace {

std::string different_run(const run::RunFile& given, const run::RunFile& saved) {
    std::string text =
        "the checkpoint is of another run than the run file. Leave the run file out to go on with "
        "that run as it was; or begin a new run, with this run file and that model, by --from "
        "instead of --resume. Differences (run file, checkpoint):";
    for (const std::string& difference : run::differences(given, saved))
        text += "\n  " + difference;
    return text;
}

peer::Outcome<FoundCheckpoint> checkpoint_at(const std::string& path) {
    auto found = find_checkpoint(path);
    if (!found) return peer::failure(found.error());
    for (const std::string& skipped : found->skipped) peer::say(stderr, "dedloc: {}\n", skipped);
    return *std::move(found);
}

tasks::TaskOptions task_options(const HostOptions& options) {
    const peer::PeerOptions& peer = options.peer;
    return {.device = peer.device,
            .threads_count = peer.threads,
            .data_directory = peer.data_directory,
            .weights_directory = options.weights,
            .progress = peer::task_progress(peer.quiet || peer.json)};
}

// The model that it begins with decides what the file leaves open, or this machine does.
Result<run::RunFile> given_run(const HostOptions& options,
                               const std::optional<peer::WarmSource>& from) {
    DEDLOC_TRY(run::RunFile run, given_run_file(options.run_file, options.settings));
    const tasks::TaskOptions task = task_options(options);
    if (from) {
        DEDLOC_TRY_VOID(peer::inherit(run.task, *from));
        DEDLOC_TRY_VOID(peer::restore_run_files(from->path, run.task, task));
    }
    return decided_run(std::move(run), task);
}

peer::Outcome<peer::WarmSource> warm_source(const std::string& path) {
    auto found = checkpoint_at(path);
    if (!found) return found.failure();
    peer::WarmSource source{.state = found->checkpoint.state->snapshot, .path = found->path};
    const auto saved = run::parse_run_file(found->checkpoint.run_file, found->path);
    if (!saved) return source;
    source.optimizer = saved->optimizer;
    source.task = saved->task;
    return source;
}

// Decides who may join, and whether this peer lets people in.
Ok give_access(peer::PeerRunInput& input,
               const HostOptions& options,
               const std::optional<security::Identity>& authority) {
    const train::HostAccessOptions access_options{.open = options.open || options.admit == "open",
                                                  .resumes = !options.resume.empty(),
                                                  .token_hours = options.token_hours,
                                                  .name = options.peer.name,
                                                  .usual_name = peer::host_name()};
    DEDLOC_TRY(
        train::HostAccess access,
        train::host_access(*input.opened.node, input.invitation.run, authority, access_options));
    input.invitation.secret = std::move(access.secret);
    input.invitation.admitted = std::move(access.admitted);
    input.issuer = std::move(access.issuer);
    return {};
}

// The run may have gone on: then the host comes back to it as everybody does.
void find_others(peer::PeerRunInput& input) {
    const auto text = peer::way_back_of(input.opened.directory);
    if (!text) return;
    const auto join = run::parse_join_string(*text);
    if (!join || join->run != run::run_hash(input.invitation.run)) return;
    for (const std::string& address : join->addresses) {
        const auto parts = run::split_peer_address(address);
        if (parts && parts->peer != input.opened.node->id())
            input.invitation.bootstrap.push_back(address);
    }
}

// Reads the folder that --weights names, if it was given.
Ok take_weights(peer::PeerRunInput& input,
                const std::optional<run::RunFile>& given,
                const HostOptions& options) {
    if (options.weights.empty()) return {};
    DEDLOC_TRY(input.from, published_weights(*given, task_options(options)));
    return {};
}

void warn_of_copy(const std::string& folder) {
    peer::say(
        stderr,
        "dedloc: {} seems to be a copy, and this process now is the peer of it; if the folder "
        "that it was copied from is still in use, end this process and give it a folder of "
        "its own with --dir\n",
        folder);
}

peer::Outcome<peer::PeerRunInput> hosting(const HostOptions& options) {
    peer::PeerRunInput input;
    peer::OpeningOptions opening = peer::opening_options(options.peer);
    std::string resumed_peer;
    input.started = peer::steady_seconds();
    if (const auto missing = what_is_not_said(options)) return *missing;
    // The text and the tokenizer, which are read and trained now, may take minutes.
    if (auto refused = peer::check_opening(opening)) return *std::move(refused);
    if (!options.from.empty()) {
        auto source = warm_source(options.from);
        if (!source) return source.failure();
        input.from = std::move(*source);
    }
    std::optional<run::RunFile> given;
    if (!options.run_file.empty()) {
        auto run = given_run(options, input.from);
        if (!run) return peer::failure(run.error());
        given = *std::move(run);
    }
    if (const Ok taken = take_weights(input, given, options); !taken)
        return peer::failure(taken.error());
    std::optional<security::Identity> authority;
    if (given && options.resume.empty()) {
        auto made = train::give_authority(*given, options.admit, opening.directory);
        if (!made) return peer::failure(made.error());
        authority = *std::move(made);
    }
    if (!options.resume.empty()) {
        auto found = checkpoint_at(options.resume);
        if (!found) return found.failure();
        auto saved = run::parse_run_file(found->checkpoint.run_file, found->path + "/run.toml");
        if (!saved) return peer::failure(saved.error());
        if (given && !given->access) given->access = saved->access;  // which the host wrote
        if (given && run::run_hash(*given) != run::run_hash(*saved))
            return peer::Failure{peer::ExitCode::different_run, different_run(*given, *saved)};
        const auto task = task_options(options);
        if (const Ok restored = peer::restore_run_files(found->path, saved->task, task); !restored)
            return peer::failure(restored.error());
        // Elsewhere its checkpoints would go on, and this folder would stay behind: resumed once
        // more, the run would go back.
        if (opening.directory.empty()) resumed_peer = peers_folder(found->path);
        if (!resumed_peer.empty()) opening.directory = resumed_peer;
        given = *std::move(saved);
        input.resume = std::move(found->checkpoint);
    }
    input.invitation.run = *std::move(given);

    const bool copied = !resumed_peer.empty() && peer::may_be_copied(resumed_peer);
    auto opened = peer::open_node(run::run_hash(input.invitation.run), opening);
    if (!opened) return opened.failure();
    if (copied) warn_of_copy(resumed_peer);
    if (const std::string other = peer::peer_at_work_beside(opened->directory); !other.empty())
        peer::say(
            stderr,
            "dedloc: a peer of this run is at work on this machine already, in {}; this begins a "
            "second run of the same run file, and neither hears of the other. To take part in the "
            "first: `dedloc join \"$(cat {}/{})\"`\n",
            other,
            other,
            peer::join_file);
    input.opened = std::move(*opened);
    if (input.resume) find_others(input);
    if (const Ok given_access = give_access(input, options, authority); !given_access)
        return peer::failure(given_access.error());
    return input;
}

}  // namespace

std::optional<peer::Failure> what_is_not_said(const HostOptions& options) {
    if (options.run_file.empty() && options.resume.empty() && options.from.empty())
        return peer::Failure{
            peer::ExitCode::bad_input,
            "say which run to host: dedloc host RUNFILE (`dedloc init` writes one)"};
    if (!options.from.empty() && (options.run_file.empty() || !options.resume.empty()))
        return peer::Failure{
            peer::ExitCode::bad_input,
            "--from begins a new run and needs its run file: dedloc host RUNFILE --from "
            "CHECKPOINT; --resume goes on with the run of a checkpoint"};
    if (!options.weights.empty() &&
        (options.run_file.empty() || !options.resume.empty() || !options.from.empty()))
        return peer::Failure{
            peer::ExitCode::bad_input,
            "--weights begins a new run and needs its run file alone: dedloc host RUNFILE "
            "--weights FOLDER; `dedloc init language_model --weights FOLDER` writes one"};
    if (!options.settings.empty() && options.run_file.empty())
        return peer::Failure{
            peer::ExitCode::bad_input,
            "--set changes a run file that is given: dedloc host RUNFILE --set …; a run "
            "that is resumed stays as it was, and --from begins another one with its "
            "model"};
    return std::nullopt;
}

int run_host(const HostOptions& options) {
    auto input = hosting(options);
    if (!input) return peer::report_early(input.failure(), options.peer.json);
    return peer::run_peer(std::move(*input), options.peer);
}

}  // namespace dedloc::cli
