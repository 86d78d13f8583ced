#include "dedloc/data/piece_store.h"

#include <charconv>

#include "dedloc/wire/message.h"

namespace dedloc::data {
namespace {

constexpr std::uint64_t pieces_of_folder = 1024;
constexpr std::size_t spared_max = 64;  // own pieces that are passed over for one that goes

}  // namespace

PieceCache::PieceCache(runtime::Disk& disk,
                       std::string folder,
                       std::shared_ptr<const Catalogue> catalogue,
                       std::uint64_t bytes_max)
    : disk_(disk),
      folder_(std::move(folder)),
      catalogue_(std::move(catalogue)),
      bytes_max_(bytes_max) {
    find_pieces();
}

void PieceCache::set_homes(std::shared_ptr<const PieceHomes> homes) {
    const std::lock_guard lock(mutex_);
    homes_ = std::move(homes);
}

std::string PieceCache::path_of(std::uint64_t index) const {
    return fmt::format("{}/{}/{}", folder_, index / pieces_of_folder, index);
}

void PieceCache::find_pieces() {
    const auto folders = disk_.list(folder_);
    if (!folders) return;
    for (const std::string& name : *folders) {
        const auto files = disk_.list(folder_ + "/" + name);
        if (!files) continue;
        for (const std::string& file : *files) {
            std::uint64_t index = 0;
            const auto [end, error] =
                std::from_chars(file.data(), file.data() + file.size(), index);
            if (error != std::errc() || end != file.data() + file.size()) continue;
            if (index >= catalogue_->count() || places_.contains(index)) continue;
            const std::lock_guard lock(mutex_);
            make_room(catalogue_->sizes[static_cast<std::size_t>(index)]);
            note(index);
        }
    }
}

bool PieceCache::has(std::uint64_t index) const {
    const std::lock_guard lock(mutex_);
    return places_.contains(index);
}

std::uint64_t PieceCache::bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
}

void PieceCache::note(std::uint64_t index) {
    by_use_.push_back(index);
    places_[index] = std::prev(by_use_.end());
    bytes_ += catalogue_->sizes[static_cast<std::size_t>(index)];
}

void PieceCache::forget(std::uint64_t index) {
    const auto found = places_.find(index);
    if (found == places_.end()) return;
    by_use_.erase(found->second);
    places_.erase(found);
    bytes_ -= catalogue_->sizes[static_cast<std::size_t>(index)];
    const auto removed = disk_.remove(path_of(index));
    (void)removed;  // the next piece with that name is written over it
}

// Pieces of this machine's own share go only where little else is there.
void PieceCache::make_room(std::uint64_t for_bytes) {
    while (!by_use_.empty() && bytes_ + for_bytes > bytes_max_) {
        auto goes = by_use_.begin();
        std::size_t spared = 0;
        for (auto it = by_use_.begin(); it != by_use_.end() && spared < spared_max; ++it, ++spared)
            if (!homes_ || !homes_->is_own(*it)) {
                goes = it;
                break;
            }
        // Own ones go to the end, so that the next look does not begin with them again.
        if (spared > 0 && spared < spared_max)
            by_use_.splice(by_use_.end(), by_use_, by_use_.begin(), goes);
        forget(*goes);
    }
}

Result<Piece> PieceCache::read(std::uint64_t index) {
    {
        const std::lock_guard lock(mutex_);
        const auto found = places_.find(index);
        if (found == places_.end())
            return make_error(ErrorKind::not_found, "piece {} is not here (any more)", index);
        by_use_.splice(by_use_.end(), by_use_, found->second);
    }
    const auto bytes = disk_.read(path_of(index));
    if (bytes) {
        auto piece = wire::decode<Piece>(*bytes);
        if (piece && is_piece(*catalogue_, index, *piece)) return *std::move(piece);
    }
    const std::lock_guard lock(mutex_);
    forget(index);
    return make_error(ErrorKind::not_found, "piece {} was damaged on this disk", index);
}

Ok PieceCache::keep(std::uint64_t index, const Piece& piece) {
    {
        const std::lock_guard lock(mutex_);
        if (places_.contains(index)) return {};
        make_room(piece.content.size());
    }
    const Bytes encoded = wire::encode(piece);
    DEDLOC_TRY_VOID(disk_.write_over(path_of(index), {ByteView(encoded)}));
    const std::lock_guard lock(mutex_);
    if (!places_.contains(index)) note(index);
    return {};
}

}  // namespace dedloc::data
