#include "dedloc/train/sample_counter.h"

#include "dedloc/base/bytes.h"

namespace dedloc::train {

Result<SampleCounter> SampleCounter::open(runtime::Disk& disk, std::string path) {
    Result<Bytes> bytes = disk.read(path);
    if (!bytes) {
        if (bytes.error().kind() != ErrorKind::not_found) return std::move(bytes).error();
        return SampleCounter(disk, std::move(path), 0);
    }
    base::ByteReader reader(*bytes);
    Result<std::uint64_t> next = reader.u64_be();
    if (!next || !reader.done()) {
        return make_error(ErrorKind::bad_input,
                          "{} is damaged, so that it is not known which samples were used; join "
                          "with a new directory (a new identity)",
                          path);
    }
    return SampleCounter(disk, std::move(path), *next);
}

Result<collab::CounterRange> SampleCounter::take(std::uint64_t count) {
    const collab::CounterRange range{next_, next_ + count};
    if (range.end > reserved_) {
        const std::uint64_t reserve = range.end + counter_block;
        DEDLOC_TRY_VOID(save(reserve));
        reserved_ = reserve;
    }
    next_ = range.end;
    return range;
}

Result<void> SampleCounter::close() {
    if (reserved_ == next_) return {};
    DEDLOC_TRY_VOID(save(next_));
    reserved_ = next_;
    return {};
}

Result<void> SampleCounter::save(std::uint64_t value) {
    Bytes bytes;
    base::put_u64_be(bytes, value);
    return disk_->write_atomically(path_, bytes);
}

}  // namespace dedloc::train
