#include "dedloc/transport/yamux_queues.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dedloc/transport/limits.h"

namespace dedloc::transport {

namespace {

// Received bytes are kept in blocks at least this large, so that tiny frames cost no allocations.
constexpr std::size_t unread_block_bytes = 16u << 10;
// Small pieces of a stream's queue are joined into one frame of up to this size.
constexpr std::size_t join_bytes_max = 16u << 10;
constexpr std::size_t join_piece_bytes_max = 4u << 10;

}  // namespace

std::optional<ByteView> HeaderReader::feed(ByteView& bytes) {
    const std::size_t count = std::min(header_.size() - filled_, bytes.size());
    std::memcpy(header_.data() + filled_, bytes.data(), count);
    filled_ += count;
    bytes = bytes.subspan(count);
    if (filled_ < header_.size()) return std::nullopt;
    filled_ = 0;
    ++count_;
    return ByteView(header_);
}

void UnreadBytes::append(ByteView bytes) {
    size_ += bytes.size();
    if (!blocks_.empty() && blocks_.back().capacity() - blocks_.back().size() >= bytes.size()) {
        base::append(blocks_.back(), bytes);
        return;
    }
    Bytes block;
    block.reserve(std::max(bytes.size(), unread_block_bytes));
    base::append(block, bytes);
    blocks_.push_back(std::move(block));
}

std::size_t UnreadBytes::read(std::span<std::uint8_t> into) {
    std::size_t copied = 0;
    while (copied < into.size() && !blocks_.empty()) {
        const Bytes& block = blocks_.front();
        const std::size_t count = std::min(into.size() - copied, block.size() - offset_);
        std::memcpy(into.data() + copied, block.data() + offset_, count);
        copied += count;
        offset_ += count;
        if (offset_ == block.size()) {
            blocks_.pop_front();
            offset_ = 0;
        }
    }
    size_ -= copied;
    return copied;
}

void UnreadBytes::clear() {
    blocks_.clear();
    offset_ = 0;
    size_ = 0;
}

void SendQueue::push(SharedBytes bytes) {
    size_ += bytes->size();
    pieces_.push_back(std::move(bytes));
}

ByteView SendQueue::next(std::size_t bytes_max, Bytes& scratch) const {
    if (pieces_.empty()) return {};
    const ByteView head = pieces_.front()->subspan(offset_);
    if (head.size() >= join_piece_bytes_max || pieces_.size() == 1)
        return head.first(std::min(head.size(), bytes_max));
    scratch.clear();
    std::size_t offset = offset_;
    for (const SharedBytes& piece : pieces_) {
        const std::size_t left = std::min(bytes_max, join_bytes_max) - scratch.size();
        if (left == 0) break;
        const ByteView rest = piece->subspan(offset);
        base::append(scratch, rest.first(std::min(rest.size(), left)));
        offset = 0;
    }
    return scratch;
}

void SendQueue::consume(std::size_t bytes) {
    size_ -= bytes;
    while (bytes > 0) {
        const std::size_t left = pieces_.front()->size() - offset_;
        if (bytes < left) {
            offset_ += bytes;
            return;
        }
        bytes -= left;
        pieces_.pop_front();
        offset_ = 0;
    }
}

void SendQueue::clear() {
    pieces_.clear();
    offset_ = 0;
    size_ = 0;
}

StreamTurns::StreamPtr StreamTurns::take() {
    if (empty()) return nullptr;
    const bool is_bulk =
        small_.empty() || (!bulk_.empty() && small_in_a_row_ >= small_frames_in_a_row_max);
    auto& queue = is_bulk ? bulk_ : small_;
    small_in_a_row_ = is_bulk ? 0 : small_in_a_row_ + 1;
    StreamPtr stream = std::move(queue.front());
    queue.pop_front();
    return stream;
}

void StreamTurns::clear() {
    small_.clear();
    bulk_.clear();
}

}  // namespace dedloc::transport
