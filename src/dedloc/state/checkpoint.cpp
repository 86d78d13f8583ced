#include "dedloc/state/checkpoint.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "dedloc/base/log.h"
#include "dedloc/wire/message.h"

namespace dedloc::state {

namespace {

using nlohmann::json;

constexpr char summary_file[] = "checkpoint.json";
constexpr char folder_prefix[] = "step-";

std::string chunks_path(const std::string& folder, std::size_t file) {
    return fmt::format("{}/chunks-{:05}", folder, file);
}

std::size_t files_for(std::size_t chunks) {
    return (chunks + chunks_per_file - 1) / chunks_per_file;
}

CheckpointSummary summary_of(const PublishedState& state) {
    const SnapshotInfo& info = state.snapshot->info();
    return {.name = fmt::format("{}{:012}-{}", folder_prefix, info.step, state.root().short_hex()),
            .root = state.root(),
            .run = info.run,
            .branch = info.branch,
            .step = info.step,
            .samples = info.samples,
            .bytes = state.snapshot->bytes_size()};
}

std::string to_json(const CheckpointSummary& summary) {
    const json object = {{"format", "dedloc-checkpoint-1"},
                         {"state", summary.root.hex()},
                         {"run", summary.run.hex()},
                         {"branch", summary.branch.hex()},
                         {"step", summary.step},
                         {"samples", summary.samples},
                         {"bytes", summary.bytes},
                         {"saved", summary.saved}};
    return object.dump(2) + "\n";
}

Result<Digest> digest_field(const json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_string())
        return make_error(ErrorKind::bad_input, "\"{}\" is missing", name);
    DEDLOC_TRY(const Bytes bytes, base::from_hex(found->get<std::string>()));
    return Digest::from(bytes);
}

Result<std::uint64_t> number_field(const json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number_unsigned())
        return make_error(ErrorKind::bad_input, "\"{}\" is missing", name);
    return found->get<std::uint64_t>();
}

Result<CheckpointSummary> from_json(std::string name, ByteView text) {
    const json object = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || object.value("format", json()) != "dedloc-checkpoint-1")
        return make_error(ErrorKind::bad_input, "it is not a dedloc-checkpoint-1");
    CheckpointSummary summary;
    summary.name = std::move(name);
    DEDLOC_TRY(summary.root, digest_field(object, "state"));
    DEDLOC_TRY(summary.run, digest_field(object, "run"));
    DEDLOC_TRY(summary.branch, digest_field(object, "branch"));
    DEDLOC_TRY(summary.step, number_field(object, "step"));
    DEDLOC_TRY(summary.samples, number_field(object, "samples"));
    DEDLOC_TRY(summary.bytes, number_field(object, "bytes"));
    if (object.contains("saved")) {
        DEDLOC_TRY(summary.saved, number_field(object, "saved"));
    }
    return summary;
}

Error damaged(const std::string& path, std::string_view why) {
    return make_error(ErrorKind::bad_input, "checkpoint file {} is damaged: {}", path, why);
}

Ok write_files(runtime::Disk& disk,
               const std::string& folder,
               const Checkpoint& checkpoint,
               const CheckpointSummary& summary) {
    const PublishedState& state = *checkpoint.state;
    Bytes buffer;
    for (std::size_t file = 0; file < files_for(state.manifest.chunks_count()); ++file) {
        const std::uint64_t offset = state.manifest.chunk_offset(file * chunks_per_file);
        const std::uint64_t left = state.manifest.bytes - offset;
        buffer.resize(std::min<std::uint64_t>(chunks_per_file * chunk_bytes, left));
        state.snapshot->read(offset, buffer);
        DEDLOC_TRY_VOID(disk.write_atomically(chunks_path(folder, file), buffer));
    }
    DEDLOC_TRY_VOID(disk.write_atomically(folder + "/manifest", wire::encode(state.manifest)));
    DEDLOC_TRY_VOID(disk.write_atomically(folder + "/run.toml", as_bytes(checkpoint.run_file)));
    DEDLOC_TRY_VOID(disk.write_atomically(folder + "/extra", checkpoint.extra));
    return disk.write_atomically(folder + "/" + summary_file, as_bytes(to_json(summary)));
}

// Names of all checkpoint folders, finished or not. No folder at all: none.
Result<std::vector<std::string>> folder_names(runtime::Disk& disk, const std::string& folder) {
    auto names = disk.list(folder);
    if (!names) {
        if (names.error().kind() == ErrorKind::not_found) return std::vector<std::string>();
        return std::move(names).error();
    }
    std::erase_if(*names, [](const std::string& name) { return !name.starts_with(folder_prefix); });
    if (names->size() > checkpoints_listed_max)
        names->erase(names->begin(), names->end() - checkpoints_listed_max);
    return names;
}

// `finished`: newest first. `just_saved` may be missing there: more than can be listed.
std::set<std::string> names_to_keep(const std::vector<CheckpointSummary>& finished,
                                    const std::string& just_saved,
                                    const KeepRule& rule) {
    std::set<std::string> kept{just_saved};
    for (const CheckpointSummary& summary : finished)
        if (kept.size() < rule.newest) kept.insert(summary.name);
    std::map<std::pair<std::size_t, std::uint64_t>, std::string> first_of_stretch;
    std::size_t history = 0;  // looking back, an earlier one begins where steps go up again
    const CheckpointSummary* furthest = nullptr;  // what those before the last one have come to
    std::uint64_t step_before = std::numeric_limits<std::uint64_t>::max();
    for (const CheckpointSummary& summary : finished) {
        if (summary.step >= step_before && ++history == 1) kept.insert(summary.name);
        if (history > 1 && (!furthest || summary.step > furthest->step)) furthest = &summary;
        step_before = summary.step;
        const std::uint64_t stretch = rule.every_steps > 0 ? summary.step / rule.every_steps : 0;
        if (stretch > 0) first_of_stretch[{history, stretch}] = summary.name;
    }
    if (furthest) kept.insert(furthest->name);
    for (const auto& [stretch, name] : first_of_stretch) kept.insert(name);
    kept.insert(rule.also.begin(), rule.also.end());
    return kept;
}

// The names of other runs' checkpoints, which no rule of this one removes.
std::set<std::string> take_out_other_runs(std::vector<CheckpointSummary>& finished,
                                          const Digest& run) {
    std::set<std::string> others;
    std::erase_if(finished, [&](const CheckpointSummary& summary) {
        if (summary.run == run) return false;
        others.insert(summary.name);
        return true;
    });
    return others;
}

// Housekeeping after a save: what fails here costs room, not safety.
void remove_surplus(runtime::Disk& disk,
                    const std::string& folder,
                    const CheckpointSummary& just_saved,
                    const KeepRule& rule) {
    const auto names = folder_names(disk, folder);
    auto finished = list_checkpoints(disk, folder);
    if (!names || !finished) return;
    std::set<std::string> kept = take_out_other_runs(*finished, just_saved.run);
    kept.merge(names_to_keep(*finished, just_saved.name, rule));
    for (const std::string& name : *names) {
        if (kept.contains(name)) continue;
        // The marker goes first, so that a half-removed folder does not count.
        (void)disk.remove(folder + "/" + name + "/" + summary_file);
        if (const auto removed = disk.remove(folder + "/" + name); !removed)
            log(LogLevel::warning, "state", "{} not removed: {}", name, removed.error().message());
    }
}

}  // namespace

Result<CheckpointSummary> save_checkpoint(runtime::Disk& disk,
                                          const std::string& folder,
                                          const Checkpoint& checkpoint,
                                          const KeepRule& keep) {
    DEDLOC_CHECK(checkpoint.state && checkpoint.state->snapshot && keep.newest >= 1);
    CheckpointSummary summary = summary_of(*checkpoint.state);
    const auto before = list_checkpoints(disk, folder);
    if (!before) return before.error();
    summary.saved = before->empty() ? 1 : before->front().saved + 1;
    const std::string path = folder + "/" + summary.name;
    // Saving the same state again must not unmake what is there: only what may differ is written.
    if (const auto same = load_checkpoint(disk, folder, summary.name)) {
        if (same->run_file != checkpoint.run_file)
            DEDLOC_TRY_VOID(
                disk.write_atomically(path + "/run.toml", as_bytes(checkpoint.run_file)));
        if (same->extra != checkpoint.extra)
            DEDLOC_TRY_VOID(disk.write_atomically(path + "/extra", checkpoint.extra));
        DEDLOC_TRY_VOID(
            disk.write_atomically(path + "/" + summary_file, as_bytes(to_json(summary))));
        return summary;
    }
    if (Ok written = write_files(disk, path, checkpoint, summary); !written) {
        (void)disk.remove(path);
        const auto older = list_checkpoints(disk, folder);
        const std::string intact =
            older && !older->empty()
                ? fmt::format("the checkpoint of step {} is intact", older->front().step)
                : "there is no older checkpoint";
        return make_error(ErrorKind::local_fault,
                          "the checkpoint of step {} could not be saved ({}); {}",
                          summary.step,
                          written.error().message(),
                          intact);
    }
    remove_surplus(disk, folder, summary, keep);
    return summary;
}

Result<std::vector<CheckpointSummary>> list_checkpoints(runtime::Disk& disk,
                                                        const std::string& folder) {
    DEDLOC_TRY(const auto names, folder_names(disk, folder));
    std::vector<CheckpointSummary> summaries;
    for (const std::string& name : names) {
        const auto text = disk.read(folder + "/" + name + "/" + summary_file);
        if (!text) continue;
        auto summary = from_json(name, *text);
        if (summary) summaries.push_back(*std::move(summary));
    }
    std::sort(summaries.begin(), summaries.end(), [](const auto& a, const auto& b) {
        return std::tie(a.saved, a.step, a.name) > std::tie(b.saved, b.step, b.name);
    });
    return summaries;
}

namespace {

Result<Manifest> read_manifest(runtime::Disk& disk, const std::string& path, const Digest& root) {
    DEDLOC_TRY(const Bytes bytes, disk.read(path + "/manifest"));
    auto manifest = wire::decode<Manifest>(bytes);
    if (!manifest) return damaged(path + "/manifest", manifest.error().message());
    if (const Ok verified = manifest->verify(root); !verified)
        return damaged(path + "/manifest", verified.error().message());
    return manifest;
}

// A manifest may announce what it likes: memory is taken only for what is there.
Ok check_sizes(runtime::Disk& disk, const std::string& path, const Manifest& manifest) {
    for (std::size_t file = 0; file < files_for(manifest.chunks_count()); ++file) {
        const std::string name = chunks_path(path, file);
        const std::uint64_t offset = manifest.chunk_offset(file * chunks_per_file);
        const std::uint64_t wanted =
            std::min<std::uint64_t>(chunks_per_file * chunk_bytes, manifest.bytes - offset);
        DEDLOC_TRY(const std::uint64_t there, disk.size(name));
        if (there != wanted)
            return damaged(name,
                           fmt::format("it is too {}: {} bytes instead of {}",
                                       there < wanted ? "short" : "long",
                                       there,
                                       wanted));
    }
    return {};
}

// A file of zeros may be larger than what it takes on the disk, and than all memory.
Ok check_memory(const std::string& path, const Manifest& manifest, std::uint64_t memory_max) {
    if (memory_max == 0 || manifest.bytes <= memory_max) return {};
    constexpr double mib = 1024.0 * 1024;
    return make_error(ErrorKind::cannot_compute,
                      "the state in {} takes {:.0f} MiB of memory, and this machine, or what "
                      "limits this program on it, has {:.0f} MiB left",
                      path,
                      static_cast<double>(manifest.bytes) / mib,
                      static_cast<double>(memory_max) / mib);
}

Result<std::shared_ptr<const Snapshot>> read_chunks(runtime::Disk& disk,
                                                    const std::string& path,
                                                    const Manifest& manifest) {
    DEDLOC_TRY_VOID(check_sizes(disk, path, manifest));
    std::optional<SnapshotBuilder> builder;
    for (std::size_t file = 0; file < files_for(manifest.chunks_count()); ++file) {
        const std::string name = chunks_path(path, file);
        DEDLOC_TRY(const Bytes bytes, disk.read(name));
        const std::size_t first = file * chunks_per_file;
        const std::size_t last = std::min(first + chunks_per_file, manifest.chunks_count());
        base::ByteReader reader(bytes);
        for (std::size_t i = first; i < last; ++i) {
            const auto piece = reader.take(manifest.chunk_size(i));
            if (!piece) return damaged(name, "it is too short");
            if (!manifest.holds(i, *piece))
                return damaged(name, fmt::format("chunk {} has another hash", i));
            if (i == 0) {
                auto begun = SnapshotBuilder::begin(*piece, manifest.bytes);
                if (!begun) return damaged(name, begun.error().message());
                builder.emplace(*std::move(begun));
            }
            builder->write(manifest.chunk_offset(i), *piece);
        }
        if (!reader.done()) return damaged(name, "it is too long");
    }
    return (*std::move(builder)).finish();
}

Result<Checkpoint> read_checkpoint(runtime::Disk& disk,
                                   const std::string& path,
                                   std::string name,
                                   std::uint64_t memory_max) {
    DEDLOC_TRY(const Bytes text, disk.read(path + "/" + summary_file));
    const auto summary = from_json(std::move(name), text);
    if (!summary) return damaged(path + "/" + summary_file, summary.error().message());
    auto state = std::make_shared<PublishedState>();
    DEDLOC_TRY(state->manifest, read_manifest(disk, path, summary->root));
    DEDLOC_TRY_VOID(check_memory(path, state->manifest, memory_max));
    DEDLOC_TRY(state->snapshot, read_chunks(disk, path, state->manifest));
    Checkpoint checkpoint;
    checkpoint.state = std::move(state);
    DEDLOC_TRY(const Bytes run_file, disk.read(path + "/run.toml"));
    checkpoint.run_file = as_text(run_file);
    DEDLOC_TRY(checkpoint.extra, disk.read(path + "/extra"));
    return checkpoint;
}

}  // namespace

Result<Checkpoint> load_checkpoint(runtime::Disk& disk,
                                   const std::string& folder,
                                   const std::string& name,
                                   std::uint64_t memory_max) {
    const std::string path = folder + "/" + name;
    auto checkpoint = read_checkpoint(disk, path, name, memory_max);
    if (checkpoint || checkpoint.error().kind() == ErrorKind::cannot_compute) return checkpoint;
    const Error& error = checkpoint.error();
    // A finished checkpoint that lacks a file is damaged; without its marker it is none.
    ErrorKind kind = error.kind();
    std::string sentence = error.message();
    if (kind == ErrorKind::not_found && disk.read(path + "/" + summary_file)) {
        kind = ErrorKind::bad_input;
        sentence = fmt::format("checkpoint {} is damaged: {}", path, sentence);
    }
    const auto others = list_checkpoints(disk, folder);
    std::string advice = "; there is no other checkpoint to load instead";
    if (others) {
        // The newest that is older; without one the newest.
        const CheckpointSummary* instead = nullptr;
        bool passed = false;
        for (const CheckpointSummary& other : *others) {
            if (other.name == name) {
                passed = true;
                continue;
            }
            if (passed || !instead) instead = &other;
            if (passed) break;
        }
        if (instead)
            advice =
                fmt::format("; load {}/{} (step {}) instead", folder, instead->name, instead->step);
    }
    return Error(kind, sentence + advice);
}

Result<NewestCheckpoint> load_newest_checkpoint(runtime::Disk& disk,
                                                const std::string& folder,
                                                std::uint64_t memory_max) {
    DEDLOC_TRY(const auto summaries, list_checkpoints(disk, folder));
    NewestCheckpoint newest;
    for (const CheckpointSummary& summary : summaries) {
        auto checkpoint =
            read_checkpoint(disk, folder + "/" + summary.name, summary.name, memory_max);
        if (checkpoint) {
            newest.checkpoint = *std::move(checkpoint);
            newest.summary = summary;
            return newest;
        }
        if (checkpoint.error().kind() == ErrorKind::cannot_compute) return checkpoint.error();
        newest.skipped.push_back(checkpoint.error().message());
    }
    if (newest.skipped.empty())
        return make_error(ErrorKind::not_found, "there is no checkpoint in {}", folder);
    return make_error(ErrorKind::bad_input,
                      "every checkpoint in {} is damaged; the newest: {}",
                      folder,
                      newest.skipped.front());
}

}  // namespace dedloc::state
