#include "dedloc/wire/length_prefix.h"

#include <algorithm>

namespace dedloc::wire {
namespace {

// Longer messages get their memory as their bytes come.
constexpr std::size_t reserve_bytes_max = 64 * 1024;

}  // namespace

Bytes with_length_prefix(ByteView message) {
    Bytes bytes;
    bytes.reserve(varint_bytes_max + message.size());
    put_varint(bytes, message.size());
    base::append(bytes, message);
    return bytes;
}

Ok LengthPrefixReader::receive_header_byte(std::uint8_t byte) {
    header_.push_back(byte);
    if (byte >= 0x80) {
        if (header_.size() < varint_bytes_max) return {};
        return make_error(ErrorKind::peer_broke_protocol, "a message's length has no end");
    }
    base::ByteReader reader(header_);
    const auto size = read_varint(reader);
    if (!size || *size > bytes_max_)
        return make_error(ErrorKind::peer_broke_protocol,
                          "a message of {} bytes; at most {} are accepted here",
                          size ? fmt::to_string(*size) : "too many",
                          bytes_max_);
    header_.clear();
    size_ = static_cast<std::size_t>(*size);
    size_known_ = true;
    message_.reserve(std::min(size_, reserve_bytes_max));
    return {};
}

Result<std::size_t> LengthPrefixReader::feed(ByteView bytes) {
    if (failed_)
        return make_error(ErrorKind::peer_broke_protocol, "the stream was given up before");
    std::size_t taken = 0;
    while (!complete_ && !size_known_ && taken < bytes.size()) {
        if (Ok status = receive_header_byte(bytes[taken++]); !status) {
            failed_ = true;
            return std::move(status).error();
        }
    }
    if (size_known_ && !complete_) {
        const std::size_t piece = std::min(bytes.size() - taken, size_ - message_.size());
        base::append(message_, bytes.subspan(taken, piece));
        taken += piece;
        complete_ = message_.size() == size_;
    }
    return taken;
}

std::optional<Bytes> LengthPrefixReader::take() {
    if (!complete_) return std::nullopt;
    complete_ = false;
    size_known_ = false;
    size_ = 0;
    return std::exchange(message_, {});
}

std::size_t LengthPrefixReader::wanted() const {
    if (complete_ || failed_) return 0;
    return size_known_ ? size_ - message_.size() : 1;
}

}  // namespace dedloc::wire
