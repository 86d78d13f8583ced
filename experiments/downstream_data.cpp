#include "experiments/downstream_data.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "dedloc/base/file.h"
#include "dedloc/images/emoji_names.h"
#include "dedloc/runtime/child_process.h"
#include "dedloc/text/cache.h"

#include "experiments/strongs.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t file_bytes_max = 64u << 20;
constexpr double print_timeout_s = 60;
constexpr const char* annotations_file = "/usr/share/unicode/cldr/common/annotations/bn.xml";
constexpr const char* emoji_file = "/usr/share/unicode/emoji/emoji-test.txt";
constexpr const char* printer = "/usr/bin/mod2imp";  // of SWORD modules

std::string csv_field(std::string_view text) {
    std::string field = "\"";
    for (const char letter : text) {
        if (letter == '"') field.push_back('"');
        field.push_back(letter);
    }
    return field + "\"";
}

Ok write_text(const std::string& folder, const std::string& name, std::string_view text) {
    std::error_code error;
    std::filesystem::create_directories(folder + "/text", error);
    return text::write_file(folder + "/text/" + name, text);
}

// ---- topics -------------------------------------------------------------------------------------

// By the emoji in UTF-8, without variation selectors: "Food & Drink".
std::map<std::string, std::string> groups_of_emoji(std::string_view list) {
    constexpr std::string_view mark = "# group: ";
    std::map<std::string, std::string> group_of;
    for (std::size_t at = list.find(mark); at != std::string_view::npos;) {
        const std::size_t next = std::min(list.find(mark, at + mark.size()), list.size());
        const std::string_view part = list.substr(at + mark.size(), next - at - mark.size());
        const auto emoji = images::parse_emoji_list(part.substr(part.find('\n') + 1));
        if (emoji)
            for (const images::Emoji& one : *emoji)
                group_of[images::utf8_of(one.code_points, false)] = part.substr(0, part.find('\n'));
        at = next < list.size() ? next : std::string_view::npos;
    }
    return group_of;
}

struct Annotation {
    std::string name;
    std::string keywords;  // "a | b"
};

// CLDR's lines: <annotation cp="X">a | b</annotation>, and with type="tts" the name.
std::map<std::string, Annotation> annotations_of(std::string_view file) {
    constexpr std::string_view mark = "<annotation cp=\"";
    constexpr std::string_view name_mark = "\" type=\"tts\">";
    constexpr std::string_view keywords_mark = "\">";
    std::map<std::string, Annotation> annotations;
    for (std::size_t at = file.find(mark); at != std::string_view::npos; at = file.find(mark, at)) {
        at += mark.size();
        const std::string_view line = file.substr(at, file.find('\n', at) - at);
        const std::size_t quote = line.find('"', 1);
        const std::size_t end = line.find("</annotation>");
        if (quote == std::string_view::npos || end == std::string_view::npos) continue;
        Annotation& found = annotations[std::string(line.substr(0, quote))];
        const bool is_name = line.substr(quote).starts_with(name_mark);
        const std::size_t begin = quote + (is_name ? name_mark : keywords_mark).size();
        (is_name ? found.name : found.keywords) = line.substr(begin, end - begin);
    }
    return annotations;
}

// ---- names --------------------------------------------------------------------------------------

Result<std::string> printed(const std::string& module, const std::string& folder) {
    const std::string output = folder + "/" + module + ".imp";
    const runtime::ChildOptions options{.command = {printer, module},
                                        .output_file = output,
                                        .error_file = output + ".err",
                                        .niceness = 0};
    DEDLOC_TRY(runtime::ChildProcess child, runtime::ChildProcess::start(options));
    const bool ended = child.wait_for(print_timeout_s);
    auto text = base::read_file(output, file_bytes_max);
    if (ended && child.end()->exit_code == 0 && text && !text->empty()) return text;
    return make_error(
        ErrorKind::not_found,
        "the King James Bible with Strong's numbers is missing ({} printed nothing of "
        "{}): apt install sword-text-kjv sword-dict-strongs-hebrew "
        "sword-dict-strongs-greek libsword-utils",
        printer,
        module);
}

}  // namespace

Result<std::string> write_verses(const std::string& folder) {
    DEDLOC_TRY(const std::string cache, text::default_cache_directory());
    auto file = base::read_file(cache + "/test-data/quran_bn.json", file_bytes_max);
    if (!file)
        return make_error(ErrorKind::not_found,
                          "the Bengali verses are missing: tools/test_data.sh brings them (npm's "
                          "quran-json 3.1.2, for tests only)");
    const auto chapters = nlohmann::json::parse(*file, nullptr, false);
    if (!chapters.is_array()) return make_error(ErrorKind::bad_input, "quran_bn.json is damaged");
    std::string text;
    std::string labelled = "text,label\n";
    for (const auto& chapter : chapters) {
        for (const auto& verse : chapter.at("verses")) {
            const auto words = verse.at("translation").get<std::string>();
            text += words + "\n";
            labelled += csv_field(words) + "," + chapter.at("type").get<std::string>() + "\n";
        }
        text += "\n";
    }
    DEDLOC_TRY_VOID(write_text(folder, "verses.txt", text));
    DEDLOC_TRY_VOID(text::write_file(folder + "/verses.csv", labelled));
    return folder + "/verses.csv";
}

Result<std::string> write_topics(const std::string& folder) {
    const auto list = base::read_file(emoji_file, file_bytes_max);
    const auto names = base::read_file(annotations_file, file_bytes_max);
    if (!list || !names)
        return make_error(ErrorKind::not_found,
                          "the names of emoji in Bengali are missing: apt install "
                          "unicode-cldr-core unicode-data");
    const auto group_of = groups_of_emoji(*list);
    std::string text;
    std::string labelled = "text,label\n";
    for (const auto& [emoji, annotation] : annotations_of(*names)) {
        std::string words = annotation.name + " " + annotation.keywords;
        std::erase(words, '|');
        text += annotation.name + ". " + words + "।\n";
        const auto group = group_of.find(emoji);
        if (group != group_of.end())
            labelled += csv_field(words) + "," + csv_field(group->second) + "\n";
    }
    DEDLOC_TRY_VOID(write_text(folder, "topics.txt", text));
    DEDLOC_TRY_VOID(text::write_file(folder + "/topics.csv", labelled));
    return folder + "/topics.csv";
}

Result<std::string> write_names(const std::string& folder, std::size_t one_in) {
    StrongsLexicon lexicon;
    DEDLOC_TRY(const std::string hebrew, printed("StrongsHebrew", folder));
    DEDLOC_TRY(const std::string greek, printed("StrongsGreek", folder));
    DEDLOC_TRY(const std::string bible, printed("engKJV2006eb", folder));
    lexicon.add(hebrew, 'H');
    lexicon.add(greek, 'G');
    std::string file;
    std::size_t number = 0;
    for (const text::LabelledSentence& verse : label_verses(bible, lexicon)) {
        const bool names = std::ranges::any_of(
            verse.labels, [](const std::string& label) { return label != "O"; });
        if (!names || number++ % one_in != 0) continue;
        for (std::size_t i = 0; i < verse.words.size(); ++i)
            file += verse.words[i] + " " + verse.labels[i] + "\n";
        file += "\n";
    }
    DEDLOC_TRY_VOID(text::write_file(folder + "/names.txt", file));
    return folder + "/names.txt";
}

}  // namespace dedloc::lab
