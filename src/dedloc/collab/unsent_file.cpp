#include "dedloc/collab/unsent_file.h"

#include <cstring>

#include "dedloc/base/log.h"

namespace dedloc::collab {
namespace {

constexpr const char* unsent_file = "unsent";

}  // namespace

Task<void> UnsentFile::take_up(replica::UnsentGradients& unsent, double samples) {
    const Result<Bytes> file = node_.disk.read(unsent_file);
    const std::size_t size = unsent.unsent().size() * sizeof(float);
    Bytes in_use;
    const Result<void> emptied = co_await write(std::move(in_use));
    if (!file) co_return;
    if (file->size() != size || size == 0) {
        teller_.tell(events::UnsentLost{},
                     {},
                     "the process before this one was killed: what it had computed and not sent "
                     "yet is lost");
    } else if (!emptied) {
        teller_.tell(events::UnsentLost{},
                     {},
                     fmt::format("what the process before this one had not sent yet is not taken "
                                 "up, lest it be sent twice: {}",
                                 emptied.error().message()));
    } else {
        std::vector<float> numbers(unsent.unsent().size());
        std::memcpy(numbers.data(), file->data(), size);
        unsent.take_up(numbers, samples);
    }
}

Task<void> UnsentFile::keep(const replica::UnsentGradients& unsent) {
    const std::span<const float> numbers = unsent.unsent();
    Bytes bytes(numbers.size_bytes());
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    const Result<void> kept = co_await write(std::move(bytes));
    if (!kept) log(LogLevel::warning, "collab", "unsent gradients: {}", kept.error().message());
}

Task<Result<void>> UnsentFile::write(Bytes bytes) {
    auto work = [disk = &node_.disk, bytes = std::move(bytes)] {
        return disk->write_atomically(unsent_file, bytes);
    };
    Result<void> written = co_await node_.workers.run(std::move(work));
    co_return written;
}

}  // namespace dedloc::collab
