#include "dedloc/allreduce/part_store.h"

namespace dedloc::allreduce {

void PartStore::put(consensus::FinishedPart header, SharedBytes encoded) {
    const Digest digest = header.digest;
    Key key{header.plan, header.part, digest};
    if (!headers_.try_emplace(key, std::move(header)).second) return;
    order_.push_back(std::move(key));
    bytes_ += part_header_bytes;
    Held& held = by_digest_[digest];
    if (held.headers++ == 0) {
        bytes_ += encoded->size();
        held.encoded = std::move(encoded);
    }
    while (bytes_ > bytes_max_ && order_.size() > 1) forget_oldest();
}

void PartStore::forget_oldest() {
    headers_.erase(order_.front());
    bytes_ -= part_header_bytes;
    const auto held = by_digest_.find(std::get<2>(order_.front()));
    if (--held->second.headers == 0) {
        bytes_ -= held->second.encoded->size();
        by_digest_.erase(held);
    }
    order_.pop_front();
}

SharedBytes PartStore::find(const Digest& digest) const {
    const auto held = by_digest_.find(digest);
    return held == by_digest_.end() ? SharedBytes() : held->second.encoded;
}

std::optional<consensus::FinishedPart> PartStore::header(const Digest& plan,
                                                         std::uint32_t part) const {
    const auto found = headers_.lower_bound({plan, part, Digest{}});
    if (found == headers_.end() || found->second.plan != plan || found->second.part != part)
        return std::nullopt;
    return found->second;
}

}  // namespace dedloc::allreduce
