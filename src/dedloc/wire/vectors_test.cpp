// Bytes written by hivemind's own code (tests/vectors/hivemind_vectors.json): we read them, find
// in them what they were made from, and write the same bytes.

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dedloc/wire/dht_messages.h"
#include "dedloc/wire/msgpack.h"
#include "dedloc/wire/rpc_frames.h"

namespace dedloc::wire {
namespace {

nlohmann::json section(const char* name) {
    std::ifstream file(DEDLOC_TEST_DATA "/vectors/hivemind_vectors.json");
    return nlohmann::json::parse(file).at(name);
}

Bytes hex(const nlohmann::json& text) { return base::from_hex(text.get<std::string>()).value(); }

// Decodes the vector `name` and checks that encoding gives its bytes again.
template <typename Message>
Message read(const char* name) {
    const Bytes bytes = hex(section("protobuf").at(name));
    auto message = decode<Message>(bytes);
    EXPECT_TRUE(message) << name;
    if (!message) return {};
    EXPECT_EQ(base::to_hex(encode(*message)), base::to_hex(bytes)) << name;
    return *std::move(message);
}

const Bytes node(dht_node_id_bytes, 'N');
const Bytes key(dht_node_id_bytes, 'K');
constexpr double expiration = 1700000000.5;

TEST(Vectors, dht_messages) {
    const auto store = read<StoreRequest>("StoreRequest");
    EXPECT_EQ(store.keys, std::vector<Bytes>{key});
    EXPECT_EQ(store.subkeys, std::vector<Bytes>{Bytes{0xc0}});
    EXPECT_EQ(store.values, std::vector<Bytes>{Bytes{7}});
    EXPECT_EQ(store.expiration_times, std::vector<double>{expiration});
    EXPECT_EQ(store.in_cache, std::vector<bool>{false});
    EXPECT_EQ(store.peer, NodeInfo{node});
    EXPECT_EQ(read<StoreRequest>("StoreRequest client mode").peer, NodeInfo{});
    EXPECT_EQ(read<StoreResponse>("StoreResponse").store_ok, (std::vector<bool>{true, false}));

    const auto ping = read<PingRequest>("PingRequest");
    EXPECT_EQ(ping.peer, NodeInfo{node});
    EXPECT_TRUE(ping.validate);
    EXPECT_FALSE(ping.auth.has_value());
    const auto pong = read<PingResponse>("PingResponse");
    EXPECT_EQ(pong.dht_time, expiration);
    EXPECT_TRUE(pong.available);

    EXPECT_EQ(read<FindRequest>("FindRequest").keys, std::vector<Bytes>{key});
    const auto found = read<FindResponse>("FindResponse");
    ASSERT_EQ(found.results.size(), 1u);
    EXPECT_EQ(found.results[0].type, FindType::regular);
    EXPECT_EQ(found.results[0].value, Bytes{7});
    EXPECT_EQ(found.results[0].expiration_time, expiration);
    EXPECT_EQ(found.results[0].nearest_node_ids, std::vector<Bytes>{Bytes(20, 'n')});
    EXPECT_EQ(found.results[0].nearest_peer_ids, std::vector<Bytes>{Bytes(34, 'p')});
}

CallId counting_id() {
    CallId id{};
    for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::uint8_t>(i);
    return id;
}

TEST(Vectors, unary_calls) {
    const auto protobuf = section("protobuf");
    const auto envelope = [&](const char* name) {
        return hex(protobuf.at(std::string(name) + " on libp2p stream (no varint prefix)"));
    };
    const auto request = decode_unary_request(envelope("unary request"));
    ASSERT_TRUE(request);
    EXPECT_EQ(request->id, counting_id());
    EXPECT_EQ(request->method, "DHTProtocol.rpc_ping");
    EXPECT_EQ(request->data, to_bytes("DATA"));

    const Bytes response = envelope("unary response");
    ASSERT_TRUE(decode_unary_response(response));
    EXPECT_EQ(decode_unary_response(response)->response, to_bytes("RESP"));
    EXPECT_EQ(encode_unary_response(counting_id(), as_bytes("RESP")), with_length_prefix(response));

    const Bytes failure = hex(protobuf.at("unary error on libp2p stream"));
    ASSERT_TRUE(decode_unary_response(failure));
    EXPECT_EQ(decode_unary_response(failure)->error, to_bytes("KeyError('x')"));
    EXPECT_EQ(encode_unary_error(counting_id(), "KeyError('x')"), with_length_prefix(failure));

    EXPECT_EQ(encode_unary_response(counting_id(), {}),
              with_length_prefix(hex(protobuf.at("unary empty response"))));
}

TEST(Vectors, unary_requests_differ_from_hiveminds_only_in_the_peer_that_is_ignored) {
    // hivemind's vector names 'PEER'; we write the required field empty.
    const Bytes ours =
        encode_unary_request(counting_id(), "DHTProtocol.rpc_ping", as_bytes("DATA"));
    std::string theirs = section("protobuf")
                             .at("unary request on libp2p stream (no varint prefix)")
                             .get<std::string>();
    theirs.replace(theirs.find("1a220a0450454552"), 16, "1a1e0a00");
    EXPECT_EQ(base::to_hex(ByteView(ours).subspan(1)), theirs);
    EXPECT_EQ(ours[0], ours.size() - 1);
}

TEST(Vectors, stream_records) {
    const auto frames = section("stream_frames");
    EXPECT_EQ(encode_stream_end(), hex(frames.at("end of input")));
    EXPECT_EQ(encode_stream_error("boom"), hex(frames.at("error boom")));
    const Bytes reply = hex(section("protobuf").at("AveragingData reply"));
    EXPECT_EQ(encode_stream_message(reply), hex(frames.at("AveragingData reply")));
}

TEST(Vectors, every_msgpack_value_is_read_and_written_again) {
    const auto vectors = section("msgpack_and_dhtid");
    for (const auto& [name, item] : vectors.items()) {
        const Bytes bytes = hex(item.at("msgpack"));
        const auto value = decode_msgpack(bytes);
        ASSERT_TRUE(value) << name << ": " << value.error().message();
        EXPECT_EQ(base::to_hex(encode_msgpack(*value)), base::to_hex(bytes)) << name;
    }
}

TEST(Vectors, msgpack_values_mean_what_python_said) {
    using Tuple = MsgpackValue::Tuple;
    using List = MsgpackValue::List;
    const auto vectors = section("msgpack_and_dhtid");
    const auto expect = [&](const char* name, const MsgpackValue& value) {
        EXPECT_EQ(base::to_hex(encode_msgpack(value)),
                  vectors.at(name).at("msgpack").get<std::string>())
            << name;
    };
    expect("str my_key", "my_key");
    expect("empty tuple", Tuple{});
    expect("int 123", 123);
    expect("True", true);
    expect("float 1.5", 1.5);
    expect("bytes ab", to_bytes("ab"));
    expect("int -1", -1);
    expect("int 2**40", std::int64_t{1} << 40);
    expect("None", {});
    expect("tuple nested", Tuple{List{"1", to_bytes("qq"), Tuple{List{2, 5, "0"}}}});
    expect("bytes 300", Bytes(300, 'z'));
    MsgpackValue::Map map;
    map.entries.emplace_back("a", 1);
    map.entries.emplace_back("b", List{MsgpackValue(), 2.0});
    const MsgpackValue value(std::move(map));
    expect("dict", value);
    ASSERT_NE(value.find("a"), nullptr);
    EXPECT_EQ(*value.find("a"), MsgpackValue(1));
    EXPECT_EQ(value.find("c"), nullptr);
}

TEST(Vectors, dht_dictionary) {
    const auto vector = section("dictionary_value");
    DhtDictionary dictionary;
    dictionary.latest_expiration_time = 1700000010.5;
    dictionary.entries = {{"k1", encode_msgpack(123), 1700000000.0},
                          {to_bytes("k2"), encode_msgpack("x"), 1700000010.5}};
    const Bytes bytes = hex(vector.at("msgpack"));
    EXPECT_EQ(base::to_hex(encode_dht_dictionary(dictionary)), base::to_hex(bytes));
    const auto read_again = decode_dht_dictionary(bytes);
    ASSERT_TRUE(read_again) << read_again.error().message();
    EXPECT_EQ(*read_again, dictionary);
}

}  // namespace
}  // namespace dedloc::wire
