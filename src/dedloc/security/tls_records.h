// The records of a TLS 1.3 connection after its handshake, one direction each: sealed from and
// opened to where the bytes lie. OpenSSL's own record layer copies each byte twice more, and holds
// 40 KiB a connection.
//
//   TlsRecords sending(*suite, secret, TlsRecords::Direction::seal);
//   sending.seal(TlsContent::application_data, plain, output);   // ≤ tls_record_bytes_max
//   receiving.open(record, place);                               // header and all
//
// Source: RFC 8446 §5 (records), §7.1 to §7.3 (keys), §4.6.3 and §7.2 (key update).
// Cost: one pass of the cipher; 0.3 µs a record. Thread: any one at a time.
// Errors: peer_broke_protocol.

#pragma once
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "dedloc/base/bytes.h"
#include "dedloc/security/output_buffer.h"
#include "dedloc/security/record_cipher.h"

struct evp_md_st;

namespace dedloc::security {

// Plaintext of one record.
inline constexpr std::size_t tls_record_bytes_max = 16 * 1024;
inline constexpr std::size_t tls_header_bytes = 5;
// A peer's record may have this beyond its plaintext: type, padding, tag (RFC 8446 §5.2).
inline constexpr std::size_t tls_record_expansion_max = 256;

enum class TlsContent : std::uint8_t {
    change_cipher_spec = 20,
    alert = 21,
    handshake = 22,
    application_data = 23,
};

struct TlsSuite {
    Aead aead;
    const evp_md_st* hash;

    // By its standard name ("TLS_AES_128_GCM_SHA256"); nullopt for others than the three.
    static std::optional<TlsSuite> by_name(std::string_view name);
};

class TlsRecords {
  public:
    using Direction = security::Direction;

    // `secret`: the traffic secret of this direction.
    TlsRecords(const TlsSuite& suite, Bytes secret, Direction direction);
    ~TlsRecords();
    TlsRecords(TlsRecords&&) noexcept;
    TlsRecords& operator=(TlsRecords&&) noexcept;

    // Appends one record with all of `plain`, at most tls_record_bytes_max.
    void seal(TlsContent type, ByteView plain, OutputBuffer& out);

    // The whole size of the record that begins here; 0: its header is not complete.
    static Result<std::size_t> record_size(ByteView bytes);

    struct Opened {
        TlsContent type;
        ByteView plain;  // lies in `place`
    };
    // Room that open() needs for this record.
    static std::size_t room_for(ByteView record) {
        return record.size() - tls_header_bytes - tls_tag_bytes - 1;
    }
    // Decrypts one whole record into `place`. On an error `place` may be written to, and means
    // nothing.
    Result<Opened> open(ByteView record, std::span<std::uint8_t> place);

    // The next generation of keys.
    void update_key();

  private:
    Bytes expand(std::string_view label, std::size_t size) const;
    void make_key();
    RecordCipher::Nonce next_nonce();

    TlsSuite suite_;
    Direction direction_;
    Bytes secret_;
    std::unique_ptr<RecordCipher> cipher_;
    RecordCipher::Nonce iv_{};
    std::uint64_t sequence_ = 0;
};

}  // namespace dedloc::security
