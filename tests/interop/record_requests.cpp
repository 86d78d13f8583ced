#include "record_requests.h"

#include "dedloc/dht/validators.h"

namespace dedloc::interop {
namespace {

using nlohmann::json;

constexpr WallSeconds record_expiration = 1234567.5;

// A trainer's progress as hivemind's optimizer checks it, and two numbers.
std::map<std::string, dht::FieldRule> fields() {
    using Kind = dht::ValueRule::Kind;
    const dht::ValueRule natural{.kind = Kind::integer, .min = 0};
    const dht::ValueRule positive{.kind = Kind::number, .min = 0};
    const dht::ValueRule progress{.kind = Kind::map,
                                  .or_nothing = true,
                                  .of = {{.kind = Kind::bytes},
                                         natural,
                                         natural,
                                         positive,
                                         {.kind = Kind::number},
                                         {.kind = Kind::boolean}},
                                  .names = {"peer_id",
                                            "epoch",
                                            "samples_accumulated",
                                            "samples_per_second",
                                            "time",
                                            "client_mode"}};
    const dht::ValueRule owner{.kind = Kind::bytes, .owner = true};
    return {{"progress", {.value = progress, .subkey = owner}},
            {"count", {.value = natural}},
            {"rate", {.value = positive}}};
}

struct Checking {
    std::shared_ptr<dht::RsaSignatureValidator> rsa =
        std::make_shared<dht::RsaSignatureValidator>(security::RsaPrivateKey::generate());
    dht::ValidatorChain all{{std::make_shared<dht::SchemaValidator>(fields(), true, "run"), rsa}};
};

Checking& checking() {
    static Checking one;
    return one;
}

dht::Record record_from(const json& parts) {
    const auto bytes = [&](std::size_t at) {
        return base::from_hex(parts.at(at).get<std::string>()).value();
    };
    return {
        .key = bytes(0), .subkey = bytes(1), .value = bytes(2), .expiration = record_expiration};
}

}  // namespace

std::optional<Result<json>> serve_records(const json& request) {
    const std::string what = request.value("do", std::string());
    Checking& own = checking();
    if (what == "record_owner")
        return json{{"owner", base::to_hex(base::as_bytes(own.rsa->owner_marker()))}};
    json answers = json::array();
    if (what == "record_sign") {
        for (const json& parts : request.at("records"))
            answers.push_back(base::to_hex(own.all.sign(record_from(parts))));
        return json{{"values", answers}};
    }
    if (what == "record_validate") {
        for (const json& parts : request.at("records"))
            answers.push_back(own.all.validate(record_from(parts)));
        return json{{"accepted", answers}};
    }
    return std::nullopt;
}

}  // namespace dedloc::interop
