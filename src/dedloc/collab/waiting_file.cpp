#include "dedloc/collab/waiting_file.h"

#include <algorithm>

#include "dedloc/base/log.h"
#include "dedloc/run/run_file.h"

namespace dedloc::collab {
namespace {

constexpr const char* waiting_file = "waiting";

Bytes bytes_of(const WaitingSamples& waiting) {
    Bytes bytes;
    for (const std::uint64_t samples : waiting) base::put_u64_le(bytes, samples);
    return bytes;
}

WaitingSamples waiting_in(ByteView bytes) {
    WaitingSamples waiting;
    if (bytes.size() % sizeof(std::uint64_t) != 0 ||
        bytes.size() > run::fragments_max * sizeof(std::uint64_t))
        return waiting;
    base::ByteReader reader(bytes);
    while (const auto samples = reader.u64_le()) waiting.push_back(*samples);
    return waiting;
}

bool is_nothing(const WaitingSamples& waiting) {
    return std::ranges::all_of(waiting, [](std::uint64_t samples) { return samples == 0; });
}

}  // namespace

WaitingFile::WaitingFile(runtime::Node node)
    : node_(node), idle_(node.executor), scope_(node.executor) {}

Task<WaitingSamples> WaitingFile::take_up() {
    const Result<Bytes> file = node_.disk.read(waiting_file);
    WaitingSamples lost = file ? waiting_in(*file) : WaitingSamples();
    waiting_.clear();
    written_ = false;
    co_await write_newest();
    co_return lost;
}

void WaitingFile::note(WaitingSamples waiting) {
    if (is_nothing(waiting)) waiting.clear();
    if (waiting == waiting_) return;
    waiting_ = std::move(waiting);
    written_ = false;
    if (!writing_) scope_.spawn("note what waits", write_newest());
}

Task<WaitingSamples> WaitingFile::end() {
    WaitingSamples lost = waiting_;
    note({});
    while (!written_ || writing_) {
        if (writing_)
            co_await idle_.wait();
        else
            co_await write_newest();
    }
    co_return lost;
}

Task<void> WaitingFile::write_newest() {
    if (writing_) co_return;
    writing_ = true;
    idle_.reset();
    while (!written_) {
        written_ = true;
        auto work = [disk = &node_.disk, bytes = bytes_of(waiting_)] {
            return disk->write_atomically(waiting_file, bytes);
        };
        const Result<void> written = co_await node_.workers.run(std::move(work));
        if (!written) log(LogLevel::warning, "collab", "what waits: {}", written.error().message());
    }
    writing_ = false;
    idle_.set();
}

}  // namespace dedloc::collab
