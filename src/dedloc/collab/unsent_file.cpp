#include "dedloc/collab/unsent_file.h"

#include <cstring>

#include "dedloc/base/log.h"

namespace dedloc::collab {
namespace {

constexpr const char* unsent_file = "unsent";

}  // namespace

Task<void> UnsentFile::take_up(replica::UnsentGradients& unsent) {
    const Result<Bytes> file = node_.disk.read(unsent_file);
    const std::size_t size = unsent.unsent().size() * sizeof(float);
    if (file && file->size() == size && size > 0) {
        std::vector<float> numbers(unsent.unsent().size());
        std::memcpy(numbers.data(), file->data(), size);
        unsent.take_up(numbers);
    } else if (file) {
        teller_.tell(events::UnsentLost{},
                     {},
                     "the process before this one was killed: what it had computed and not sent "
                     "yet is lost");
    }
    Bytes in_use;
    co_await write(std::move(in_use));
}

Task<void> UnsentFile::keep(const replica::UnsentGradients& unsent) {
    const std::span<const float> numbers = unsent.unsent();
    Bytes bytes(numbers.size_bytes());
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    co_await write(std::move(bytes));
}

Task<void> UnsentFile::write(Bytes bytes) {
    auto work = [disk = &node_.disk, bytes = std::move(bytes)] {
        return disk->write_atomically(unsent_file, bytes);
    };
    const Result<void> written = co_await node_.workers.run(std::move(work));
    if (!written)
        log(LogLevel::warning, "collab", "unsent gradients: {}", written.error().message());
}

}  // namespace dedloc::collab
