// Hashes, message authentication and the operating system's randomness.
//
// SHA-256 names states, plans and certificates; SHA-1 only places keys in hivemind's DHT, where
// its weakness costs nothing that Kademlia does not give away anyway. Never use SHA-1 elsewhere.
//
// Source: FIPS 180-4, RFC 2104. Cost: hash_bench.cpp. Thread: any.
// Errors: none; a failing library or entropy source stops the program, as nothing may go on then.

#pragma once
#include <array>
#include <functional>
#include <memory>
#include <span>

#include "dedloc/base/bytes.h"

struct evp_md_ctx_st;

namespace dedloc::security {

using Sha1 = std::array<std::uint8_t, 20>;

Digest sha256(ByteView bytes);
Sha1 sha1(ByteView bytes);
Digest hmac_sha256(ByteView key, ByteView message);

// Compares without telling by its duration where the bytes differ; unequal sizes are unequal.
bool equal_in_constant_time(ByteView a, ByteView b);

// SHA-256 of bytes that come in pieces.
class Sha256 {
  public:
    Sha256();
    ~Sha256();
    Sha256(Sha256&&) noexcept;
    Sha256& operator=(Sha256&&) noexcept;

    Sha256& update(ByteView bytes);
    Sha256& update(std::string_view text) { return update(as_bytes(text)); }
    Digest finish();  // and start again, empty

  private:
    struct Free {
        void operator()(evp_md_ctx_st* context) const;
    };
    std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Fills `out` with unpredictable bytes. Everything that needs secrets takes a RandomFill, so that
// a simulation can give it repeatable ones.
using RandomFill = std::function<void(std::span<std::uint8_t> out)>;
void secure_random(std::span<std::uint8_t> out);
Bytes secure_random(std::size_t count);
inline RandomFill secure_random_fill() {
    return [](std::span<std::uint8_t> out) { secure_random(out); };
}

}  // namespace dedloc::security
