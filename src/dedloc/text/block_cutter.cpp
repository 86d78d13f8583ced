#include "dedloc/text/block_cutter.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dedloc/text/utf8.h"

namespace dedloc::text {

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::size_t sentence_search_bytes = 1024;

// As old Macs did it. CR before LF is white space.
bool ends_lines_with_cr(std::string_view text) {
    return text.find('\n') == std::string_view::npos && text.find('\r') < text.size() - 1;
}

bool is_blank(std::string_view line) { return without_surrounding_space(line).empty(); }

// Each finder: a place in (from, to], or 0.

std::size_t last_blank_line(std::string_view text, std::size_t from, std::size_t to) {
    std::size_t end = to;
    while (end > from) {
        const std::size_t newline = text.rfind('\n', end - 1);
        if (newline == std::string_view::npos || newline + 1 <= from) return 0;
        const std::size_t before =
            newline == 0 ? std::string_view::npos : text.rfind('\n', newline - 1);
        const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
        if (is_blank(text.substr(begin, newline - begin))) return newline + 1;
        end = begin;
    }
    return 0;
}

std::size_t last_newline(std::string_view text, std::size_t from, std::size_t to) {
    const std::size_t at = text.find_last_of('\n', to - 1);
    return at == std::string_view::npos || at + 1 <= from ? 0 : at + 1;
}

std::size_t last_sentence_end_after(std::string_view text, std::size_t from, std::size_t to) {
    std::size_t best = 0;
    std::size_t at = character_boundary(text, from);
    while (at < to) {
        const std::size_t end = at + sentence_end(text.substr(at, to - at));
        if (end >= to) break;  // an end because the view ends is none
        best = at = end;
    }
    return best;
}

std::size_t last_sentence_end(std::string_view text, std::size_t from, std::size_t to) {
    // Most blocks have one in their last bytes; looking at all of them takes ten times as long.
    const std::size_t near = std::max(from, to - std::min(to, sentence_search_bytes));
    const std::size_t end = last_sentence_end_after(text, near, to);
    return end != 0 || near == from ? end : last_sentence_end_after(text, from, to);
}

std::size_t last_space(std::string_view text, std::size_t from, std::size_t to) {
    const std::size_t at = text.find_last_of(" \t\n", to - 1);
    return at == std::string_view::npos || at + 1 <= from ? 0 : at + 1;
}

}  // namespace

std::size_t cut_text(std::string_view text, std::size_t target, const SourceConfig& config) {
    const std::size_t to = std::min(text.size(), target);
    const std::size_t from = to / 2;
    const bool by_line =
        config.documents == DocumentUnit::line || config.sentences == SentenceRule::line;
    const auto first_of = [&](auto... finders) {
        std::size_t cut = 0;
        ((cut = cut != 0 ? cut : finders(text, from, to)), ...);
        return cut;
    };
    std::size_t cut = config.documents == DocumentUnit::line ? first_of(last_newline)
                      : by_line ? first_of(last_blank_line, last_newline)
                                : first_of(last_blank_line, last_sentence_end, last_newline);
    if (cut == 0) cut = last_space(text, from, to);
    if (cut == 0) cut = character_boundary(text, to);
    return std::max<std::size_t>(cut, std::min(text.size(), character_bytes(text[0])));
}

Ok BlockCutter::add(std::string_view piece, std::uint32_t file, std::vector<Block>& blocks) {
    if (bytes() == 0 && (piece.starts_with("\xFF\xFE") || piece.starts_with("\xFE\xFF")))
        return make_error(ErrorKind::bad_input,
                          "{} is UTF-16; convert the file (iconv -f utf-16 -t utf-8) or take it "
                          "away",
                          path_);
    if (bytes() == 0 && piece.starts_with(byte_order_mark)) {
        offset_ = byte_order_mark.size();
        piece.remove_prefix(byte_order_mark.size());
    }
    buffer_ += piece;
    while (true) {
        DEDLOC_TRY(const std::size_t cut, next_cut(false));
        if (cut == 0) break;
        DEDLOC_TRY_VOID(emit(cut, file, blocks));
    }
    buffer_.erase(0, begin_);
    begin_ = 0;
    return {};
}

Ok BlockCutter::finish(std::uint32_t file, std::vector<Block>& blocks) {
    while (!rest().empty()) {
        DEDLOC_TRY(const std::size_t cut, next_cut(true));
        DEDLOC_TRY_VOID(emit(cut, file, blocks));
    }
    return {};
}

Result<std::size_t> BlockCutter::next_cut(bool at_end) const {
    const std::string_view text = rest();
    if (config_.format != SourceFormat::json_lines) {
        // A character more than the target, so that a cut never splits the last one.
        if (text.size() > target_ + 4) return cut_text(text, target_, config_);
        return at_end ? text.size() : 0;
    }
    if (text.size() > target_) {
        const std::size_t newline = text.find('\n', target_ - 1);
        const std::size_t last = text.rfind('\n', target_ - 1);
        const std::size_t begin = last == std::string_view::npos ? 0 : last + 1;
        if (std::min(newline, text.size()) - begin > json_line_bytes_max)
            return make_error(ErrorKind::bad_input,
                              "{}: the line at byte {} is longer than {} MiB; are these JSON "
                              "lines, one record a line?",
                              path_,
                              offset_ + begin,
                              json_line_bytes_max >> 20);
        if (newline != std::string_view::npos) return newline + 1;
    }
    return at_end ? text.size() : 0;
}

Ok BlockCutter::check(std::string_view text) const {
    if (const auto at = first_invalid(text))
        return make_error(ErrorKind::bad_input,
                          "{}: byte {} is not UTF-8; convert the file (iconv -f latin1 -t utf-8) "
                          "or take it away",
                          path_,
                          offset_ + *at);
    if (const std::size_t at = text.find('\0'); at != std::string_view::npos)
        return make_error(ErrorKind::bad_input,
                          "{}: byte {} is zero, so this is no text; take the file away",
                          path_,
                          offset_ + at);
    if (offset_ <= byte_order_mark.size() && ends_lines_with_cr(text))
        return make_error(ErrorKind::bad_input,
                          "{}: its lines end with CR alone, so that all of it is one line; convert "
                          "the file (tr '\\r' '\\n')",
                          path_);
    // The first record tells whether the field's name is right; others are looked at when read.
    if (config_.format == SourceFormat::json_lines && offset_ <= byte_order_mark.size()) {
        const auto lines = lines_of(text);
        if (lines.empty()) return {};
        if (const auto record = text_of_json_line(lines.front(), config_.field); !record)
            return record.error().with_context(fmt::format("{}, first line", path_));
    }
    return {};
}

Ok BlockCutter::emit(std::size_t bytes, std::uint32_t file, std::vector<Block>& blocks) {
    const std::string_view text = rest().substr(0, bytes);
    DEDLOC_TRY_VOID(check(text));
    if (!without_surrounding_space(text).empty()) {
        if (blocks.size() == blocks_max)
            return make_error(ErrorKind::bad_input,
                              "{}: more than {} blocks of text; make blocks larger",
                              path_,
                              blocks_max);
        blocks.push_back({offset_, static_cast<std::uint32_t>(bytes), file});
    }
    begin_ += bytes;
    offset_ += bytes;
    return {};
}

Result<std::string> text_of_json_line(std::string_view line, const std::string& field) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_discarded() || !record.is_object())
        return make_error(ErrorKind::bad_input, "not a JSON record ({{\"{}\": \"…\"}})", field);
    const auto found = record.find(field);
    if (found == record.end() || !found->is_string()) {
        std::string fields;
        for (const auto& [name, value] : record.items())
            if (value.is_string() && fields.size() < 200)
                fields += (fields.empty() ? "" : ", ") + name;
        return make_error(ErrorKind::bad_input,
                          "no field '{}' with text (fields with text: {}); name the right one "
                          "with ?field=NAME",
                          field,
                          fields.empty() ? "none" : fields);
    }
    return found->get<std::string>();
}

}  // namespace dedloc::text
