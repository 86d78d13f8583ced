#include "dedloc/text/language_tokenizer.h"

#include <algorithm>

#include "dedloc/base/file.h"
#include "dedloc/security/hash.h"
#include "dedloc/text/normalizer.h"
#include "dedloc/text/tokenizer.h"
#include "dedloc/text/tokenizer_json.h"
#include "dedloc/text/utf8.h"

namespace dedloc::text {

namespace {

constexpr std::string_view unknown_character = "\uFFFD";

// A SentencePiece model: a document stands between [CLS] and [SEP].
class PieceTokenizer final : public LanguageTokenizer {
  public:
    explicit PieceTokenizer(std::shared_ptr<const Tokenizer> tokenizer)
        : tokenizer_(std::move(tokenizer)) {}

    void encode(std::string_view text, std::vector<std::uint32_t>& ids) const override {
        tokenizer_->encode(text, ids);
    }
    std::uint32_t size() const override { return tokenizer_->size(); }
    std::string_view piece(std::uint32_t id) const override { return tokenizer_->piece(id); }
    std::uint32_t begin_id() const override { return tokenizer_->special().cls; }
    std::uint32_t end_id() const override { return tokenizer_->special().sep; }
    std::string_view file_name() const override { return "spiece.model"; }

    std::string text_of(std::uint32_t id) const override {
        if (id == tokenizer_->special().unknown) return std::string(unknown_character);
        if (tokenizer_->is_special(id)) return {};
        std::string text;
        std::string_view rest = tokenizer_->piece(id);
        while (!rest.empty()) {
            const bool is_space = rest.starts_with(space_symbol);
            text += is_space ? ' ' : rest.front();
            rest.remove_prefix(is_space ? space_symbol.size() : 1);
        }
        return text;
    }
    bool drops_first_space() const override { return true; }

  private:
    std::shared_ptr<const Tokenizer> tokenizer_;
};

// A protobuf message of pieces begins with 0x0A.
bool is_json(std::string_view file) {
    const std::size_t first = file.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && file[first] == '{';
}

}  // namespace

Result<std::shared_ptr<const LanguageTokenizer>> LanguageTokenizer::parse(ByteView file) {
    std::shared_ptr<LanguageTokenizer> made;
    if (file.size() > tokenizer_bytes_max)
        return make_error(
            ErrorKind::bad_input, "a tokenizer of {} bytes is too large", file.size());
    if (is_json(as_text(file))) {
        DEDLOC_TRY(made, ByteTokenizer::parse(as_text(file)));
    } else {
        DEDLOC_TRY(auto pieces, Tokenizer::parse(file));
        made = std::make_shared<PieceTokenizer>(std::move(pieces));
    }
    made->hash_ = security::sha256(file);
    made->file_ = to_bytes(file);
    return std::shared_ptr<const LanguageTokenizer>(std::move(made));
}

Result<std::shared_ptr<const LanguageTokenizer>> LanguageTokenizer::load(
    const std::string& path, const std::optional<Digest>& expected) {
    DEDLOC_TRY(const std::string file, base::read_file(path, tokenizer_bytes_max));
    DEDLOC_TRY_VOID(check_tokenizer_hash(path, security::sha256(as_bytes(file)), expected));
    auto tokenizer = parse(as_bytes(file));
    if (!tokenizer) return tokenizer.error().with_context(path);
    return tokenizer;
}

std::string LanguageTokenizer::decode(std::span<const std::int64_t> ids) const {
    std::string text;
    for (const std::int64_t id : ids)
        if (id >= 0 && id < static_cast<std::int64_t>(size()))
            text += text_of(static_cast<std::uint32_t>(id));
    if (drops_first_space() && text.starts_with(' ')) text.erase(0, 1);
    return text;
}

std::string TextFromIds::add(std::int64_t id) {
    const bool is_first = text_.empty();
    if (id >= 0 && id < static_cast<std::int64_t>(tokenizer_.size()))
        text_ += tokenizer_.text_of(static_cast<std::uint32_t>(id));
    if (is_first && tokenizer_.drops_first_space() && text_.starts_with(' ')) told_ = 1;
    // A character may be incomplete until the next id.
    std::size_t end = text_.size();
    const std::size_t last = end == 0 ? 0 : character_boundary(text_, end - 1);
    if (last < end && first_character(std::string_view(text_).substr(last)).bytes == 0 &&
        end - last < character_bytes(text_[last]))
        end = last;
    if (end <= told_) return {};
    std::string added = text_.substr(told_, end - told_);
    told_ = end;
    return valid_utf8(added);
}

std::string TextFromIds::finish() {
    std::string rest = text_.substr(std::min(told_, text_.size()));
    told_ = text_.size();
    return valid_utf8(rest);
}

std::string valid_utf8(std::string_view bytes) {
    std::string text;
    while (!bytes.empty()) {
        const std::size_t wrong = first_invalid(bytes).value_or(bytes.size());
        text += bytes.substr(0, wrong);
        bytes.remove_prefix(wrong);
        if (bytes.empty()) break;
        text += unknown_character;
        bytes.remove_prefix(1);
        while (!bytes.empty() && continues_character(bytes.front())) bytes.remove_prefix(1);
    }
    return text;
}

}  // namespace dedloc::text
