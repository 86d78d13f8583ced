// The cost of checking signatures by a stranger's RSA key follows from its size and its exponent.

#pragma once
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

#include "dedloc/security/identity.h"

namespace dedloc::security {

inline bool has_short_exponent(const EVP_PKEY* rsa) {
    BIGNUM* exponent = nullptr;
    if (EVP_PKEY_get_bn_param(rsa, OSSL_PKEY_PARAM_RSA_E, &exponent) != 1) return false;
    const int bits = BN_num_bits(exponent);
    BN_free(exponent);
    return bits <= rsa_exponent_bits_max;
}

}  // namespace dedloc::security
