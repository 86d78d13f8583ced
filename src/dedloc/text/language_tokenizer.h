// A tokenizer of language models: text to ids and back, without loss where the model is of bytes.
//
//   tokenizer.json   byte-pair encoding, of bytes (GPT-2, Llama 3, Qwen, SmolLM) or of characters
//                    with bytes for what has no piece (Llama 2): byte_pairs.h
//   *.model          SentencePiece unigram: tokenizer.h. It normalizes, so what comes back may be
//                    written otherwise than what went in
//
// The file's SHA-256 names the tokenizer in the run file, as in tokenizer.h.
//
// Thread: any; immutable. Errors: bad_input    not a tokenizer; which part of it is wrong
//                                 unsupported  a part that is known and not read here
//                                 conflict     another hash than the run's

#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::text {

class LanguageTokenizer {
  public:
    virtual ~LanguageTokenizer() = default;
    static Result<std::shared_ptr<const LanguageTokenizer>> parse(ByteView file);
    static Result<std::shared_ptr<const LanguageTokenizer>> load(
        const std::string& path, const std::optional<Digest>& expected = std::nullopt);

    // Appends the ids of a text, which is UTF-8. Special pieces by their names in the text become
    // their ids, as in the `tokenizers` package.
    virtual void encode(std::string_view text, std::vector<std::uint32_t>& ids) const = 0;
    // Special pieces and ids out of range give nothing. The bytes may end within a character.
    std::string decode(std::span<const std::int64_t> ids) const;
    // Returns what one id adds to a text: as decode, but for the first space.
    virtual std::string text_of(std::uint32_t id) const = 0;
    // A text's first word carries a space that decode takes away.
    virtual bool drops_first_space() const = 0;
    virtual std::uint32_t size() const = 0;  // ids are below
    virtual std::string_view piece(std::uint32_t id) const = 0;
    // Bytes of text that this id stands for; 0 for special ones.
    std::size_t bytes_of(std::uint32_t id) const { return text_of(id).size(); }
    // Stand before and behind every document; often the same.
    virtual std::uint32_t begin_id() const = 0;
    virtual std::uint32_t end_id() const = 0;
    // The name that other programs look for.
    virtual std::string_view file_name() const = 0;

    const Digest& hash() const { return hash_; }
    const Bytes& file() const { return file_; }

    std::vector<std::uint32_t> encode(std::string_view text) const {
        std::vector<std::uint32_t> ids;
        encode(text, ids);
        return ids;
    }

  private:
    Digest hash_;
    Bytes file_;
};

// With U+FFFD in the place of what is none.
std::string valid_utf8(std::string_view bytes);

// Text that comes id by id: complete characters as soon as they are there.
class TextFromIds {
  public:
    explicit TextFromIds(const LanguageTokenizer& tokenizer) : tokenizer_(tokenizer) {}
    // Returns the text that this id adds; empty while a character is incomplete.
    std::string add(std::int64_t id);
    // Returns the rest; an incomplete character becomes U+FFFD.
    std::string finish();

  private:
    const LanguageTokenizer& tokenizer_;
    std::string text_;      // of all ids, with the first space
    std::size_t told_ = 0;  // bytes of text_, or not to be told
};

}  // namespace dedloc::text
