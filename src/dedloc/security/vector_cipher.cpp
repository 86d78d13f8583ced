// AES-GCM by Intel's multi-buffer library, where it was measured to be faster than OpenSSL: with
// 512-bit vectors, and on processors without those that have instructions for SHA. Elsewhere
// (another architecture, an older processor, a build without the library) OpenSSL does the work.

#include "dedloc/security/record_cipher.h"

#ifdef DEDLOC_IPSEC_MB

#include <openssl/crypto.h>

#include "dedloc/base/check.h"
#include "dedloc/security/ipsec_mb.h"

namespace dedloc::security {
namespace {

// The library's functions for one length of key.
struct Functions {
    decltype(IMB_MGR::gcm128_pre) expand_key;
    decltype(IMB_MGR::gcm128_init) begin;
    decltype(IMB_MGR::gcm128_enc_update) encrypt;
    decltype(IMB_MGR::gcm128_dec_update) decrypt;
    decltype(IMB_MGR::gcm128_enc_finalize) end_encryption;
    decltype(IMB_MGR::gcm128_dec_finalize) end_decryption;
};

// Null: OpenSSL is as fast on this processor. The manager lives as long as the process: it holds
// the choice of functions, and nothing of any connection.
const IMB_MGR* manager() {
    static const IMB_MGR* const chosen = []() -> const IMB_MGR* {
        IMB_ARCH architecture = IMB_ARCH_NONE;
        VectorManager all = make_vector_manager(architecture);
        if (!all) return nullptr;
        const std::uint64_t needed =
            architecture == IMB_ARCH_AVX512 ? IMB_FEATURE_VAES : IMB_FEATURE_SHANI;
        return (all->features & needed) != 0 ? all.release() : nullptr;
    }();
    return chosen;
}

Functions functions_for(const IMB_MGR& all, Aead aead) {
    if (aead == Aead::aes_128_gcm)
        return {all.gcm128_pre,
                all.gcm128_init,
                all.gcm128_enc_update,
                all.gcm128_dec_update,
                all.gcm128_enc_finalize,
                all.gcm128_dec_finalize};
    return {all.gcm256_pre,
            all.gcm256_init,
            all.gcm256_enc_update,
            all.gcm256_dec_update,
            all.gcm256_enc_finalize,
            all.gcm256_dec_finalize};
}

class VectorCipher final : public RecordCipher {
  public:
    VectorCipher(const Functions& functions, ByteView key) : do_(functions) {
        do_.expand_key(key.data(), &key_);
    }
    ~VectorCipher() override {
        OPENSSL_cleanse(&key_, sizeof key_);
        OPENSSL_cleanse(&context_, sizeof context_);
    }
    VectorCipher(const VectorCipher&) = delete;
    VectorCipher& operator=(const VectorCipher&) = delete;

    void seal(const Nonce& nonce,
              ByteView header,
              ByteView plain,
              std::uint8_t type,
              std::uint8_t* out) override {
        do_.begin(&key_, &context_, nonce.data(), header.data(), header.size());
        if (!plain.empty()) do_.encrypt(&key_, &context_, out, plain.data(), plain.size());
        std::uint8_t* const end = out + plain.size();
        do_.encrypt(&key_, &context_, end, &type, 1);
        do_.end_encryption(&key_, &context_, end + 1, tls_tag_bytes);
    }

    std::optional<std::uint8_t> open(const Nonce& nonce,
                                     ByteView header,
                                     ByteView body,
                                     std::uint8_t* place) override {
        DEDLOC_CHECK(body.size() > tls_tag_bytes);
        const ByteView sealed = body.first(body.size() - tls_tag_bytes);
        const std::size_t plain_bytes = sealed.size() - 1;
        std::uint8_t type = 0;
        std::array<std::uint8_t, tls_tag_bytes> tag{};
        do_.begin(&key_, &context_, nonce.data(), header.data(), header.size());
        if (plain_bytes > 0) do_.decrypt(&key_, &context_, place, sealed.data(), plain_bytes);
        do_.decrypt(&key_, &context_, &type, &sealed.back(), 1);
        do_.end_decryption(&key_, &context_, tag.data(), tag.size());
        // In a time that does not tell how much of the tag was right.
        if (CRYPTO_memcmp(tag.data(), sealed.data() + sealed.size(), tag.size()) != 0)
            return std::nullopt;
        return type;
    }

  private:
    Functions do_;
    // The library writes whole vectors, and its types do not say so.
    alignas(64) gcm_key_data key_{};
    alignas(64) gcm_context_data context_{};
};

}  // namespace

std::unique_ptr<RecordCipher> make_vector_cipher(Aead aead, ByteView key, Direction) {
    DEDLOC_CHECK(key.size() == key_bytes_of(aead));
    if (aead == Aead::chacha20_poly1305 || manager() == nullptr) return nullptr;
    return std::make_unique<VectorCipher>(functions_for(*manager(), aead), key);
}

}  // namespace dedloc::security

#else

namespace dedloc::security {

std::unique_ptr<RecordCipher> make_vector_cipher(Aead, ByteView, Direction) { return nullptr; }

}  // namespace dedloc::security

#endif
