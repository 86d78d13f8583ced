#include "dedloc/experts/kept_snapshots.h"

namespace dedloc::experts {
namespace {

constexpr const char* folder = "experts";
constexpr std::string_view ending = ".snapshot";

// Names of experts hold any letters; a file's does not.
std::string path_of(const std::string& uid) {
    return fmt::format("{}/{}{}", folder, base::to_hex(as_bytes(uid)), ending);
}

Result<std::shared_ptr<const state::PublishedState>> parse(ByteView bytes) {
    const std::size_t first = std::min<std::size_t>(bytes.size(), state::chunk_bytes);
    DEDLOC_TRY(auto builder, state::SnapshotBuilder::begin(bytes.first(first), bytes.size()));
    builder.write(0, bytes);
    auto snapshot = std::move(builder).finish();
    auto manifest = state::make_manifest(*snapshot);
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
    auto written = co_await write(workers, uid, state);
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
        auto state = parse(bytes);
        if (state && (*state)->root() != root)
            return make_error(ErrorKind::bad_input, "a kept snapshot is not what was written");
        return state;
    };
    co_return co_await workers.run(std::move(load));
}

Task<Result<void>> KeptSnapshots::write(runtime::Workers& workers,
                                        std::string uid,
                                        std::shared_ptr<const state::PublishedState> state) {
    const std::string path = path_of(uid);
    std::function<Result<void>()> write = [this, path, state] {
        Bytes bytes(state->snapshot->bytes_size());
        state->snapshot->read(0, bytes);
        return disk_.write_atomically(path, bytes);
    };
    co_return co_await workers.run(std::move(write));
}

// One at a time: memory holds one of them. A file that cannot be read is as good as none.
Task<void> KeptSnapshots::load(runtime::Workers& workers,
                               std::function<bool(const std::string&)> is_wanted) {
    std::function<Result<std::vector<std::string>>()> list = [this] { return disk_.list(folder); };
    const auto names = co_await workers.run(std::move(list));
    if (!names) co_return;
    for (const std::string& name : *names) {
        if (!name.ends_with(ending)) continue;
        const auto hex = base::from_hex(name.substr(0, name.size() - ending.size()));
        if (!hex) continue;
        const std::string uid(as_text(*hex));
        if (!is_wanted(uid) || !has_room(uid)) continue;
        std::function<std::optional<Kept>()> look = [this, uid]() -> std::optional<Kept> {
            const auto bytes = disk_.read(path_of(uid));
            if (!bytes) return std::nullopt;
            const auto state = parse(*bytes);
            if (!state || (*state)->snapshot->info().extra != to_bytes(uid)) return std::nullopt;
            Kept found;
            found.root = (*state)->root();
            found.updates = found.last_updates = (*state)->snapshot->step();
            return found;
        };
        const auto found = co_await workers.run(std::move(look));
        if (found) kept_.emplace(uid, *found);
    }
}

Kept* KeptSnapshots::find(const std::string& uid) {
    const auto found = kept_.find(uid);
    return found == kept_.end() ? nullptr : &found->second;
}

}  // namespace dedloc::experts
