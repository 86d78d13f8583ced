// hivemind's dialect of MessagePack, in which DHT keys, subkeys and values are written.
//
// Bytes are `bin`, text is `str`, integers take the fewest bytes, floats are always float64, a
// Python tuple is ext 0x40 around a list, a DictionaryDHTValue is ext 0x50. The order of a map's
// entries is kept, because these bytes are hashed and signed.
//
// Read more widely than written: float32, integers in more bytes than needed. Unknown ext types
// are kept as they are.
// Limits: msgpack_depth_max levels, msgpack_values_max values in all; nothing is reserved for a
// count that was only claimed. Errors: bad_input. Cost: linear. Thread: any.

#pragma once
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dedloc/base/bytes.h"

namespace dedloc::wire {

inline constexpr int msgpack_depth_max = 32;
inline constexpr std::size_t msgpack_values_max = 1 << 16;

class MsgpackValue {
  public:
    using List = std::vector<MsgpackValue>;
    struct Tuple {
        List items;
        friend bool operator==(const Tuple&, const Tuple&) = default;
    };
    struct Map {
        std::vector<std::pair<MsgpackValue, MsgpackValue>> entries;
        // Not defaulted here, because clang would need a complete MsgpackValue for it.
        friend bool operator==(const Map& a, const Map& b) { return a.entries == b.entries; }
    };
    struct Ext {
        std::int8_t type = 0;
        Bytes payload;
        friend bool operator==(const Ext&, const Ext&) = default;
    };
    // std::uint64_t only for what does not fit std::int64_t, so that equal numbers are equal.
    using Data = std::variant<std::monostate,
                              bool,
                              std::int64_t,
                              std::uint64_t,
                              double,
                              std::string,
                              Bytes,
                              List,
                              Tuple,
                              Map,
                              Ext>;

    MsgpackValue() = default;  // nil
    MsgpackValue(bool value) : data_(value) {}
    template <std::integral T>
    requires(!std::same_as<T, bool>) MsgpackValue(T value) {
        if (std::in_range<std::int64_t>(value))
            data_ = static_cast<std::int64_t>(value);
        else
            data_ = static_cast<std::uint64_t>(value);
    }
    MsgpackValue(double value) : data_(value) {}
    MsgpackValue(const char* text) : data_(std::string(text)) {}
    MsgpackValue(std::string_view text) : data_(std::string(text)) {}
    MsgpackValue(std::string text) : data_(std::move(text)) {}
    MsgpackValue(Bytes bytes) : data_(std::move(bytes)) {}
    MsgpackValue(List items) : data_(std::move(items)) {}
    MsgpackValue(Tuple tuple) : data_(std::move(tuple)) {}
    MsgpackValue(Map map) : data_(std::move(map)) {}
    MsgpackValue(Ext ext) : data_(std::move(ext)) {}

    const Data& data() const { return data_; }
    bool is_nil() const { return std::holds_alternative<std::monostate>(data_); }

    // The value if it is of that type (strictly: an integer is not a float), else null.
    template <typename T>
    const T* get() const {
        return std::get_if<T>(&data_);
    }
    // An entry of a map by its text key; null if this is no map or has no such entry.
    const MsgpackValue* find(std::string_view key) const;

    friend bool operator==(const MsgpackValue&, const MsgpackValue&) = default;

  private:
    Data data_;
};

Bytes encode_msgpack(const MsgpackValue& value);
Result<MsgpackValue> decode_msgpack(ByteView bytes);  // the whole of the bytes is one value

// A DHT holds this under a key with subkeys. Written as ext 0x50 around the list
// [maxsize, latest expiration, [[subkey, value, expiration], …]].
struct DhtDictionary {
    struct Entry {
        MsgpackValue subkey;
        Bytes value;  // already MessagePack, perhaps with a signature after it
        double expiration_time = 0;
        friend bool operator==(const Entry&, const Entry&) = default;
    };

    std::optional<std::int64_t> entries_limit;  // hivemind's maxsize; none: infinity
    double latest_expiration_time = -std::numeric_limits<double>::infinity();
    std::vector<Entry> entries;

    friend bool operator==(const DhtDictionary&, const DhtDictionary&) = default;
};

Bytes encode_dht_dictionary(const DhtDictionary& dictionary);
Result<DhtDictionary> decode_dht_dictionary(ByteView bytes);

// An expert takes or gives this: a tensor whose first axis is the batch. Written as ext 0x51 around
// a map of hivemind's fields in their order.
struct TensorDescriptor {
    std::vector<std::int64_t> size;        // of one sample: without the batch axis
    std::string dtype = "torch.float32";   // empty: nil
    std::string layout = "torch.strided";  // empty: nil
    bool requires_grad = false;
    bool pin_memory = false;
    std::int64_t compression = 0;
    std::string device;  // "cpu", "cuda"; empty: nil
    std::optional<std::int64_t> device_index;
    friend bool operator==(const TensorDescriptor&, const TensorDescriptor&) = default;
};

MsgpackValue to_msgpack(const TensorDescriptor& descriptor);
Result<TensorDescriptor> tensor_descriptor_from(const MsgpackValue& value);

}  // namespace dedloc::wire
