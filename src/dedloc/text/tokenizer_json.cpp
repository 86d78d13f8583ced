#include "dedloc/text/tokenizer_json.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "dedloc/text/normalizer.h"
#include "dedloc/text/recipe.h"
#include "dedloc/text/tokenizer.h"
#include "dedloc/text/unicode_classes.h"
#include "dedloc/text/utf8.h"

namespace dedloc::text {

namespace {

using nlohmann::json;

constexpr std::string_view ends[] = {
    "<|endoftext|>", "</s>", "<|end_of_text|>", "<|eot_id|>", "<eos>", "[SEP]"};
constexpr std::string_view begins[] = {"<|begin_of_text|>", "<s>", "<bos>", "[CLS]"};

template <typename... Args>
Error not_read(fmt::format_string<Args...> text, Args&&... args) {
    return make_error(ErrorKind::unsupported,
                      "tokenizer.json: {}; read are byte-pair encodings such as those of GPT-2, "
                      "Llama, Qwen and SmolLM",
                      fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
Error wrong(fmt::format_string<Args...> text, Args&&... args) {
    return make_error(
        ErrorKind::bad_input, "tokenizer.json: {}", fmt::format(text, std::forward<Args>(args)...));
}

std::string text_in(const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool flag_in(const json& object, const char* key, bool otherwise = false) {
    const auto found = object.find(key);
    return found != object.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

const json& part_of(const json& object, const char* key) {
    static const json nothing;
    const auto found = object.find(key);
    return found == object.end() ? nothing : *found;
}

// "type" of a part, for people.
std::string kind_of(const json& part) {
    return part.is_object() ? text_in(part, "type").substr(0, 40) : std::string("of no kind");
}

Result<std::uint32_t> id_from(const json& value) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= vocabulary_max)
        return wrong("an id is no number below {}", vocabulary_max);
    return value.get<std::uint32_t>();
}

void append_utf8(char32_t code, std::string& out) {
    const auto byte = [&](char32_t bits) { out += static_cast<char>(bits); };
    if (code < 0x80) return byte(code);
    byte(0xC0 | code >> 6);  // letters of bytes end below U+0800
    byte(0x80 | (code & 0x3F));
}

std::string in_letters(std::string_view bytes) {
    std::string out;
    for (const char byte : bytes)
        append_utf8(letters_of_bytes()[static_cast<unsigned char>(byte)], out);
    return out;
}

// Nothing: it has a letter that stands for no byte.
std::optional<std::string> from_letters(std::string_view text) {
    static const auto bytes = [] {
        std::unordered_map<char32_t, char> map;
        for (std::size_t byte = 0; byte < 256; ++byte)
            map[letters_of_bytes()[byte]] = static_cast<char>(byte);
        return map;
    }();
    std::string out;
    while (!text.empty()) {
        const Character letter = first_character(text);
        const auto found = bytes.find(letter.code);
        if (letter.bytes == 0 || found == bytes.end()) return std::nullopt;
        out += found->second;
        text.remove_prefix(letter.bytes);
    }
    return out;
}

// <0x0A>; nothing: another piece.
std::optional<std::uint8_t> byte_of_piece(std::string_view piece) {
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
    std::uint8_t value = 0;
    const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
    if (error != std::errc{} || end != piece.data() + 5) return std::nullopt;
    return value;
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
    std::string out;
    std::string_view rest = text;
    for (std::size_t at = rest.find(what); at != std::string_view::npos; at = rest.find(what)) {
        out.append(rest.substr(0, at)).append(by);
        rest.remove_prefix(at + what.size());
    }
    text = out.append(rest);
}

std::vector<json> sequence_of(const json& part, const char* list) {
    if (part.is_null()) return {};
    if (text_in(part, "type") != "Sequence") return {part};
    const json& items = part_of(part, list);
    return items.is_array() ? items.get<std::vector<json>>() : std::vector<json>{json::object()};
}

std::vector<std::string_view> words_of(std::string_view text, const WordCutting& cutting) {
    std::vector<std::string_view> words;
    if (cutting.splits_at_space) {
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t next = text.find(cutting.space, begin + 1);
            const std::size_t end = std::min(next, text.size());
            words.push_back(text.substr(begin, end - begin));
            begin = end;
        }
    } else if (cutting.pattern) {
        std::vector<std::string_view> pieces;
        if (cutting.digits_alone)
            split_digits(text, pieces);
        else
            pieces.push_back(text);
        for (const std::string_view piece : pieces) split_words(piece, *cutting.pattern, words);
    } else if (cutting.digits_alone) {
        split_digits(text, words);
    } else {
        words.push_back(text);
    }
    return words;
}

}  // namespace

// One pass over the file; its parts become those of the tokenizer.
class TokenizerJsonReader {
  public:
    Result<std::shared_ptr<LanguageTokenizer>> read(std::string_view text) {
        const json file = json::parse(text.begin(), text.end(), nullptr, false);
        if (!file.is_object()) return wrong("not a JSON object");
        DEDLOC_TRY_VOID(read_normalizer(part_of(file, "normalizer")));
        DEDLOC_TRY_VOID(read_pre_tokenizer(part_of(file, "pre_tokenizer")));
        const json& model = part_of(file, "model");
        DEDLOC_TRY_VOID(read_vocabulary(model));
        DEDLOC_TRY_VOID(read_added(part_of(file, "added_tokens")));
        DEDLOC_TRY_VOID(read_merges(part_of(model, "merges")));
        DEDLOC_TRY_VOID(find_bytes(model));
        return make();
    }

  private:
    Ok read_normalizer(const json& part);
    Ok read_pre_tokenizer(const json& part);
    Ok read_one_pre_tokenizer(const json& part);
    Ok read_metaspace(const json& part);
    Ok read_vocabulary(const json& model);
    Ok read_added(const json& list);
    Ok read_one_added(const json& item);
    Ok read_merges(const json& list);
    Ok find_bytes(const json& model);
    Result<std::shared_ptr<LanguageTokenizer>> make();
    Result<std::uint32_t> id_of_piece(std::string_view piece) const;
    ByteTokenizer::Piece& piece_at(std::uint32_t id) {
        if (pieces_.size() <= id) pieces_.resize(id + 1);
        return pieces_[id];
    }

    WordCutting cutting_;
    bool byte_level_ = false;
    BytePairsParts parts_;
    TextMap<std::uint32_t> shown_ids_;
    std::vector<ByteTokenizer::Piece> pieces_;
    std::vector<AddedToken> added_;
    std::size_t letters_ = 0;
};

Ok TokenizerJsonReader::read_normalizer(const json& part) {
    for (const json& step : sequence_of(part, "normalizers")) {
        const std::string kind = kind_of(step);
        if (kind == "Prepend" && cutting_.replacements.empty()) {
            cutting_.prepended = text_in(step, "prepend");
        } else if (kind == "Replace" && part_of(step, "pattern").is_object() &&
                   !text_in(part_of(step, "pattern"), "String").empty() &&
                   cutting_.replacements.size() < replacements_max) {
            cutting_.replacements.emplace_back(text_in(part_of(step, "pattern"), "String"),
                                               text_in(step, "content"));
        } else {
            return not_read("a normalizer '{}' is not read here", kind);
        }
    }
    if (cutting_.prepended.size() > piece_bytes_max) return wrong("what it prepends is too long");
    for (const auto& [what, by] : cutting_.replacements)
        if (by.size() > replacement_bytes_max) return wrong("a replacement is too long");
    return {};
}

Ok TokenizerJsonReader::read_metaspace(const json& part) {
    cutting_.space = text_in(part, "replacement");
    if (cutting_.space.empty() || cutting_.space.size() > replacement_bytes_max)
        return wrong("Metaspace has no replacement");
    const std::string scheme = text_in(part, "prepend_scheme");
    const bool prepends = flag_in(part, "add_prefix_space", true);
    cutting_.space_first = !prepends || scheme == "never" ? WordCutting::Prepend::never
                           : scheme == "first"            ? WordCutting::Prepend::first
                                                          : WordCutting::Prepend::always;
    cutting_.splits_at_space = flag_in(part, "split", true);
    return {};
}

Ok TokenizerJsonReader::read_one_pre_tokenizer(const json& part) {
    const std::string kind = kind_of(part);
    if (byte_level_) return not_read("'{}' behind ByteLevel", kind);
    if (kind == "ByteLevel") {
        byte_level_ = true;
        cutting_.prefix_space = flag_in(part, "add_prefix_space");
        if (flag_in(part, "use_regex", true)) {
            if (cutting_.pattern) return not_read("two patterns for words");
            cutting_.pattern = WordPattern::gpt2;
        }
        // Each piece of a split text would get a space of its own.
        if (cutting_.prefix_space && (cutting_.digits_alone || !flag_in(part, "use_regex", true)))
            return not_read("add_prefix_space beside another split");
        return {};
    }
    if (kind == "Metaspace") return read_metaspace(part);
    if (kind == "Digits" && flag_in(part, "individual_digits")) {
        if (cutting_.pattern) return not_read("Digits behind a pattern");
        cutting_.digits_alone = true;
        return {};
    }
    if (kind == "Split" && text_in(part, "behavior") == "Isolated" && !flag_in(part, "invert") &&
        !cutting_.pattern && part_of(part, "pattern").is_object()) {
        cutting_.pattern = pattern_of(text_in(part_of(part, "pattern"), "Regex"));
        if (cutting_.pattern) return {};
    }
    return not_read("a pre_tokenizer '{}' of this form is not read here", kind);
}

Ok TokenizerJsonReader::read_pre_tokenizer(const json& part) {
    for (const json& step : sequence_of(part, "pretokenizers"))
        DEDLOC_TRY_VOID(read_one_pre_tokenizer(step));
    if (!cutting_.space.empty() && (byte_level_ || cutting_.pattern || cutting_.digits_alone))
        return not_read("Metaspace beside another pre_tokenizer");
    if (cutting_.pattern && !byte_level_) return not_read("a pattern without ByteLevel");
    return {};
}

Ok TokenizerJsonReader::read_vocabulary(const json& model) {
    if (!model.is_object()) return wrong("there is no model");
    const std::string kind = text_in(model, "type");
    // Old files do not say.
    if (!kind.empty() && kind != "BPE") return not_read("a model '{}'", kind.substr(0, 40));
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
        if (!text_in(model, affix).empty()) return not_read("a model with a {}", affix);
    const json& vocabulary = part_of(model, "vocab");
    if (!vocabulary.is_object() || vocabulary.empty() || vocabulary.size() > vocabulary_max)
        return wrong("the vocabulary is missing, empty or has more than {} pieces", vocabulary_max);
    for (const auto& [shown, value] : vocabulary.items()) {
        DEDLOC_TRY(const std::uint32_t id, id_from(value));
        if (id >= vocabulary.size() + added_tokens_max)
            return wrong("the id {} is far beyond its {} pieces", id, vocabulary.size());
        letters_ += shown.size();
        if (shown.size() > piece_bytes_max || letters_ > pieces_bytes_max)
            return wrong("its pieces are too long");
        ByteTokenizer::Piece& piece = piece_at(id);
        if (!piece.shown.empty()) return wrong("the id {} is there twice", id);
        piece.shown = shown;
        shown_ids_[shown] = id;
        piece.bytes = shown;
        if (byte_level_) piece.bytes = from_letters(shown).value_or(std::string());
        if (!piece.bytes.empty()) parts_.ids[piece.bytes] = id;
    }
    return {};
}

Ok TokenizerJsonReader::read_one_added(const json& item) {
    if (!item.is_object()) return wrong("an added token is no object");
    AddedToken token;
    token.text = text_in(item, "content");
    DEDLOC_TRY(token.id, id_from(part_of(item, "id")));
    if (token.id >= pieces_.size() + added_tokens_max)
        return wrong("the id {} of an added token is far beyond all others", token.id);
    if (token.text.empty() || token.text.size() > piece_bytes_max)
        return wrong("an added token has no text, or too long a one");
    if (flag_in(item, "single_word"))
        return not_read("the added token '{}' stands for whole words", token.text);
    token.special = flag_in(item, "special");
    token.takes_space_before = flag_in(item, "lstrip");
    token.takes_space_behind = flag_in(item, "rstrip");
    ByteTokenizer::Piece& piece = piece_at(token.id);
    piece = {.shown = token.text, .bytes = token.text, .special = token.special};
    shown_ids_[token.text] = token.id;
    added_.push_back(std::move(token));
    return {};
}

Ok TokenizerJsonReader::read_added(const json& list) {
    if (list.is_null()) return {};
    if (!list.is_array() || list.size() > added_tokens_max)
        return wrong("its added tokens are no list of at most {}", added_tokens_max);
    for (const json& item : list) DEDLOC_TRY_VOID(read_one_added(item));
    std::stable_sort(added_.begin(), added_.end(), [](const AddedToken& a, const AddedToken& b) {
        return a.text.size() > b.text.size();
    });
    return {};
}

Result<std::uint32_t> TokenizerJsonReader::id_of_piece(std::string_view piece) const {
    const auto found = shown_ids_.find(piece);
    if (found != shown_ids_.end()) return found->second;
    return wrong("a merge names '{}', which is no piece", piece.substr(0, 80));
}

Ok TokenizerJsonReader::read_merges(const json& list) {
    if (!list.is_array() || list.size() > merges_max) return wrong("there is no list of merges");
    parts_.merges.reserve(list.size());
    for (const json& item : list) {
        std::string left;
        std::string right;
        if (item.is_string()) {
            const auto& both = item.get_ref<const std::string&>();
            const std::size_t space = std::min(both.find(' '), both.size());
            left = both.substr(0, space);
            right = both.substr(std::min(space + 1, both.size()));
        } else if (item.is_array() && item.size() == 2 && item[0].is_string() &&
                   item[1].is_string()) {
            left = item[0].get<std::string>();
            right = item[1].get<std::string>();
        }
        BytePairsParts::Merge merge;
        DEDLOC_TRY(merge.left, id_of_piece(left));
        DEDLOC_TRY(merge.right, id_of_piece(right));
        DEDLOC_TRY(merge.merged, id_of_piece(left + right));
        parts_.merges.push_back(merge);
    }
    return {};
}

Ok TokenizerJsonReader::find_bytes(const json& model) {
    parts_.bytes.fill(no_piece);
    parts_.by_characters = !byte_level_;
    parts_.joins_unknown = flag_in(model, "fuse_unk");
    parts_.takes_whole_words = flag_in(model, "ignore_merges");
    if (const std::string unknown = text_in(model, "unk_token"); !unknown.empty()) {
        DEDLOC_TRY(parts_.unknown, id_of_piece(unknown));
    }
    for (std::uint32_t id = 0; id < pieces_.size(); ++id) {
        ByteTokenizer::Piece& piece = pieces_[id];
        if (byte_level_) {
            if (piece.bytes.size() == 1 && !piece.special)
                parts_.bytes[static_cast<unsigned char>(piece.bytes[0])] = id;
            continue;
        }
        if (const auto byte = byte_of_piece(piece.shown); byte && flag_in(model, "byte_fallback")) {
            parts_.bytes[*byte] = id;
            piece.bytes = std::string(1, static_cast<char>(*byte));
        } else if (!piece.special) {
            replace_all(piece.bytes, space_symbol, " ");
        }
    }
    return {};
}

Result<std::shared_ptr<LanguageTokenizer>> TokenizerJsonReader::make() {
    const auto first_of = [&](auto& names) -> std::optional<std::uint32_t> {
        for (const std::string_view name : names)
            for (const AddedToken& token : added_)
                if (token.text == name) return token.id;
        return std::nullopt;
    };
    const auto end = first_of(ends);
    if (!end)
        return wrong(
            "no added token ends a document (such as <|endoftext|> or </s>), and a model "
            "would not know where one ends");
    std::shared_ptr<ByteTokenizer> made(new ByteTokenizer(std::move(parts_)));
    made->end_ = *end;
    made->begin_ = first_of(begins).value_or(*end);
    for (const AddedToken& token : added_)
        made->begins_added_[static_cast<unsigned char>(token.text[0])] = true;
    made->drops_first_space_ =
        !cutting_.prepended.empty() || cutting_.space_first != WordCutting::Prepend::never;
    made->cutting_ = std::move(cutting_);
    made->pieces_ = std::move(pieces_);
    made->added_ = std::move(added_);
    return std::shared_ptr<LanguageTokenizer>(std::move(made));
}

Result<std::shared_ptr<LanguageTokenizer>> ByteTokenizer::parse(std::string_view json) {
    return TokenizerJsonReader().read(json);
}

const AddedToken* ByteTokenizer::added_at(std::string_view text) const {
    if (!begins_added_[static_cast<unsigned char>(text[0])]) return nullptr;
    for (const AddedToken& token : added_)
        if (text.starts_with(token.text)) return &token;
    return nullptr;
}

void ByteTokenizer::encode(std::string_view text, std::vector<std::uint32_t>& ids) const {
    std::size_t begin = 0;  // of what has no id yet
    for (std::size_t at = 0; at < text.size();) {
        const AddedToken* token = added_at(text.substr(at));
        if (token == nullptr) {
            ++at;
            continue;
        }
        std::string_view before = text.substr(begin, at - begin);
        const auto ends_with_space = [&] {
            const std::size_t last = character_boundary(before, before.size() - 1);
            return is_white_space(first_character(before.substr(last)).code);
        };
        if (token->takes_space_before)
            while (!before.empty() && ends_with_space())
                before = before.substr(0, character_boundary(before, before.size() - 1));
        encode_plain(before, begin == 0, ids);
        ids.push_back(token->id);
        at += token->text.size();
        if (token->takes_space_behind)
            while (at < text.size() && is_white_space(first_character(text.substr(at)).code))
                at += character_bytes(text[at]);
        begin = at;
    }
    encode_plain(text.substr(begin), begin == 0, ids);
}

void ByteTokenizer::encode_plain(std::string_view text,
                                 bool is_first,
                                 std::vector<std::uint32_t>& ids) const {
    if (text.empty()) return;
    std::string changed;
    if (!cutting_.prepended.empty() || !cutting_.replacements.empty() || !cutting_.space.empty() ||
        (cutting_.prefix_space && text[0] != ' ')) {
        changed = cutting_.prepended + std::string(text);
        for (const auto& [what, by] : cutting_.replacements) replace_all(changed, what, by);
        if (cutting_.prefix_space && changed[0] != ' ') changed.insert(0, " ");
        if (!cutting_.space.empty()) {
            replace_all(changed, " ", cutting_.space);
            const bool wanted = cutting_.space_first == WordCutting::Prepend::always ||
                                (cutting_.space_first == WordCutting::Prepend::first && is_first);
            if (wanted && !changed.starts_with(cutting_.space)) changed.insert(0, cutting_.space);
        }
        text = changed;
    }
    for (const std::string_view word : words_of(text, cutting_)) pairs_.encode_word(word, ids);
}

std::string byte_tokenizer_json(const std::vector<BytePairsParts::Merge>& merges,
                                const std::vector<std::string>& pieces) {
    // Appended: by its [] each key would be looked for among all before it.
    nlohmann::ordered_json::object_t vocabulary;
    // The first is special, and written as it is.
    for (std::size_t id = 0; id < pieces.size(); ++id)
        vocabulary.emplace_back(id == 0 ? pieces[id] : in_letters(pieces[id]), id);
    nlohmann::ordered_json pairs = nlohmann::ordered_json::array();
    for (const BytePairsParts::Merge& merge : merges)
        pairs.push_back(in_letters(pieces[merge.left]) + " " + in_letters(pieces[merge.right]));
    const nlohmann::ordered_json byte_level{{"type", "ByteLevel"},
                                            {"add_prefix_space", false},
                                            {"trim_offsets", true},
                                            {"use_regex", true}};
    const nlohmann::ordered_json added{{"id", 0},
                                       {"content", pieces[0]},
                                       {"single_word", false},
                                       {"lstrip", false},
                                       {"rstrip", false},
                                       {"normalized", false},
                                       {"special", true}};
    const nlohmann::ordered_json file{{"version", "1.0"},
                                      {"truncation", nullptr},
                                      {"padding", nullptr},
                                      {"added_tokens", nlohmann::ordered_json::array({added})},
                                      {"normalizer", nullptr},
                                      {"pre_tokenizer", byte_level},
                                      {"post_processor", nullptr},
                                      {"decoder", byte_level},
                                      {"model",
                                       {{"type", "BPE"},
                                        {"dropout", nullptr},
                                        {"unk_token", nullptr},
                                        {"continuing_subword_prefix", nullptr},
                                        {"end_of_word_suffix", nullptr},
                                        {"fuse_unk", false},
                                        {"byte_fallback", false},
                                        {"vocab", std::move(vocabulary)},
                                        {"merges", std::move(pairs)}}}};
    return file.dump(1) + "\n";
}

}  // namespace dedloc::text
