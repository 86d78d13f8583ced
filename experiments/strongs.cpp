#include "experiments/strongs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>

namespace dedloc::lab {
namespace {

constexpr std::string_view entry_mark = "$$$";

// ---- the rule -----------------------------------------------------------------------------------

const std::set<std::string_view> words_of_places = {
    "place",     "places",     "city",      "cities",     "town",     "towns",   "region",
    "regions",   "country",    "countries", "mount",      "mountain", "hill",    "hills",
    "mountains", "river",      "valley",    "valleys",    "island",   "islands", "land",
    "stream",    "spot",       "spots",     "desert",     "district", "capital", "capitol",
    "brook",     "well",       "wells",     "fountain",   "tract",    "peak",    "province",
    "village",   "port",       "plain",     "ravine",     "sea",      "station", "elevation",
    "summit",    "pool",       "forest",    "promontory", "torrent",  "wady",    "aperture",
    "garden",    "wilderness", "settlement"};

const std::set<std::string_view> words_of_persons = {
    "son",         "sons",        "king",       "kings",       "wife",       "wives",
    "brother",     "father",      "patriarch",  "patriarchs",  "levite",     "levites",
    "edomite",     "edomites",    "man",        "men",         "woman",      "women",
    "daughter",    "daughters",   "christian",  "christians",  "apostle",    "philistine",
    "persian",     "persians",    "benjamite",  "person",      "persons",    "queen",
    "jewess",      "jew",         "canaanite",  "priest",      "priests",    "general",
    "eunuch",      "servant",     "giant",      "officer",     "prince",     "lawgiver",
    "syrian",      "syrians",     "assyrian",   "assyrians",   "babylonian", "roman",
    "romans",      "egyptian",    "hittite",    "hittites",    "gileadite",  "nephew",
    "mother",      "sister",      "grandson",   "disciple",    "courtier",   "horite",
    "macedonian",  "horites",     "corinthian", "leader",      "uncle",      "concubine",
    "successor",   "individuals", "tyrian",     "tyrians",     "chief",      "arabian",
    "arabians",    "heroine",     "vizier",     "female",      "females",    "male",
    "ephesian",    "prefect",     "procurator", "conspirator", "ishmaelite", "mesopotamian",
    "antediluvian"};

constexpr std::array<std::string_view, 6> stems_of_persons = {
    "israelit", "prophet", "midianit", "moabit", "ammonit", "idum"};

// Peoples, gods and other things with capitals.
const std::set<std::string_view> words_of_others = {
    "inhabitant", "inhabitants", "native",      "tribe",   "tribes", "deity",
    "deities",    "idol",        "god",         "goddess", "month",  "feast",
    "angel",      "title",       "sect",        "coin",    "symbol", "pronoun",
    "posterity",  "descendant",  "descendants", "people",  "nation", "family"};

NameKind kind_of_words(std::string_view words) {
    std::string word;
    for (std::size_t i = 0; i <= words.size(); ++i) {
        const auto letter = i < words.size() ? static_cast<unsigned char>(words[i]) : ' ';
        if (std::isalpha(letter)) {
            word.push_back(static_cast<char>(std::tolower(letter)));
            continue;
        }
        if (words_of_places.contains(word)) return NameKind::place;
        if (words_of_others.contains(word)) return NameKind::none;
        const bool begins = std::ranges::any_of(
            stems_of_persons, [&](std::string_view stem) { return word.starts_with(stem); });
        if (begins || words_of_persons.contains(word)) return NameKind::person;
        word.clear();
    }
    return NameKind::none;
}

std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
    const std::size_t from = text.find(begin);
    if (from == std::string_view::npos) return {};
    text.remove_prefix(from + begin.size());
    return text.substr(0, text.rfind(end));
}

// Without tags, and without what stands in elements of these names.
std::string without_tags(std::string_view text, std::initializer_list<std::string_view> dropped) {
    std::string out;
    while (!text.empty()) {
        const std::size_t open = std::min(text.find('<'), text.size());
        out += text.substr(0, open);
        text.remove_prefix(open);
        if (text.empty()) break;
        const std::size_t close = std::min(text.find('>'), text.size() - 1);
        const std::string_view tag = text.substr(1, close - 1);
        text.remove_prefix(close + 1);
        for (const std::string_view name : dropped) {
            if (!tag.starts_with(name) || tag.ends_with('/')) continue;
            const std::string end = "</" + std::string(name) + ">";
            const std::size_t at = text.find(end);
            if (at != std::string_view::npos) text.remove_prefix(at + end.size());
        }
    }
    return out;
}

// ---- the table ----------------------------------------------------------------------------------

// Where a person who read the 400 commonest numbers says otherwise than the rule.
constexpr std::string_view persons_in_fact[] = {
    "G2541", "G4569", "G5547", "H0085", "H0087", "H0325", "H0783", "H1106", "H1162", "H1868",
    "H2011", "H2696", "H3378", "H4601", "H5020", "H5665", "H6547", "H7014", "H7715", "H8227"};
constexpr std::string_view places_in_fact[] = {
    "G0773", "G3480", "H0211", "H0758", "H0804", "H0894", "H0895", "H1657", "H1661", "H1688",
    "H3003", "H3390", "H3568", "H3667", "H4714", "H5867", "H6068", "H6721", "H7417", "H7614"};
// Tribes and peoples that are called by their forefather's name, gods, an office.
constexpr std::string_view neither_in_fact[] = {
    "G4523", "H0123", "H0669", "H0836", "H1144", "H1410", "H1712", "H1835", "H2074",
    "H2845", "H3063", "H3064", "H3485", "H3669", "H3878", "H4080", "H4124", "H4519",
    "H5015", "H5321", "H5983", "H5984", "H7205", "H7262", "H8095"};

// ---- verses -------------------------------------------------------------------------------------

struct WordsOfNumber {
    std::string text;
    std::vector<std::string> numbers;  // none: words that were added
};

std::vector<std::string> numbers_of(std::string_view tag) {
    constexpr std::string_view mark = "strong:";
    std::vector<std::string> numbers;
    for (std::size_t at = tag.find(mark); at != std::string_view::npos; at = tag.find(mark, at)) {
        at += mark.size();
        std::size_t end = at + 1;
        while (end < tag.size() && std::isdigit(static_cast<unsigned char>(tag[end]))) ++end;
        numbers.emplace_back(tag.substr(at, end - at));
    }
    return numbers;
}

// The verse's text in order, cut where a number begins or ends.
std::vector<WordsOfNumber> pieces_of(std::string_view verse) {
    std::vector<WordsOfNumber> pieces;
    for (std::size_t at = verse.find("<w "); at != std::string_view::npos; at = verse.find("<w ")) {
        pieces.push_back({without_tags(verse.substr(0, at), {"note", "title"}), {}});
        const std::size_t open = verse.find('>', at);
        const std::size_t close = verse.find("</w>", at);
        if (open == std::string_view::npos || close == std::string_view::npos || close < open)
            break;
        pieces.push_back({without_tags(verse.substr(open + 1, close - open - 1), {}),
                          numbers_of(verse.substr(at, open - at))});
        verse.remove_prefix(close + 4);
    }
    pieces.push_back({without_tags(verse, {"note", "title"}), {}});
    return pieces;
}

bool has_capital(std::string_view text) {
    return std::ranges::any_of(text, [](char letter) { return letter >= 'A' && letter <= 'Z'; });
}

// "Moabites" is a people, "Syrian" somebody of it.
bool is_of_a_people(std::string_view word) {
    constexpr std::array<std::string_view, 9> ends = {
        "ites", "ite", "itess", "itish", "ians", "eans", "yptian", "yrian", "opian"};
    return std::ranges::any_of(ends, [&](std::string_view end) { return word.ends_with(end); });
}

// Plain letters and apostrophes for those of print.
std::string plain(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> letters = {
        {{"’", "'"}, {"æ", "ae"}, {"Æ", "Ae"}, {"¶", " "}, {"—", " "}}};
    std::string out(text);
    for (const auto& [from, to] : letters)
        for (std::size_t at = 0; (at = out.find(from, at)) != std::string::npos; at += to.size())
            out.replace(at, from.size(), to);
    return out;
}

// Words, the possessive "'s" and marks apart.
std::vector<std::string> split_words(std::string_view text) {
    std::vector<std::string> words;
    std::string word;
    const auto end_word = [&] {
        if (word.size() > 2 && word.ends_with("'s")) {
            words.push_back(word.substr(0, word.size() - 2));
            words.emplace_back("'s");
        } else if (!word.empty()) {
            words.push_back(word);
        }
        word.clear();
    };
    for (const char letter : text) {
        if (std::isspace(static_cast<unsigned char>(letter))) {
            end_word();
        } else if (std::ispunct(static_cast<unsigned char>(letter)) && letter != '-' &&
                   letter != '\'') {
            end_word();
            words.emplace_back(1, letter);
        } else {
            word.push_back(letter);
        }
    }
    end_word();
    return words;
}

struct Capitals {
    std::size_t with = 0;
    std::size_t without = 0;
};
using CapitalsByNumber = std::map<std::string, Capitals>;

bool is_mostly_written_so(const CapitalsByNumber& capitals, const std::string& number) {
    constexpr double share = 0.7;
    const auto found = capitals.find(number);
    if (found == capitals.end()) return false;
    const auto with = static_cast<double>(found->second.with);
    return with > share * (with + static_cast<double>(found->second.without));
}

std::vector<std::vector<WordsOfNumber>> verses_of(std::string_view printed) {
    std::vector<std::vector<WordsOfNumber>> verses;
    while (!printed.empty()) {
        const std::size_t end = std::min(printed.find("\n$$$"), printed.size());
        const std::string_view entry = printed.substr(0, end);
        printed.remove_prefix(std::min(end + 1, printed.size()));
        const std::size_t line = entry.find('\n');
        if (line == std::string_view::npos) continue;
        const std::string_view key = entry.substr(0, line);
        const std::size_t colon = key.rfind(':');
        // Headings of books and chapters are verses with the number 0.
        if (colon == std::string_view::npos || key.substr(colon) == ":0") continue;
        verses.push_back(pieces_of(entry.substr(line + 1)));
    }
    return verses;
}

text::LabelledSentence label_verse(const std::vector<WordsOfNumber>& verse,
                                   const StrongsLexicon& lexicon,
                                   const CapitalsByNumber& capitals) {
    text::LabelledSentence sentence;
    NameKind before = NameKind::none;  // of the last word
    for (const WordsOfNumber& piece : verse) {
        NameKind kind = NameKind::none;
        for (const std::string& number : piece.numbers)
            if (kind == NameKind::none && is_mostly_written_so(capitals, number))
                kind = lexicon.kind(number);
        for (std::string& word : split_words(plain(piece.text))) {
            const bool named = kind != NameKind::none && word.size() > 1 && has_capital(word) &&
                               !is_of_a_people(word);
            const NameKind own = named ? kind : NameKind::none;
            const std::string type = kind == NameKind::person ? "PER" : "LOC";
            sentence.labels.push_back(own == NameKind::none ? "O"
                                                            : (own == before ? "I-" : "B-") + type);
            sentence.words.push_back(std::move(word));
            before = own;
        }
    }
    return sentence;
}

}  // namespace

NameKind kind_by_rule(std::string_view entry, bool greek) {
    std::string_view definition = between(entry, "<def>", "</def>");
    if (greek) {
        definition = definition.substr(0, definition.find(":--"));
        const std::size_t origin = definition.find("</orig>");
        if (origin != std::string_view::npos) definition.remove_prefix(origin);
        return kind_of_words(without_tags(definition, {"ref"}));
    }
    for (const std::string_view end : {":</hi> - ", ": - ", ":- "})
        definition = definition.substr(0, definition.find(end));
    // Before the name it tells where that comes from.
    const std::size_t name = definition.rfind("<hi rend=\"italic\">");
    if (name != std::string_view::npos) {
        definition.remove_prefix(name);
        definition.remove_prefix(std::min(definition.find("</hi>"), definition.size()));
    }
    return kind_of_words(without_tags(definition, {"ref"}));
}

void StrongsLexicon::add(std::string_view printed, char language) {
    while (!printed.empty()) {
        const std::size_t end = std::min(printed.find("\n$$$"), printed.size());
        std::string_view entry = printed.substr(0, end);
        printed.remove_prefix(std::min(end + 1, printed.size()));
        if (!entry.starts_with(entry_mark)) continue;
        entry.remove_prefix(entry_mark.size());
        const std::size_t line = std::min(entry.find('\n'), entry.size());
        std::string digits(entry.substr(0, line));
        digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
        if (digits.empty() || digits.size() > 4) continue;
        const std::string number = language + std::string(4 - digits.size(), '0') + digits;
        kinds_[number] = kind_by_rule(entry.substr(line), language == 'G');
    }
    const auto correct = [this](const auto& numbers, NameKind kind) {
        for (const std::string_view number : numbers)
            if (const auto found = kinds_.find(std::string(number)); found != kinds_.end())
                found->second = kind;
    };
    correct(persons_in_fact, NameKind::person);
    correct(places_in_fact, NameKind::place);
    correct(neither_in_fact, NameKind::none);
}

NameKind StrongsLexicon::kind(const std::string& number) const {
    const auto found = kinds_.find(number);
    return found == kinds_.end() ? NameKind::none : found->second;
}

std::vector<text::LabelledSentence> label_verses(std::string_view printed,
                                                 const StrongsLexicon& lexicon) {
    const auto verses = verses_of(printed);
    CapitalsByNumber capitals;
    for (const auto& verse : verses)
        for (const WordsOfNumber& piece : verse)
            for (const std::string& number : piece.numbers)
                ++(has_capital(piece.text) ? capitals[number].with : capitals[number].without);
    std::vector<text::LabelledSentence> sentences;
    for (const auto& verse : verses) {
        sentences.push_back(label_verse(verse, lexicon, capitals));
        if (sentences.back().words.empty()) sentences.pop_back();
    }
    return sentences;
}

}  // namespace dedloc::lab
