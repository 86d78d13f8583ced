#include "dedloc/averaging/part_store.h"

namespace dedloc::averaging {

void PartStore::put(FinishedPart header, SharedBytes encoded) {
    const Digest digest = header.digest;
    by_part_.emplace(std::make_pair(header.plan, header.part), digest);
    if (by_digest_.contains(digest)) return;
    bytes_ += encoded->size();
    by_digest_.emplace(digest, Entry{std::move(header), std::move(encoded)});
    order_.push_back(digest);
    while (bytes_ > bytes_max_ && order_.size() > 1) forget_oldest();
}

void PartStore::forget_oldest() {
    const auto entry = by_digest_.find(order_.front());
    order_.pop_front();
    if (entry == by_digest_.end()) return;
    bytes_ -= entry->second.encoded->size();
    by_part_.erase({entry->second.header.plan, entry->second.header.part});
    by_digest_.erase(entry);
}

SharedBytes PartStore::find(const Digest& digest) const {
    const auto entry = by_digest_.find(digest);
    return entry == by_digest_.end() ? SharedBytes() : entry->second.encoded;
}

std::optional<FinishedPart> PartStore::header(const Digest& plan, std::uint32_t part) const {
    const auto digest = by_part_.find({plan, part});
    if (digest == by_part_.end()) return std::nullopt;
    const auto entry = by_digest_.find(digest->second);
    if (entry == by_digest_.end()) return std::nullopt;
    return entry->second.header;
}

}  // namespace dedloc::averaging
