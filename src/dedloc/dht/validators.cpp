#include "dedloc/dht/validators.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace dedloc::dht {
namespace {

constexpr std::string_view owner_begin = "[owner:";
constexpr std::string_view signature_begin = "[signature:";
// More marks than these in one record are nobody's work but an attacker's.
constexpr std::size_t marks_max = 64;

struct Mark {
    std::size_t begin = 0;  // of the whole mark
    std::size_t end = 0;
    std::string_view inside;
};

// hivemind's regular expression \[name:(.+?)\]: one or more bytes but line ends, up to the first
// "]" after them.
std::vector<Mark> marks_in(std::string_view text, std::string_view begin) {
    std::vector<Mark> marks;
    std::size_t at = 0;
    while (marks.size() < marks_max && (at = text.find(begin, at)) != std::string_view::npos) {
        const std::size_t inside = at + begin.size();
        const std::size_t end = text.find(']', inside + 1);
        const std::size_t line = text.find('\n', inside);
        if (end == std::string_view::npos) break;
        if (line < end) {
            ++at;
            continue;
        }
        marks.push_back({.begin = at, .end = end + 1, .inside = text.substr(inside, end - inside)});
        at = end + 1;
    }
    return marks;
}

// The owners' keys that a record names.
std::set<std::string_view> owners_of(const Record& record) {
    std::set<std::string_view> owners;
    for (const Bytes* part : {&record.key, &record.subkey})
        for (const Mark& mark : marks_in(base::as_text(*part), owner_begin))
            owners.insert(mark.inside);
    return owners;
}

Bytes without_signatures(const Bytes& value) {
    const std::string_view text = base::as_text(value);
    Bytes stripped;
    std::size_t at = 0;
    for (const Mark& mark : marks_in(text, signature_begin)) {
        stripped.insert(stripped.end(),
                        value.begin() + static_cast<std::ptrdiff_t>(at),
                        value.begin() + static_cast<std::ptrdiff_t>(mark.begin));
        at = mark.end;
    }
    stripped.insert(stripped.end(), value.begin() + static_cast<std::ptrdiff_t>(at), value.end());
    return stripped;
}

Bytes signed_message(const Record& record, Bytes value) {
    wire::MsgpackValue::Tuple parts;
    parts.items.emplace_back(record.key);
    parts.items.emplace_back(record.subkey);
    parts.items.emplace_back(std::move(value));
    parts.items.emplace_back(record.expiration);
    return wire::encode_msgpack(std::move(parts));
}

}  // namespace

// ------------------------------------------------------------------------------------------
// several

ValidatorChain::ValidatorChain(std::vector<std::shared_ptr<const RecordValidator>> all)
    : all_(std::move(all)) {
    std::ranges::stable_sort(
        all_, [](const auto& a, const auto& b) { return a->priority() > b->priority(); });
}

bool ValidatorChain::validate(const Record& record) const {
    Record seen = record;
    for (std::size_t i = 0; i < all_.size(); ++i) {
        if (!all_[i]->validate(seen)) return false;
        seen.value = all_[i]->strip(seen);
    }
    return true;
}

Bytes ValidatorChain::sign(const Record& record) const {
    Record made = record;
    for (auto next = all_.rbegin(); next != all_.rend(); ++next) made.value = (*next)->sign(made);
    return made.value;
}

Bytes ValidatorChain::strip(const Record& record) const {
    Record seen = record;
    for (const auto& one : all_) seen.value = one->strip(seen);
    return seen.value;
}

// ----------------------------------------------------------------------------------------
// signatures

RsaSignatureValidator::RsaSignatureValidator(std::optional<security::RsaPrivateKey> key)
    : key_(std::move(key)) {
    if (key_) marker_ = std::string(owner_begin) + key_->public_openssh() + "]";
}

bool RsaSignatureValidator::validate(const Record& record) const {
    const auto owners = owners_of(record);
    if (owners.empty()) return true;
    if (owners.size() > 1) return false;
    const auto signatures = marks_in(base::as_text(record.value), signature_begin);
    if (signatures.size() != 1) return false;
    const auto owner = security::RsaPublicKey::from_openssh(*owners.begin());
    if (!owner) return false;
    const Bytes message = signed_message(record, without_signatures(record.value));
    return owner->verify(message, signatures.front().inside);
}

Bytes RsaSignatureValidator::sign(const Record& record) const {
    const auto names_us = [this](const Bytes& part) {
        return base::as_text(part).find(marker_) != std::string_view::npos;
    };
    if (!key_ || (!names_us(record.key) && !names_us(record.subkey))) return record.value;
    const std::string mark =
        std::string(signature_begin) + key_->sign(signed_message(record, record.value)) + "]";
    Bytes value = record.value;
    value.insert(value.end(), mark.begin(), mark.end());
    return value;
}

Bytes RsaSignatureValidator::strip(const Record& record) const {
    return without_signatures(record.value);
}

// --------------------------------------------------------------------------------------------
// schemas

namespace {

bool map_fits(const ValueRule& rule, const wire::MsgpackValue::Map& map) {
    if (map.entries.size() != rule.names.size()) return false;
    for (std::size_t i = 0; i < rule.names.size(); ++i) {
        const auto entry = std::ranges::find_if(map.entries, [&](const auto& candidate) {
            const auto* name = candidate.first.template get<std::string>();
            return name && *name == rule.names[i];
        });
        if (entry == map.entries.end() || !rule.of[i].fits(entry->second)) return false;
    }
    return true;
}

bool within(const ValueRule& rule, double number) {
    return number >= rule.min && number <= rule.max;
}

}  // namespace

bool ValueRule::fits(const wire::MsgpackValue& value) const {
    if (or_nothing && value.is_nil()) return true;
    switch (kind) {
        case Kind::anything:
            return true;
        case Kind::nothing:
            return value.is_nil();
        case Kind::boolean:
            return value.get<bool>() != nullptr;
        case Kind::integer:
            if (const auto* number = value.get<std::int64_t>())
                return within(*this, static_cast<double>(*number));
            if (const auto* number = value.get<std::uint64_t>())
                return within(*this, static_cast<double>(*number));
            return false;
        case Kind::number: {
            const auto* number = value.get<double>();
            return number && within(*this, *number);
        }
        case Kind::text:
            return value.get<std::string>() != nullptr;
        case Kind::bytes: {
            const auto* found = value.get<Bytes>();
            return found && (!owner || !marks_in(base::as_text(*found), owner_begin).empty());
        }
        case Kind::list: {
            const auto* items = value.get<wire::MsgpackValue::List>();
            return items && std::ranges::all_of(*items, [this](const auto& item) {
                       return of.empty() || of.front().fits(item);
                   });
        }
        case Kind::map: {
            const auto* map = value.get<wire::MsgpackValue::Map>();
            return map && map_fits(*this, *map);
        }
    }
    return false;
}

SchemaValidator::SchemaValidator(const std::map<std::string, FieldRule>& fields,
                                 bool allow_extra_keys,
                                 const std::string& prefix)
    : allow_extra_keys_(allow_extra_keys) {
    for (const auto& [name, rule] : fields)
        fields_.emplace(
            to_bytes(DhtId::of_text(prefix.empty() ? name : prefix + "_" + name).view()), rule);
}

bool SchemaValidator::validate(const Record& record) const {
    const auto field = fields_.find(record.key);
    if (field == fields_.end()) return allow_extra_keys_;
    const FieldRule& rule = field->second;
    const auto value = wire::decode_msgpack(record.value);
    const auto subkey = wire::decode_msgpack(record.subkey);
    if (!value || !subkey) return false;
    const bool is_entry = !subkey->is_nil();
    if (is_entry != rule.subkey.has_value()) return false;
    // A plain map in place of a dictionary is nobody's, whatever the schema.
    if (!is_entry && value->get<wire::MsgpackValue::Map>()) return false;
    return rule.value.fits(*value) && (!is_entry || rule.subkey->fits(*subkey));
}

}  // namespace dedloc::dht
