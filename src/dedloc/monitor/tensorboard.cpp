#include "dedloc/monitor/tensorboard.h"

#include <array>

#include "dedloc/base/fields.h"
#include "dedloc/wire/message.h"

namespace dedloc::monitor {
namespace {

struct SummaryValue {
    std::string tag;
    float simple_value = 0;
    DEDLOC_FIELDS(tag, simple_value)
};

struct Summary {
    std::vector<SummaryValue> value;
    DEDLOC_FIELDS(value)
};

struct SessionLog {
    std::uint64_t status = 0;
    DEDLOC_FIELDS(status)
};
constexpr std::uint64_t session_starts = 1;

struct TensorboardEvent {
    double wall_time = 0;
    std::uint64_t step = 0;
    std::string file_version;
    std::optional<Summary> summary;
    std::optional<SessionLog> session_log;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.wall_time);
        visit(2, self.step);
        visit(3, self.file_version);
        visit(5, self.summary);
        visit(7, self.session_log);
    }
};

constexpr std::array<std::uint32_t, 256> crc_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
        std::uint32_t remainder = byte;
        for (int bit = 0; bit < 8; ++bit)
            remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82F63B78u : 0u);
        table[byte] = remainder;
    }
    return table;
}

void put_little_endian(Bytes& out, std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
        out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

std::uint32_t masked_crc(ByteView bytes) {
    const std::uint32_t crc = crc32c(bytes);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

void put_record(Bytes& out, const TensorboardEvent& event) {
    const Bytes data = wire::encode(event);
    Bytes length;
    put_little_endian(length, data.size(), sizeof(std::uint64_t));
    base::append(out, length);
    put_little_endian(out, masked_crc(length), sizeof(std::uint32_t));
    base::append(out, data);
    put_little_endian(out, masked_crc(data), sizeof(std::uint32_t));
}

}  // namespace

std::uint32_t crc32c(ByteView bytes) {
    static constexpr auto table = crc_table();
    std::uint32_t crc = 0xFFFFFFFFu;
    for (const std::uint8_t byte : bytes) crc = table[(crc ^ byte) & 0xFFu] ^ (crc >> 8);
    return ~crc;
}

Bytes tensorboard_begin(WallSeconds now) {
    Bytes bytes;
    TensorboardEvent begin;
    begin.wall_time = now;
    begin.file_version = "brain.Event:2";
    put_record(bytes, begin);
    return bytes;
}

Bytes tensorboard_records(const std::vector<Scalar>& scalars) {
    Bytes bytes;
    for (std::size_t first = 0; first < scalars.size();) {
        TensorboardEvent event;
        event.wall_time = scalars[first].time;
        event.step = scalars[first].step;
        event.summary.emplace();
        std::size_t next = first;
        for (; next < scalars.size() && scalars[next].step == event.step &&
               scalars[next].time == event.wall_time;
             ++next)
            event.summary->value.push_back(
                {scalars[next].name, static_cast<float>(scalars[next].value)});
        put_record(bytes, event);
        first = next;
    }
    return bytes;
}

Bytes tensorboard_restart(WallSeconds now, std::uint64_t step) {
    Bytes bytes;
    TensorboardEvent event;
    event.wall_time = now;
    event.step = step;
    event.session_log = {.status = session_starts};
    put_record(bytes, event);
    return bytes;
}

Bytes to_tensorboard(const std::vector<Scalar>& scalars) {
    Bytes file = tensorboard_begin(scalars.empty() ? 0 : scalars.front().time);
    base::append(file, tensorboard_records(scalars));
    return file;
}

}  // namespace dedloc::monitor
