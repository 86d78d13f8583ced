// RSA-PSS as hivemind signs records of its table: SHA-256, MGF1 of SHA-256, the longest salt; keys
// as OpenSSH writes them ("ssh-rsa AAAA…"), signatures in base64.
//
// The record says beside it whose key it is; it is no PeerId.
//
// Errors: bad_input: not such a key, or one that costs too much to check by (rsa_bits_max,
// rsa_exponent_bits_max). Cost: 40 µs a check, 1 ms a signature of 2048 bits, 100 ms a new key.
// Thread: any.

#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

struct evp_pkey_st;

namespace dedloc::security {

class RsaPublicKey {
  public:
    static Result<RsaPublicKey> from_openssh(std::string_view text);

    // `signature` is base64 text.
    bool verify(ByteView message, std::string_view signature) const;

  private:
    explicit RsaPublicKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}
    std::shared_ptr<evp_pkey_st> key_;
};

class RsaPrivateKey {
  public:
    static RsaPrivateKey generate();  // 2048 bits

    std::string public_openssh() const;
    std::string sign(ByteView message) const;  // base64

  private:
    explicit RsaPrivateKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}
    std::shared_ptr<evp_pkey_st> key_;
};

}  // namespace dedloc::security
