// OpenSSL's algorithms by name. Fetch each once and keep it: looking one up costs more than a small
// message or record.

#pragma once
#include <openssl/evp.h>

#include "dedloc/base/check.h"

namespace dedloc::security {

inline EVP_CIPHER* fetch_cipher(const char* name) {
    EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, name, nullptr);
    DEDLOC_CHECK(cipher != nullptr, "OpenSSL has no {}", name);
    return cipher;
}

inline EVP_MD* fetch_hash(const char* name) {
    EVP_MD* const hash = EVP_MD_fetch(nullptr, name, nullptr);
    DEDLOC_CHECK(hash != nullptr, "OpenSSL has no {}", name);
    return hash;
}

}  // namespace dedloc::security
