// Readers of bytes that come in any pieces: length prefixes, multistream lines, stream records.

#include <gtest/gtest.h>

#include "dedloc/base/random.h"
#include "dedloc/wire/identify.h"
#include "dedloc/wire/multistream.h"
#include "dedloc/wire/relay_messages.h"
#include "dedloc/wire/rpc_frames.h"
#include "dedloc/wire/yamux_frame.h"

namespace dedloc::wire {
namespace {

// Feeds everything in pieces of at most `piece` bytes and collects what comes out.
template <typename Reader>
auto read_all(Reader& reader, ByteView bytes, std::size_t piece) {
    std::vector<typename std::decay_t<decltype(reader.take())>::value_type> items;
    while (!bytes.empty()) {
        const auto taken = reader.feed(bytes.first(std::min(piece, bytes.size())));
        EXPECT_TRUE(taken) << taken.error().message();
        if (!taken) break;
        bytes = bytes.subspan(*taken);
        auto item = reader.take();
        EXPECT_TRUE(item.has_value() || *taken > 0) << "no progress";
        if (!item && *taken == 0) break;
        if (item) items.push_back(*std::move(item));
    }
    return items;
}

TEST(LengthPrefix, messages_come_whole_from_any_pieces) {
    const std::vector<Bytes> messages = {
        Bytes{}, Bytes{1}, Bytes(127, 2), Bytes(128, 3), Bytes(5000, 4)};
    Bytes stream;
    for (const Bytes& message : messages) base::append(stream, with_length_prefix(message));
    for (const std::size_t piece : {1u, 2u, 3u, 64u, 100000u}) {
        LengthPrefixReader reader(5000);
        EXPECT_EQ(read_all(reader, stream, piece), messages) << piece;
        EXPECT_FALSE(reader.in_the_middle());
    }
}

TEST(LengthPrefix, nothing_beyond_the_message_is_taken) {
    Bytes stream = with_length_prefix(as_bytes("abc"));
    base::append(stream, as_bytes("another protocol"));
    LengthPrefixReader reader(100);
    EXPECT_EQ(reader.wanted(), 1u);
    EXPECT_EQ(*reader.feed(stream), 4u);
    EXPECT_EQ(reader.wanted(), 0u);
    EXPECT_EQ(*reader.feed(stream), 0u);  // a message waits
    EXPECT_EQ(reader.take(), to_bytes("abc"));
}

TEST(LengthPrefix, too_long_messages_and_endless_lengths_are_refused) {
    for (const char* bytes :
         {"65", "ffffffffffffffffff01", "ffffffffffffffffffff01", "808080808080808080808001"}) {
        LengthPrefixReader reader(100);
        const auto taken = reader.feed(*base::from_hex(bytes));
        ASSERT_FALSE(taken) << bytes;
        EXPECT_EQ(taken.error().kind(), ErrorKind::peer_broke_protocol);
        EXPECT_FALSE(reader.feed(as_bytes("x")));
        EXPECT_EQ(reader.wanted(), 0u);
    }
    LengthPrefixReader reader(100);
    EXPECT_TRUE(reader.feed(*base::from_hex("64")));
    EXPECT_EQ(reader.wanted(), 100u);
    EXPECT_TRUE(reader.in_the_middle());
}

TEST(Multistream, lines_are_those_of_the_specification) {
    EXPECT_EQ(base::to_hex(multistream_line("/multistream/1.0.0")),
              "132f6d756c746973747265616d2f312e302e300a");
    EXPECT_EQ(base::to_hex(multistream_line("na")), "036e610a");
}

TEST(Multistream, lazy_negotiation_leaves_the_application_its_bytes) {
    Bytes stream;
    put_multistream_line(stream, multistream_header);
    put_multistream_line(stream, "/ipfs/ping/1.0.0");
    const std::size_t lines = stream.size();
    base::append(stream, as_bytes("ping data"));
    for (const std::size_t piece : {1u, 7u, 1000u}) {
        MultistreamReader reader;
        std::size_t position = 0;
        std::vector<std::string> seen;
        while (seen.size() < 2) {
            position += *reader.feed(
                ByteView(stream).subspan(position, std::min(piece, stream.size() - position)));
            if (auto line = reader.take()) seen.push_back(*line);
        }
        EXPECT_EQ(position, lines);
        EXPECT_EQ(seen,
                  (std::vector<std::string>{std::string(multistream_header), "/ipfs/ping/1.0.0"}));
    }
}

TEST(Multistream, bad_lines_are_refused) {
    for (const Bytes& bad : {Bytes{0}, Bytes{2, 'n', 'a'}, with_length_prefix(Bytes(1025, '\n'))}) {
        MultistreamReader reader;
        EXPECT_FALSE(reader.feed(bad));
    }
    MultistreamReader reader;
    EXPECT_TRUE(reader.feed(with_length_prefix(Bytes(1024, '\n'))));
}

TEST(Yamux, headers_convert_and_are_big_endian) {
    const YamuxHeader header{YamuxType::window_update, yamux_syn | yamux_ack, 0x01020304, 0x40000};
    const auto bytes = encode_yamux_header(header);
    EXPECT_EQ(base::to_hex(bytes), "000100030102030400040000");
    EXPECT_EQ(decode_yamux_header(bytes).value(), header);
    EXPECT_EQ(header.payload_bytes(), 0u);
    EXPECT_TRUE(header.has(yamux_ack));
    EXPECT_FALSE(header.has(yamux_fin));
}

TEST(Yamux, impossible_headers_are_refused) {
    for (const char* bad : {"01000000"
                            "00000001"
                            "00000000",  // version 1
                            "00040000"
                            "00000001"
                            "00000000",  // type 4
                            "00000000"
                            "00000000"
                            "00000001",  // data for the session
                            "00010000"
                            "00000000"
                            "00000001",  // window of the session
                            "00020001"
                            "00000001"
                            "00000001",  // ping of a stream
                            "00030000"
                            "00000003"
                            "00000000",  // go-away of a stream
                            "00000000"
                            "00000001"
                            "01000001",  // more than 16 MiB
                            "00000000"
                            "00000001"
                            "000000"}) {  // 11 bytes
        const auto header = decode_yamux_header(*base::from_hex(bad));
        ASSERT_FALSE(header) << bad;
        EXPECT_EQ(header.error().kind(), ErrorKind::peer_broke_protocol);
    }
    EXPECT_TRUE(decode_yamux_header(*base::from_hex("000000000000000101000000")));
    EXPECT_TRUE(decode_yamux_header(*base::from_hex("0001000000000001ffffffff")));
}

TEST(StreamRecords, come_whole_from_any_pieces) {
    Bytes stream;
    const Bytes large(3000, 5);
    base::append(stream, encode_stream_message(large));
    base::append(stream, encode_stream_message({}));
    base::append(stream, encode_stream_error("boom"));
    base::append(stream, encode_stream_end());
    for (const std::size_t piece : {1u, 8u, 9u, 10u, 5000u}) {
        StreamRecordReader reader(3000);
        const auto records = read_all(reader, stream, piece);
        ASSERT_EQ(records.size(), 4u);
        EXPECT_EQ(records[0].payload, large);
        EXPECT_TRUE(records[1].payload.empty());
        EXPECT_EQ(records[2].marker, StreamMarker::error);
        EXPECT_EQ(decode_stream_error(records[2].payload).value(), "boom");
        EXPECT_EQ(decode_stream_error(records[3].payload).value(), "");
        EXPECT_FALSE(reader.in_the_middle());
    }
}

TEST(StreamRecords, too_long_ones_and_unknown_markers_are_refused) {
    StreamRecordReader reader(10);
    EXPECT_EQ(reader.wanted(), 9u);
    EXPECT_FALSE(reader.feed(encode_stream_message(Bytes(11))));
    EXPECT_FALSE(reader.feed(encode_stream_message(Bytes(1))));
    StreamRecordReader other(10);
    EXPECT_FALSE(other.feed(*base::from_hex("020000000000000000")));
    StreamRecordReader huge(10);
    EXPECT_FALSE(huge.feed(*base::from_hex("00ffffffffffffffff")));
}

TEST(UnaryCalls, come_back_and_malformed_ones_are_refused) {
    const CallId id{1, 2, 3};
    const Bytes request = encode_unary_request(id, "Class.method", Bytes(100000, 7));
    LengthPrefixReader reader(unary_envelope_bytes_max);
    EXPECT_EQ(*reader.feed(request), request.size());
    const auto decoded = decode_unary_request(*reader.take());
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->id, id);
    EXPECT_EQ(decoded->method, "Class.method");
    EXPECT_EQ(decoded->data, Bytes(100000, 7));
    EXPECT_FALSE(decode_unary_request({}));
    EXPECT_FALSE(decode_unary_request(*base::from_hex("0a0101")));  // short id
    const Bytes reply = encode_unary_response(id, as_bytes("x"));
    EXPECT_FALSE(decode_unary_request(ByteView(reply).subspan(1)));
    EXPECT_FALSE(decode_unary_response(ByteView(request).subspan(3)));
    const Bytes both = *base::from_hex(
        "0a1000000000000000000000000000000000"
        "22040a001200");
    EXPECT_FALSE(decode_unary_response(both));
    const Bytes longest(method_bytes_max, 'm');
    EXPECT_LE(encode_unary_request(id, as_text(longest), {}).size(), unary_overhead_bytes_max);
}

TEST(ErrorText, keeps_its_kind_between_us_and_tells_a_foreign_one_apart) {
    const Error error(ErrorKind::not_found, "no such key");
    EXPECT_EQ(error_from_text(error_to_text(error)), error);
    const Error home(ErrorKind::cancelled, "stop");
    EXPECT_EQ(error_from_text(error_to_text(home)).kind(), ErrorKind::peer_gone);
    const Error foreign = error_from_text("KeyError('x')");
    EXPECT_EQ(foreign.kind(), ErrorKind::peer_gone);
    EXPECT_NE(foreign.message().find("KeyError('x')"), std::string::npos);
    EXPECT_EQ(error_from_text("denied: a\x1b[31mb\n").message(), "a?[31mb ");
    EXPECT_EQ(error_from_text("denied: a\xc2\x9b"
                              "31mb")
                  .message(),
              "a?31mb");  // C1's CSI
    EXPECT_EQ(error_from_text("denied: \xc3\xa4 \xe2\x80\xa6").message(), "\xc3\xa4 \xe2\x80\xa6");
    EXPECT_LE(error_from_text("denied: " + std::string(1 << 20, 'x')).message().size(),
              error_text_bytes_max);
}

TEST(Identify, comes_back_and_several_messages_merge) {
    Identify identify;
    identify.public_key = Bytes(36, 1);
    identify.listen_addresses = {Bytes{4, 1, 2, 3, 4}, Bytes{4, 9, 9, 9, 9}};
    identify.protocols = {"/ipfs/ping/1.0.0", "DHTProtocol.rpc_ping"};
    identify.observed_address = {4, 5, 6, 7, 8};
    identify.agent_version = "dedloc/0.1";
    Identify second;
    second.signed_peer_record = Bytes(10, 3);
    Bytes joined = encode(identify);
    base::append(joined, encode(second));
    const auto merged = decode<Identify>(joined);
    ASSERT_TRUE(merged);
    EXPECT_EQ(merged->listen_addresses, identify.listen_addresses);
    EXPECT_EQ(merged->protocols, identify.protocols);
    EXPECT_EQ(merged->agent_version, "dedloc/0.1");
    EXPECT_EQ(merged->signed_peer_record, second.signed_peer_record);
    identify.protocols.assign(identify_protocols_max + 1, "x");
    EXPECT_FALSE(decode<Identify>(encode(identify)));
}

TEST(Identify, an_envelope_covers_domain_type_and_payload_with_their_lengths) {
    EXPECT_EQ(
        base::to_hex(envelope_signed_bytes("ab", as_bytes(peer_record_type), as_bytes("xyz"))),
        "026162"
        "020301"
        "0378797a");
}

TEST(RelayMessages, zero_types_are_written_and_everything_comes_back) {
    HopMessage reserve;
    reserve.type = HopType::reserve;
    EXPECT_EQ(base::to_hex(encode(reserve)), "0800");
    HopMessage status;
    status.type = HopType::status;
    status.status = RelayStatus::ok;
    status.reservation = RelayReservation{1700000000, {Bytes{4, 1, 2, 3, 4}}, Bytes(3, 1)};
    status.limit = RelayLimit{120, 1 << 17};
    const auto again = decode<HopMessage>(encode(status));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->status, RelayStatus::ok);
    EXPECT_EQ(again->limit->data_bytes, 1u << 17);
    EXPECT_EQ(again->reservation->addresses.size(), 1u);
    HolePunch punch;
    punch.type = HolePunchType::sync;
    EXPECT_EQ(base::to_hex(encode(punch)), "08ac02");
    AutonatMessage answer;
    answer.type = AutonatType::dial_response;
    answer.response = AutonatDialResponse{AutonatStatus::ok, "", {}};
    EXPECT_EQ(base::to_hex(encode(answer)), "08011a020800");
}

}  // namespace
}  // namespace dedloc::wire
