#include "dedloc/experts/kept_snapshots.h"

namespace dedloc::experts {
namespace {

// Names of experts hold any letters; a file's does not.
std::string path_of(const std::string& uid) {
    return "experts/" + base::to_hex(as_bytes(uid)) + ".snapshot";
}

Result<std::shared_ptr<const state::PublishedState>> parse(ByteView bytes, const Digest& root) {
    const std::size_t first = std::min<std::size_t>(bytes.size(), state::chunk_bytes);
    DEDLOC_TRY(auto builder, state::SnapshotBuilder::begin(bytes.first(first), bytes.size()));
    builder.write(0, bytes);
    auto snapshot = std::move(builder).finish();
    auto manifest = state::make_manifest(*snapshot);
    if (manifest.root != root)
        return make_error(ErrorKind::bad_input, "a kept snapshot is not what was written");
    return std::make_shared<const state::PublishedState>(
        state::PublishedState{.snapshot = std::move(snapshot), .manifest = std::move(manifest)});
}

}  // namespace

Task<Result<void>> KeptSnapshots::put(runtime::Workers& workers,
                                      std::string uid,
                                      PeerId server,
                                      std::uint64_t updates,
                                      std::shared_ptr<const state::PublishedState> state) {
    if (!has_room(uid))
        co_return make_error(
            ErrorKind::overloaded, "this server keeps {} experts already", kept_.size());
    const std::string path = path_of(uid);
    std::function<Result<void>()> write = [this, path, state] {
        Bytes bytes(state->snapshot->bytes_size());
        state->snapshot->read(0, bytes);
        return disk_.write_atomically(path, bytes);
    };
    auto written = co_await workers.run(std::move(write));
    if (!written) co_return written;
    Kept& kept = kept_[uid];
    kept.server = std::move(server);
    kept.root = state->root();
    kept.updates = updates;
    kept.last_updates = std::max(kept.last_updates, updates);
    kept.silent = 0;
    co_return written;
}

Task<Result<std::shared_ptr<const state::PublishedState>>> KeptSnapshots::read(
    runtime::Workers& workers, std::string uid) {
    using State = Result<std::shared_ptr<const state::PublishedState>>;
    const Kept* kept = find(uid);
    if (!kept) co_return make_error(ErrorKind::not_found, "expert {} is not kept here", uid);
    const Digest root = kept->root;
    const std::string path = path_of(uid);
    std::function<State()> load = [this, path, root]() -> State {
        DEDLOC_TRY(const Bytes bytes, disk_.read(path));
        return parse(bytes, root);
    };
    co_return co_await workers.run(std::move(load));
}

void KeptSnapshots::forget(const std::string& uid) {
    if (kept_.erase(uid) != 0) (void)disk_.remove(path_of(uid));
}

Kept* KeptSnapshots::find(const std::string& uid) {
    const auto found = kept_.find(uid);
    return found == kept_.end() ? nullptr : &found->second;
}

}  // namespace dedloc::experts
