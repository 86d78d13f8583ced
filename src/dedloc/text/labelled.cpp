#include "dedloc/text/labelled.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "dedloc/base/composed.h"
#include "dedloc/base/text_lines.h"
#include "dedloc/text/utf8.h"

namespace dedloc::text {

namespace {

Error wrong_line(std::size_t line, std::string_view what) {
    return make_error(ErrorKind::bad_input, "line {}: {}", line, what);
}

// Shows somebody's file in a message.
std::string shown(std::string_view text) {
    constexpr std::size_t letters = 40;
    if (text.size() <= letters) return std::string(text);
    return std::string(text.substr(0, character_boundary(text, letters))) + "…";
}

// Labels that look alike are one, whoever typed them.
Result<std::string> checked_text(std::string_view file) {
    if (file.size() > labelled_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "the file has {} MB, and {} MB are the most",
                          file.size() >> 20,
                          labelled_bytes_max >> 20);
    DEDLOC_TRY(const std::string_view text, base::text_of_file(file));
    return base::composed(text);
}

// ---- entities -----------------------------------------------------------------------------------

bool is_iob2(std::string_view label) {
    if (label == "O") return true;
    return label.size() > 2 && (label[0] == 'B' || label[0] == 'I') && label[1] == '-';
}

class EntityReader {
  public:
    Ok take(std::string_view line, std::size_t number) {
        while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
        if (line.empty()) {
            end_sentence();
            return {};
        }
        const std::size_t gap = line.find_last_of(" \t");
        if (gap == std::string_view::npos)
            return wrong_line(
                number,
                fmt::format("\"{}\" has no label; a line is a word, a blank and its label",
                            shown(line)));
        return take_word(line.substr(0, line.find_first_of(" \t")), line.substr(gap + 1), number);
    }

    void end_sentence() {
        if (!sentence_.words.empty()) file_.sentences.push_back(std::move(sentence_));
        sentence_ = {};
    }

    Result<EntityFile> finish() && {
        end_sentence();
        if (file_.sentences.empty())
            return make_error(ErrorKind::bad_input, "the file has no labelled sentence");
        if (types_.empty())
            return make_error(ErrorKind::bad_input,
                              "every word of the file is labelled O: it names no entity");
        file_.labels = {"O"};
        for (const std::string& type : types_) {
            file_.labels.push_back("B-" + type);
            file_.labels.push_back("I-" + type);
        }
        std::sort(file_.labels.begin() + 1, file_.labels.end());
        return std::move(file_);
    }

  private:
    Ok take_word(std::string_view word, std::string_view label, std::size_t number) {
        if (!is_iob2(label))
            return wrong_line(
                number,
                fmt::format("the label \"{}\" is not IOB2: it must be O, B-TYPE or I-TYPE",
                            shown(label)));
        if (label[0] == 'I') {
            const std::string_view before =
                sentence_.labels.empty() ? "O" : std::string_view(sentence_.labels.back());
            if (before.size() < 2 || before.substr(2) != label.substr(2))
                return wrong_line(number,
                                  fmt::format("\"{}\" follows \"{}\"; in IOB2 an entity begins "
                                              "with B-{}",
                                              shown(label),
                                              shown(before),
                                              shown(label.substr(2))));
        }
        if (label != "O") types_.emplace(label.substr(2));
        if (types_.size() > entity_types_max)
            return wrong_line(number,
                              fmt::format("more than {} types of entities", entity_types_max));
        // WikiANN puts the language before each word.
        const std::size_t colon = word.find(':');
        if (colon != std::string_view::npos && colon >= 2 && colon <= 3 &&
            colon + 1 < word.size() &&
            word.substr(0, colon).find_first_not_of("abcdefghijklmnopqrstuvwxyz") ==
                std::string_view::npos)
            word.remove_prefix(colon + 1);
        sentence_.words.emplace_back(word);
        sentence_.labels.emplace_back(label);
        return {};
    }

    EntityFile file_;
    LabelledSentence sentence_;
    std::set<std::string> types_;
};

// ---- classes ------------------------------------------------------------------------------------

struct CsvRow {
    std::size_t line = 0;  // where it begins
    std::vector<std::string> fields;
};

// RFC 4180, with any separator. Quoted fields may hold line ends.
class CsvReader {
  public:
    CsvReader(std::string_view file, char separator) : file_(file), separator_(separator) {}

    Result<std::optional<CsvRow>> next() {
        while (!file_.empty() && (file_.front() == '\n' || file_.front() == '\r')) skip_line_end();
        if (file_.empty()) return std::optional<CsvRow>();
        CsvRow row{line_, {}};
        for (;;) {
            DEDLOC_TRY(std::string field, take_field());
            row.fields.push_back(std::move(field));
            if (file_.empty() || file_.front() != separator_) break;
            file_.remove_prefix(1);
        }
        if (!file_.empty()) skip_line_end();
        return std::optional<CsvRow>(std::move(row));
    }

  private:
    Result<std::string> take_field() {
        if (!file_.starts_with('"')) {
            const char ends[] = {separator_, '\r', '\n', 0};
            const std::size_t end = std::min(file_.find_first_of(ends), file_.size());
            std::string field(file_.substr(0, end));
            file_.remove_prefix(end);
            return field;
        }
        const std::size_t began = line_;
        std::string field;
        file_.remove_prefix(1);
        for (;;) {
            const std::size_t quote = file_.find('"');
            if (quote == std::string_view::npos)
                return wrong_line(began, "a quotation mark is opened and never closed");
            const std::string_view piece = file_.substr(0, quote);
            line_ += static_cast<std::size_t>(std::ranges::count(piece, '\n'));
            field += piece;
            file_.remove_prefix(quote + 1);
            if (!file_.starts_with('"')) break;
            field += '"';
            file_.remove_prefix(1);
        }
        if (!file_.empty() && file_.front() != separator_ && file_.front() != '\n' &&
            file_.front() != '\r')
            return wrong_line(line_, "something follows a closing quotation mark");
        return field;
    }

    void skip_line_end() {
        file_.remove_prefix(file_.starts_with("\r\n") ? 2 : 1);
        ++line_;
    }

    std::string_view file_;
    char separator_;
    std::size_t line_ = 1;
};

struct CsvColumns {
    std::size_t text = 1;
    std::size_t label = 0;
    bool header = false;
};

std::string lower_ascii(std::string_view text) {
    std::string out(text);
    for (char& letter : out)
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + ('a' - 'A'));
    return out;
}

std::optional<std::size_t> column_named(const CsvRow& row,
                                        std::initializer_list<const char*> names) {
    for (const char* name : names)
        for (std::size_t i = 0; i < row.fields.size(); ++i)
            if (lower_ascii(row.fields[i]) == name) return i;
    return std::nullopt;
}

Result<CsvColumns> find_columns(const CsvRow& first) {
    const auto text = column_named(first, {"text", "sentence", "content", "document"});
    const auto label = column_named(first, {"label", "class", "category", "topic"});
    if (text && label) return CsvColumns{*text, *label, true};
    if (text || label)
        return wrong_line(first.line,
                          text ? "the header names a text and no label: name the column of "
                                 "classes \"label\""
                               : "the header names a label and no text: name the column of texts "
                                 "\"text\"");
    if (first.fields.size() == 2) return CsvColumns{};
    return wrong_line(first.line,
                      fmt::format("{} column(s) and no header with \"text\" and \"label\": two "
                                  "columns without one are a class and a text",
                                  first.fields.size()));
}

char separator_of(std::string_view file) {
    const std::string_view first = file.substr(0, file.find_first_of("\r\n"));
    return first.find('\t') != std::string_view::npos ? '\t' : ',';
}

struct ClassRows {
    std::vector<std::pair<std::string, std::string>> texts;  // with their class
    std::set<std::string> classes;
};

Ok take_row(const CsvRow& row, const CsvColumns& columns, ClassRows& rows) {
    if (row.fields.size() <= std::max(columns.text, columns.label))
        return wrong_line(row.line,
                          fmt::format("{} column(s): \"{}\"; a text or its label is missing",
                                      row.fields.size(),
                                      shown(row.fields.front())));
    const std::string& label = row.fields[columns.label];
    if (label.empty()) return wrong_line(row.line, "the label is empty");
    if (row.fields[columns.text].empty()) return wrong_line(row.line, "the text is empty");
    rows.classes.insert(label);
    if (rows.classes.size() > classes_max)
        return wrong_line(row.line,
                          fmt::format("more than {} different labels: is this the column of "
                                      "classes?",
                                      classes_max));
    rows.texts.emplace_back(row.fields[columns.text], label);
    return {};
}

}  // namespace

Result<EntityFile> parse_entities(std::string_view file) {
    DEDLOC_TRY(const std::string text, checked_text(file));
    std::string_view rest = text;
    EntityReader reader;
    for (std::size_t number = 1; !rest.empty(); ++number)
        DEDLOC_TRY_VOID(reader.take(base::take_line(rest), number));
    return std::move(reader).finish();
}

Result<ClassFile> parse_classes(std::string_view file) {
    DEDLOC_TRY(const std::string whole, checked_text(file));
    CsvReader reader(whole, separator_of(whole));
    std::optional<CsvColumns> columns;
    ClassRows rows;
    for (;;) {
        DEDLOC_TRY(std::optional<CsvRow> row, reader.next());
        if (!row) break;
        if (!columns) {
            DEDLOC_TRY(columns, find_columns(*row));
            if (columns->header) continue;
        }
        DEDLOC_TRY_VOID(take_row(*row, *columns, rows));
    }
    if (rows.texts.empty())
        return make_error(ErrorKind::bad_input, "the file has no labelled text");
    if (rows.classes.size() < 2)
        return make_error(ErrorKind::bad_input,
                          "every text has the label \"{}\": there is nothing to tell apart",
                          shown(*rows.classes.begin()));
    ClassFile result;
    result.classes.assign(rows.classes.begin(), rows.classes.end());
    for (auto& [text, label] : rows.texts) {
        const auto place = std::ranges::lower_bound(result.classes, label);
        result.texts.push_back(
            {std::move(text), static_cast<std::size_t>(place - result.classes.begin())});
    }
    return result;
}

}  // namespace dedloc::text
