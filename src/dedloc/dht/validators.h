// ValidatorChain: what else must be true of a record before a node takes or believes it. hivemind's
// rules, so that both kinds of nodes accept and refuse the same records.
//
//   RsaSignatureValidator   a subkey (or key) that contains "[owner:ssh-rsa …]" protects the
//                           record: its value must end in exactly one "[signature:…]" of that key
//   SchemaValidator         the value of a known key must fit a schema, strictly: no integer for a
//                           float, no map for a dictionary
//
// Validators are asked in the order of their priority; all must agree. A value is signed in the
// opposite order, and stripped of signatures before anybody reads it.
//
// Errors: none; false is an answer. Cost: 40 µs a signature. Thread: any. Pure.

#pragma once
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/dht/dht_id.h"
#include "dedloc/security/rsa_pss.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::dht {

struct Record {
    Bytes key;     // 20 bytes
    Bytes subkey;  // as on the wire; MessagePack's nil: a regular value
    Bytes value;   // as on the wire, with signatures
    WallSeconds expiration = 0;
};

class RecordValidator {
  public:
    virtual ~RecordValidator() = default;
    virtual bool validate(const Record& record) const = 0;
    virtual Bytes sign(const Record& record) const { return record.value; }
    virtual Bytes strip(const Record& record) const { return record.value; }
    virtual int priority() const { return 0; }
};

// Several as one, by priority.
class ValidatorChain final : public RecordValidator {
  public:
    explicit ValidatorChain(std::vector<std::shared_ptr<const RecordValidator>> all = {});
    bool validate(const Record& record) const override;
    Bytes sign(const Record& record) const override;
    Bytes strip(const Record& record) const override;
    bool empty() const { return all_.empty(); }

  private:
    std::vector<std::shared_ptr<const RecordValidator>> all_;  // the highest priority first
};

class RsaSignatureValidator final : public RecordValidator {
  public:
    // Without a key it signs nothing.
    explicit RsaSignatureValidator(std::optional<security::RsaPrivateKey> key = std::nullopt);
    // "[owner:ssh-rsa …]", to put into a subkey; empty without a key.
    const std::string& owner_marker() const { return marker_; }

    bool validate(const Record& record) const override;
    Bytes sign(const Record& record) const override;
    Bytes strip(const Record& record) const override;
    int priority() const override { return 10; }  // before whoever reads the value

  private:
    std::optional<security::RsaPrivateKey> key_;
    std::string marker_;
};

// A rule for one value. Numbers are strict: 3 is no float, 3.0 no integer, true neither.
struct ValueRule {
    enum class Kind { anything, nothing, boolean, integer, number, text, bytes, list, map };
    Kind kind = Kind::anything;
    double min = -std::numeric_limits<double>::infinity();
    double max = std::numeric_limits<double>::infinity();
    bool owner = false;                // bytes: must contain an owner marker
    bool or_nothing = false;           // nil will do, too
    std::vector<ValueRule> of{};       // list: of its items, one; map: of the entries named
    std::vector<std::string> names{};  // map: exactly these

    bool fits(const wire::MsgpackValue& value) const;
};

// A rule for what lies under a key: one value, or a dictionary whose subkeys and values fit.
struct FieldRule {
    ValueRule value{};
    std::optional<ValueRule> subkey{};  // with it: a dictionary
};

class SchemaValidator final : public RecordValidator {
  public:
    // `fields`: by the names under which values are stored; with a prefix, "prefix_name".
    explicit SchemaValidator(const std::map<std::string, FieldRule>& fields,
                             bool allow_extra_keys = true,
                             const std::string& prefix = {});
    bool validate(const Record& record) const override;

  private:
    std::map<Bytes, FieldRule> fields_;  // by key
    bool allow_extra_keys_;
};

}  // namespace dedloc::dht
