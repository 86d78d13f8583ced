// SharedBytes: bytes that several may read and nobody changes, and what keeps them alive. A part of
// a message can be handed on, sent to many peers or kept without being copied.
//
//   SharedBytes message(std::move(bytes));      // takes the vector over
//   SharedBytes body = message.part(12, 1000);  // keeps the whole message alive
//   auto [shared, out] = SharedBytes::for_overwrite(1 << 20);  // fill `out`, then share
//
// Used like a std::shared_ptr<const ByteView>: false when empty-handed.
// Cost: one allocation to make, none to copy or cut. Thread: any, as of a shared_ptr.

#pragma once
#include <memory>
#include <span>
#include <utility>

#include "dedloc/base/bytes.h"

namespace dedloc {

class SharedBytes {
  public:
    SharedBytes() = default;
    explicit SharedBytes(Bytes bytes) {
        auto owner = std::make_shared<const Bytes>(std::move(bytes));
        view_ = *owner;
        owner_ = std::move(owner);
    }
    // `owner` keeps what `view` shows.
    SharedBytes(std::shared_ptr<const void> owner, ByteView view)
        : owner_(std::move(owner)), view_(view) {}

    // Memory that nobody has written yet: fill it before you hand the first on.
    static std::pair<SharedBytes, std::span<std::uint8_t>> for_overwrite(std::size_t size) {
        auto memory = std::make_shared_for_overwrite<std::uint8_t[]>(size);
        const std::span<std::uint8_t> out(memory.get(), size);
        return {SharedBytes(std::move(memory), out), out};
    }

    explicit operator bool() const { return owner_ != nullptr; }
    const ByteView& operator*() const { return view_; }
    const ByteView* operator->() const { return &view_; }
    operator ByteView() const { return view_; }
    std::size_t size() const { return view_.size(); }

    SharedBytes part(std::size_t offset, std::size_t size) const {
        return {owner_, view_.subspan(offset, size)};
    }
    // `view` must lie in these bytes.
    SharedBytes part(ByteView view) const { return {owner_, view}; }

  private:
    std::shared_ptr<const void> owner_;
    ByteView view_;
};

}  // namespace dedloc
