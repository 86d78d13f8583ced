#include "dedloc/security/record_cipher.h"

#include <algorithm>
#include <openssl/err.h>
#include <openssl/evp.h>

#include "dedloc/base/check.h"
#include "dedloc/security/openssl_fetch.h"
#include "dedloc/security/openssl_size.h"

namespace dedloc::security {
namespace {

const EVP_CIPHER* openssl_cipher(Aead aead) {
    static const EVP_CIPHER* const aes_128 = fetch_cipher("AES-128-GCM");
    static const EVP_CIPHER* const aes_256 = fetch_cipher("AES-256-GCM");
    static const EVP_CIPHER* const chacha = fetch_cipher("ChaCha20-Poly1305");
    if (aead == Aead::aes_128_gcm) return aes_128;
    return aead == Aead::aes_256_gcm ? aes_256 : chacha;
}

class OpenSslCipher final : public RecordCipher {
  public:
    OpenSslCipher(Aead aead, ByteView key, Direction direction)
        : context_(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free) {
        DEDLOC_CHECK(context_ != nullptr && key.size() == key_bytes_of(aead));
        const int seals = direction == Direction::seal ? 1 : 0;
        DEDLOC_CHECK(
            EVP_CipherInit_ex(
                context_.get(), openssl_cipher(aead), nullptr, key.data(), nullptr, seals) == 1);
    }

    void seal(const Nonce& nonce,
              ByteView header,
              ByteView plain,
              std::uint8_t type,
              std::uint8_t* out) override {
        start(nonce, header);
        EVP_CIPHER_CTX* const context = context_.get();
        std::uint8_t* const end = out + plain.size();
        int size = 0;
        const bool sealed =
            (plain.empty() ||
             EVP_CipherUpdate(context, out, &size, plain.data(), openssl_size(plain)) == 1) &&
            EVP_CipherUpdate(context, end, &size, &type, 1) == 1 &&
            EVP_CipherFinal_ex(context, end + 1, &size) == 1 &&
            EVP_CIPHER_CTX_ctrl(
                context, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tls_tag_bytes), end + 1) == 1;
        DEDLOC_CHECK(sealed);
    }

    std::optional<std::uint8_t> open(const Nonce& nonce,
                                     ByteView header,
                                     ByteView body,
                                     std::uint8_t* place) override {
        DEDLOC_CHECK(body.size() > tls_tag_bytes);
        start(nonce, header);
        EVP_CIPHER_CTX* const context = context_.get();
        const ByteView sealed = body.first(body.size() - tls_tag_bytes);
        const ByteView plain = sealed.first(sealed.size() - 1);
        std::array<std::uint8_t, tls_tag_bytes> tag{};
        std::copy_n(sealed.data() + sealed.size(), tag.size(), tag.begin());
        std::uint8_t type = 0;
        int size = 0;
        const bool opened =
            EVP_CIPHER_CTX_ctrl(
                context, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(tag.size()), tag.data()) == 1 &&
            (plain.empty() ||
             EVP_CipherUpdate(context, place, &size, plain.data(), openssl_size(plain)) == 1) &&
            EVP_CipherUpdate(context, &type, &size, &sealed.back(), 1) == 1 &&
            EVP_CipherFinal_ex(context, tag.data(), &size) == 1;
        if (opened) return type;
        ERR_clear_error();
        return std::nullopt;
    }

  private:
    void start(const Nonce& nonce, ByteView header) {
        int size = 0;
        const bool started =
            EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data(), -1) == 1 &&
            EVP_CipherUpdate(context_.get(), nullptr, &size, header.data(), openssl_size(header)) ==
                1;
        DEDLOC_CHECK(started);
    }

    std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> context_;
};

}  // namespace

std::unique_ptr<RecordCipher> make_openssl_cipher(Aead aead, ByteView key, Direction direction) {
    return std::make_unique<OpenSslCipher>(aead, key, direction);
}

std::unique_ptr<RecordCipher> make_record_cipher(Aead aead, ByteView key, Direction direction) {
    if (auto cipher = make_vector_cipher(aead, key, direction)) return cipher;
    return make_openssl_cipher(aead, key, direction);
}

}  // namespace dedloc::security
