#include "dedloc/run/ascii_toml.h"

#include <cstdint>

namespace dedloc::run {
namespace {

class TextGuard {
  public:
    TextGuard(std::string_view text, std::string_view file) : text_(text), file_(file) {}

    Result<std::string> ascii() {
        for (; at_ < text_.size(); ++at_) {
            const char c = text_[at_];
            if (c == '\n') {
                ++line_;
                line_begin_ = at_ + 1;
                quote_ = 0;
                comment_ = false;
            } else if (is_control(c)) {
                return complaint("control characters have no place here");
            } else if (static_cast<unsigned char>(c) >= 128) {
                DEDLOC_TRY_VOID(foreign_letter());
                continue;
            } else if (!comment_ && quote_ != 0) {
                inside_quotes(c);
            } else if (!comment_) {
                DEDLOC_TRY_VOID(outside(c));
            }
            out_ += c;
        }
        return std::move(out_);
    }

  private:
    static bool is_control(char c) {
        const auto byte = static_cast<unsigned char>(c);
        return (byte < 32 && c != '\t' && c != '\r') || byte == 127;
    }
    Error complaint(std::string_view sentence) const {
        return make_error(
            ErrorKind::bad_input, "{}:{}:{}: {}", file_, line_, at_ - line_begin_ + 1, sentence);
    }
    Ok outside(char c) {
        comment_ = c == '#';
        if (c == '[' && !begins_line()) return complaint("lists have no place here");
        if (c == '{' || c == '}')
            return complaint("braces have no place here; a section begins with a line [name]");
        if (c == '[' && !name_follows()) return complaint("after '[' comes the name of a section");
        if (c != '"' && c != '\'') return {};
        if (text_.substr(at_, 3) == std::string(3, c))
            return complaint("texts stay on one line, between single quotes");
        quote_ = c;
        return {};
    }
    bool begins_line() const {
        const auto before = text_.substr(line_begin_, at_ - line_begin_);
        return before.find_first_not_of(" \t") == std::string_view::npos;
    }
    bool name_follows() const {
        const std::size_t next = text_.find_first_not_of(" \t", at_ + 1);
        const char c = next == std::string_view::npos ? '\0' : text_[next];
        return c == ']' || c == '"' || c == '\'' || c == '_' || c == '-' ||
               (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    }
    void inside_quotes(char c) {
        if (escaped_)
            escaped_ = false;
        else if (c == '\\' && quote_ == '"')
            escaped_ = true;
        else if (c == quote_)
            quote_ = 0;
    }
    // One letter of UTF-8, from its first byte on.
    Ok foreign_letter() {
        const auto first = static_cast<unsigned char>(text_[at_]);
        const std::size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        std::uint32_t letter = first & (0x3fu >> more);
        if (first < 0xc2 || first > 0xf4 || text_.size() - at_ <= more)
            return complaint("this is not UTF-8");
        for (std::size_t i = 1; i <= more; ++i) {
            const auto byte = static_cast<unsigned char>(text_[at_ + i]);
            if ((byte & 0xc0) != 0x80) return complaint("this is not UTF-8");
            letter = (letter << 6) | (byte & 0x3f);
        }
        constexpr std::uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
        if (letter < smallest[more] || letter > 0x10ffff || (letter >= 0xd800 && letter <= 0xdfff))
            return complaint("this is not UTF-8");
        if (comment_)
            out_ += '?';
        else if (quote_ == '"' && !escaped_)
            out_ += fmt::format("\\U{:08x}", letter);
        else
            return complaint("letters beyond ASCII belong in double quotes");
        at_ += more;
        return {};
    }

    std::string_view text_;
    std::string_view file_;
    std::string out_;
    std::size_t at_ = 0;
    std::size_t line_ = 1;
    std::size_t line_begin_ = 0;
    char quote_ = 0;  // the quote we are in, or 0
    bool escaped_ = false;
    bool comment_ = false;
};

}  // namespace

Result<std::string> ascii_toml(std::string_view text, std::string_view file_name) {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // some editors write it
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    return TextGuard(text, file_name).ascii();
}

}  // namespace dedloc::run
