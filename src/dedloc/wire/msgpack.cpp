#include "dedloc/wire/msgpack.h"

#include <bit>

namespace dedloc::wire {
namespace {

constexpr std::int8_t ext_tuple = 0x40;
constexpr std::int8_t ext_dictionary = 0x50;
constexpr std::int8_t ext_descriptor = 0x51;

void put_u8(Bytes& out, std::size_t value) { out.push_back(static_cast<std::uint8_t>(value)); }

// A size after the shortest of three marks: for 8, 16 and 32 bits; mark8 0: there is none.
void put_size(Bytes& out, std::size_t size, std::uint8_t mark8, std::uint8_t mark16) {
    DEDLOC_CHECK(size <= 0xffffffff, "{} do not fit MessagePack", size);
    if (mark8 != 0 && size <= 0xff) {
        put_u8(out, mark8);
        put_u8(out, size);
    } else if (size <= 0xffff) {
        put_u8(out, mark16);
        base::put_u16_be(out, static_cast<std::uint16_t>(size));
    } else {
        put_u8(out, mark16 + 1u);
        base::put_u32_be(out, static_cast<std::uint32_t>(size));
    }
}

void put_list_head(Bytes& out, std::size_t size) {
    if (size <= 15)
        put_u8(out, 0x90 | size);
    else
        put_size(out, size, 0, 0xdc);
}

void put_double(Bytes& out, double value) {
    put_u8(out, 0xcb);
    base::put_u64_be(out, std::bit_cast<std::uint64_t>(value));
}

void put_bin(Bytes& out, ByteView bytes) {
    put_size(out, bytes.size(), 0xc4, 0xc5);
    base::append(out, bytes);
}

void put_ext(Bytes& out, std::int8_t type, ByteView payload) {
    const std::size_t size = payload.size();
    if (size > 0 && size <= 16 && std::has_single_bit(size))
        put_u8(out, 0xd4u + static_cast<unsigned>(std::countr_zero(size)));
    else
        put_size(out, size, 0xc7, 0xc8);
    put_u8(out, static_cast<std::uint8_t>(type));
    base::append(out, payload);
}

void put_unsigned(Bytes& out, std::uint64_t value) {
    if (value <= 0x7f) {
        put_u8(out, value);
    } else if (value <= 0xffffffff) {
        if (value <= 0xff) {
            put_u8(out, 0xcc);
            put_u8(out, value);
        } else if (value <= 0xffff) {
            put_u8(out, 0xcd);
            base::put_u16_be(out, static_cast<std::uint16_t>(value));
        } else {
            put_u8(out, 0xce);
            base::put_u32_be(out, static_cast<std::uint32_t>(value));
        }
    } else {
        put_u8(out, 0xcf);
        base::put_u64_be(out, value);
    }
}

void put_signed(Bytes& out, std::int64_t value) {
    if (value >= 0) return put_unsigned(out, static_cast<std::uint64_t>(value));
    if (value >= -32) {
        put_u8(out, static_cast<std::uint8_t>(value));
    } else if (value >= std::numeric_limits<std::int8_t>::min()) {
        put_u8(out, 0xd0);
        put_u8(out, static_cast<std::uint8_t>(value));
    } else if (value >= std::numeric_limits<std::int16_t>::min()) {
        put_u8(out, 0xd1);
        base::put_u16_be(out, static_cast<std::uint16_t>(value));
    } else if (value >= std::numeric_limits<std::int32_t>::min()) {
        put_u8(out, 0xd2);
        base::put_u32_be(out, static_cast<std::uint32_t>(value));
    } else {
        put_u8(out, 0xd3);
        base::put_u64_be(out, static_cast<std::uint64_t>(value));
    }
}

void put_value(Bytes& out, const MsgpackValue& value);

struct Writer {
    Bytes& out;

    void operator()(std::monostate) const { put_u8(out, 0xc0); }
    void operator()(bool value) const { put_u8(out, value ? 0xc3 : 0xc2); }
    void operator()(std::int64_t value) const { put_signed(out, value); }
    void operator()(std::uint64_t value) const { put_unsigned(out, value); }
    void operator()(double value) const { put_double(out, value); }
    void operator()(const std::string& text) const {
        if (text.size() <= 31)
            put_u8(out, 0xa0 | text.size());
        else
            put_size(out, text.size(), 0xd9, 0xda);
        base::append(out, as_bytes(text));
    }
    void operator()(const Bytes& bytes) const { put_bin(out, bytes); }
    void operator()(const MsgpackValue::List& items) const {
        put_list_head(out, items.size());
        for (const MsgpackValue& item : items) put_value(out, item);
    }
    void operator()(const MsgpackValue::Tuple& tuple) const {
        Bytes list;
        Writer{list}(tuple.items);
        put_ext(out, ext_tuple, list);
    }
    void operator()(const MsgpackValue::Map& map) const {
        if (map.entries.size() <= 15)
            put_u8(out, 0x80 | map.entries.size());
        else
            put_size(out, map.entries.size(), 0, 0xde);
        for (const auto& [key, value] : map.entries) {
            put_value(out, key);
            put_value(out, value);
        }
    }
    void operator()(const MsgpackValue::Ext& ext) const { put_ext(out, ext.type, ext.payload); }
};

void put_value(Bytes& out, const MsgpackValue& value) { std::visit(Writer{out}, value.data()); }

class Parser {
  public:
    explicit Parser(ByteView bytes, int depth = 0, std::size_t values = 0)
        : reader_(bytes), depth_(depth), values_(values) {}

    bool done() const { return reader_.done(); }
    std::size_t values() const { return values_; }
    Result<MsgpackValue> value();

  private:
    Result<std::uint64_t> number(std::size_t bytes);
    Result<MsgpackValue> signed_number(std::size_t bytes);
    Result<MsgpackValue> text(std::uint64_t size);
    Result<MsgpackValue> binary(std::uint64_t size);
    Result<MsgpackValue> list(std::uint64_t count);
    Result<MsgpackValue> map(std::uint64_t count);
    Result<MsgpackValue> ext(std::uint64_t size);
    Result<MsgpackValue> tuple(ByteView payload);
    Result<MsgpackValue> marked(std::uint8_t mark);
    Result<ByteView> take(std::uint64_t size);

    base::ByteReader reader_;
    int depth_;
    std::size_t values_;  // so far, in the whole
};

Error malformed(std::string_view what) {
    return make_error(ErrorKind::bad_input, "MessagePack: {}", what);
}

Result<ByteView> Parser::take(std::uint64_t size) {
    if (size > reader_.remaining()) return malformed("a value is cut off");
    return reader_.take(static_cast<std::size_t>(size));
}

Result<std::uint64_t> Parser::number(std::size_t bytes) {
    DEDLOC_TRY(const ByteView digits, take(bytes));
    std::uint64_t value = 0;
    for (const std::uint8_t digit : digits) value = value << 8 | digit;
    return value;
}

Result<MsgpackValue> Parser::signed_number(std::size_t bytes) {
    DEDLOC_TRY(const std::uint64_t value, number(bytes));
    const int unused_bits = 64 - static_cast<int>(bytes) * 8;
    // Shifted up and down again so that the sign fills the bits above.
    return MsgpackValue(static_cast<std::int64_t>(value << unused_bits) >> unused_bits);
}

Result<MsgpackValue> Parser::text(std::uint64_t size) {
    DEDLOC_TRY(const ByteView bytes, take(size));
    return MsgpackValue(as_text(bytes));
}

Result<MsgpackValue> Parser::binary(std::uint64_t size) {
    DEDLOC_TRY(const ByteView bytes, take(size));
    return MsgpackValue(to_bytes(bytes));
}

Result<MsgpackValue> Parser::list(std::uint64_t count) {
    if (count > reader_.remaining()) return malformed("a list is cut off");
    MsgpackValue::List items;
    for (std::uint64_t i = 0; i < count; ++i) {
        DEDLOC_TRY(MsgpackValue item, value());
        items.push_back(std::move(item));
    }
    return MsgpackValue(std::move(items));
}

Result<MsgpackValue> Parser::map(std::uint64_t count) {
    if (count > reader_.remaining() / 2) return malformed("a map is cut off");
    MsgpackValue::Map entries;
    for (std::uint64_t i = 0; i < count; ++i) {
        DEDLOC_TRY(MsgpackValue key, value());
        DEDLOC_TRY(MsgpackValue item, value());
        entries.entries.emplace_back(std::move(key), std::move(item));
    }
    return MsgpackValue(std::move(entries));
}

Result<MsgpackValue> Parser::tuple(ByteView payload) {
    Parser inner(payload, depth_, values_);
    DEDLOC_TRY(MsgpackValue list, inner.value());
    values_ = inner.values();
    const auto* items = list.get<MsgpackValue::List>();
    if (items == nullptr || !inner.done()) return malformed("a tuple does not hold one list");
    return MsgpackValue(MsgpackValue::Tuple{*items});
}

Result<MsgpackValue> Parser::ext(std::uint64_t size) {
    DEDLOC_TRY(const std::uint8_t type, reader_.u8());
    DEDLOC_TRY(const ByteView payload, take(size));
    if (static_cast<std::int8_t>(type) == ext_tuple) return tuple(payload);
    return MsgpackValue(MsgpackValue::Ext{static_cast<std::int8_t>(type), to_bytes(payload)});
}

Result<MsgpackValue> Parser::marked(std::uint8_t mark) {
    const auto sized = [this](std::size_t size_bytes,
                              Result<MsgpackValue> (Parser::*read)(std::uint64_t)) {
        auto size = number(size_bytes);
        if (!size) return Result<MsgpackValue>(std::move(size).error());
        return (this->*read)(*size);
    };
    switch (mark) {
        case 0xc0:
            return MsgpackValue();
        case 0xc2:
        case 0xc3:
            return MsgpackValue(mark == 0xc3);
        case 0xc4:
        case 0xc5:
        case 0xc6:
            return sized(std::size_t{1} << (mark - 0xc4), &Parser::binary);
        case 0xc7:
        case 0xc8:
        case 0xc9:
            return sized(std::size_t{1} << (mark - 0xc7), &Parser::ext);
        case 0xca: {
            DEDLOC_TRY(const std::uint64_t bits, number(4));
            return MsgpackValue(
                static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
        }
        case 0xcb: {
            DEDLOC_TRY(const std::uint64_t bits, number(8));
            return MsgpackValue(std::bit_cast<double>(bits));
        }
        case 0xcc:
        case 0xcd:
        case 0xce:
        case 0xcf: {
            DEDLOC_TRY(const std::uint64_t value, number(std::size_t{1} << (mark - 0xcc)));
            return MsgpackValue(value);
        }
        case 0xd0:
        case 0xd1:
        case 0xd2:
        case 0xd3:
            return signed_number(std::size_t{1} << (mark - 0xd0));
        case 0xd4:
        case 0xd5:
        case 0xd6:
        case 0xd7:
        case 0xd8:
            return ext(std::uint64_t{1} << (mark - 0xd4));
        case 0xd9:
        case 0xda:
        case 0xdb:
            return sized(std::size_t{1} << (mark - 0xd9), &Parser::text);
        case 0xdc:
        case 0xdd:
            return sized(std::size_t{2} << (mark - 0xdc), &Parser::list);
        case 0xde:
        case 0xdf:
            return sized(std::size_t{2} << (mark - 0xde), &Parser::map);
        default:
            return malformed("0xc1 is never used");
    }
}

Result<MsgpackValue> Parser::value() {
    if (++values_ > msgpack_values_max) return malformed("too many values");
    if (depth_ >= msgpack_depth_max) return malformed("nested too deeply");
    DEDLOC_TRY(const std::uint8_t mark, reader_.u8());
    if (mark <= 0x7f) return MsgpackValue(mark);
    if (mark >= 0xe0) return MsgpackValue(static_cast<std::int8_t>(mark));
    ++depth_;
    auto read = mark <= 0x8f   ? map(mark & 0x0f)
                : mark <= 0x9f ? list(mark & 0x0f)
                : mark <= 0xbf ? text(mark & 0x1f)
                               : marked(mark);
    --depth_;
    return read;
}

Result<double> as_time(const MsgpackValue& value) {
    if (const auto* real = value.get<double>()) return *real;
    if (const auto* whole = value.get<std::int64_t>()) return static_cast<double>(*whole);
    return malformed("an expiration is not a number");
}

Result<DhtDictionary::Entry> as_entry(const MsgpackValue& value) {
    const auto* parts = value.get<MsgpackValue::List>();
    if (parts == nullptr || parts->size() != 3 || (*parts)[1].get<Bytes>() == nullptr)
        return malformed("a dictionary's entry is not [subkey, bytes, expiration]");
    DEDLOC_TRY(const double expiration, as_time((*parts)[2]));
    return DhtDictionary::Entry{(*parts)[0], *(*parts)[1].get<Bytes>(), expiration};
}

}  // namespace

const MsgpackValue* MsgpackValue::find(std::string_view key) const {
    const auto* map = get<Map>();
    if (map == nullptr) return nullptr;
    for (const auto& [name, value] : map->entries)
        if (const auto* text = name.get<std::string>(); text != nullptr && *text == key)
            return &value;
    return nullptr;
}

Bytes encode_msgpack(const MsgpackValue& value) {
    Bytes out;
    put_value(out, value);
    return out;
}

Result<MsgpackValue> decode_msgpack(ByteView bytes) {
    Parser parser(bytes);
    DEDLOC_TRY(MsgpackValue value, parser.value());
    if (!parser.done()) return malformed("bytes follow the value");
    return value;
}

Bytes encode_dht_dictionary(const DhtDictionary& dictionary) {
    Bytes list;
    put_list_head(list, 3);
    if (dictionary.entries_limit)
        put_signed(list, *dictionary.entries_limit);
    else
        put_double(list, std::numeric_limits<double>::infinity());
    put_double(list, dictionary.latest_expiration_time);
    put_list_head(list, dictionary.entries.size());
    for (const DhtDictionary::Entry& entry : dictionary.entries) {
        put_list_head(list, 3);
        put_value(list, entry.subkey);
        put_bin(list, entry.value);
        put_double(list, entry.expiration_time);
    }
    Bytes out;
    put_ext(out, ext_dictionary, list);
    return out;
}

Result<DhtDictionary> decode_dht_dictionary(ByteView bytes) {
    DEDLOC_TRY(const MsgpackValue outer, decode_msgpack(bytes));
    const auto* ext = outer.get<MsgpackValue::Ext>();
    if (ext == nullptr || ext->type != ext_dictionary) return malformed("this is no dictionary");
    DEDLOC_TRY(const MsgpackValue inner, decode_msgpack(ext->payload));
    const auto* parts = inner.get<MsgpackValue::List>();
    const auto* entries =
        parts != nullptr && parts->size() == 3 ? (*parts)[2].get<MsgpackValue::List>() : nullptr;
    if (entries == nullptr) return malformed("a dictionary is not [maxsize, expiration, entries]");
    DhtDictionary dictionary;
    if (const auto* limit = (*parts)[0].get<std::int64_t>()) {
        dictionary.entries_limit = *limit;
    } else if (const auto* infinity = (*parts)[0].get<double>();
               infinity == nullptr || *infinity != std::numeric_limits<double>::infinity()) {
        return malformed("a dictionary's maxsize is neither an integer nor infinity");
    }
    DEDLOC_TRY(dictionary.latest_expiration_time, as_time((*parts)[1]));
    dictionary.entries.reserve(entries->size());
    for (const MsgpackValue& item : *entries) {
        DEDLOC_TRY(DhtDictionary::Entry entry, as_entry(item));
        dictionary.entries.push_back(std::move(entry));
    }
    return dictionary;
}

namespace {

MsgpackValue text_or_nil(const std::string& text) {
    return text.empty() ? MsgpackValue() : MsgpackValue(text);
}

Result<std::string> as_text_or_nil(const MsgpackValue& map, std::string_view key) {
    const MsgpackValue* value = map.find(key);
    if (value == nullptr) return malformed("a tensor's descriptor lacks a field");
    if (value->is_nil()) return std::string();
    if (const auto* text = value->get<std::string>()) return *text;
    return malformed("a field of a tensor's descriptor is no text");
}

template <typename T>
Result<T> as_field(const MsgpackValue& map, std::string_view key) {
    const MsgpackValue* value = map.find(key);
    const T* typed = value == nullptr ? nullptr : value->get<T>();
    if (typed == nullptr) return malformed("a tensor's descriptor lacks a field");
    return *typed;
}

}  // namespace

MsgpackValue to_msgpack(const TensorDescriptor& descriptor) {
    MsgpackValue::Tuple size{{MsgpackValue()}};
    for (const std::int64_t axis : descriptor.size) size.items.emplace_back(axis);
    MsgpackValue::Map map;
    const auto put = [&map](const char* key, MsgpackValue value) {
        map.entries.emplace_back(key, std::move(value));
    };
    put("size", std::move(size));
    put("dtype", text_or_nil(descriptor.dtype));
    put("layout", text_or_nil(descriptor.layout));
    put("requires_grad", descriptor.requires_grad);
    put("pin_memory", descriptor.pin_memory);
    put("compression", descriptor.compression);
    put("device_type", text_or_nil(descriptor.device));
    put("device_index",
        descriptor.device_index ? MsgpackValue(*descriptor.device_index) : MsgpackValue());
    return MsgpackValue::Ext{.type = ext_descriptor, .payload = encode_msgpack(std::move(map))};
}

Result<TensorDescriptor> tensor_descriptor_from(const MsgpackValue& value) {
    const auto* ext = value.get<MsgpackValue::Ext>();
    if (ext == nullptr || ext->type != ext_descriptor)
        return malformed("this is no tensor's descriptor");
    DEDLOC_TRY(const MsgpackValue map, decode_msgpack(ext->payload));
    TensorDescriptor descriptor;
    DEDLOC_TRY(const auto size, as_field<MsgpackValue::Tuple>(map, "size"));
    if (size.items.empty() || !size.items.front().is_nil())
        return malformed("a tensor's descriptor has no batch axis");
    for (std::size_t i = 1; i < size.items.size(); ++i) {
        const auto* axis = size.items[i].get<std::int64_t>();
        if (axis == nullptr || *axis < 0) return malformed("an axis of a tensor has no size");
        descriptor.size.push_back(*axis);
    }
    DEDLOC_TRY(descriptor.dtype, as_text_or_nil(map, "dtype"));
    DEDLOC_TRY(descriptor.layout, as_text_or_nil(map, "layout"));
    DEDLOC_TRY(descriptor.requires_grad, as_field<bool>(map, "requires_grad"));
    DEDLOC_TRY(descriptor.pin_memory, as_field<bool>(map, "pin_memory"));
    DEDLOC_TRY(descriptor.compression, as_field<std::int64_t>(map, "compression"));
    DEDLOC_TRY(descriptor.device, as_text_or_nil(map, "device_type"));
    const MsgpackValue* index = map.find("device_index");
    if (index != nullptr)
        if (const auto* number = index->get<std::int64_t>()) descriptor.device_index = *number;
    return descriptor;
}

}  // namespace dedloc::wire
