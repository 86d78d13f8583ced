#include "dedloc/web/saved_page.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dedloc/base/bytes.h"
#include "dedloc/base/check.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/web/page_files.h"
#include "dedloc/web/sheets.h"

namespace dedloc::web {
namespace {

// Scripts of the page call each other "./NAME"; without a server these are names of a map.
constexpr std::string_view near = "\"./";
constexpr std::string_view mapped = "\"dedloc/";
constexpr const char* saved_policy =
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'";

std::string replaced(std::string text, std::string_view what, std::string_view by) {
    for (std::size_t at = text.find(what); at != std::string::npos;
         at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
    return text;
}

std::string percent_encoded(std::string_view text) {
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~()*,;:/=!$";
    std::string out;
    for (const char letter : text) {
        if (plain.find(letter) != std::string_view::npos)
            out += letter;
        else
            out += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
    }
    return out;
}

std::string file_text(std::string_view name) {
    const PageFile* file = page_file("/" + std::string(name));
    DEDLOC_CHECK(file != nullptr);
    return std::string(file->bytes);
}

std::string scripts_map() {
    std::string map = R"({"imports":{)";
    bool first = true;
    for (const PageFile& file : page_files()) {
        if (!file.name.ends_with(".js")) continue;
        const std::string text = replaced(std::string(file.bytes), near, mapped);
        map += fmt::format(R"({}"dedloc/{}":"data:text/javascript;charset=utf-8,{}")",
                           first ? "" : ",",
                           file.name,
                           percent_encoded(text));
        first = false;
    }
    return map + "}}";
}

// No text that a peer chose ends the element that it stands in.
std::string harmless(std::string json) { return replaced(std::move(json), "<", "\\u003c"); }

// "data:image/png;base64,…"
std::string data_address(const SheetFile& sheet) {
    const std::string url = base::to_base64url(as_bytes(sheet.bytes));
    return fmt::format(
        "data:{};base64,{}", sheet.content_type, replaced(replaced(url, "-", "+"), "_", "/"));
}

// {"150.png": "data:…", "150.txt": words}
nlohmann::ordered_json sheets_json(const std::string& folder) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    const auto put = [&](std::uint64_t step, std::string_view ending, bool is_text) {
        const std::string name = fmt::format("{}{}", step, ending);
        const auto sheet = read_sheet(folder, name);
        if (!sheet || sheet->bytes.size() > saved_sheet_bytes_max) return;
        json[name] = is_text ? sheet->bytes : data_address(*sheet);
    };
    const Sheets sheets = sheets_in(folder);
    for (const std::uint64_t step : sheets.pictures) put(step, ".png", false);
    for (const std::uint64_t step : sheets.texts) put(step, ".txt", true);
    return json;
}

std::string told_by(RunStore& store, const std::string& sheets_folder) {
    return harmless(fmt::format(
        R"({{"run":{},"peers":{},"series":{},"rounds":{},"flows":{},"events":{},"sheets":{}}})",
        store.run_json(),
        store.peers_json(),
        store.series_json(),
        store.rounds_json(),
        store.flows_json(),
        store.events_json(0, kept_events_max),
        monitor::json_line(sheets_json(sheets_folder))));
}

}  // namespace

std::string saved_page(RunStore& store, const std::string& sheets_folder) {
    std::string page = file_text("index.html");
    const auto put = [&page](std::string_view what, const std::string& by) {
        const std::size_t at = page.find(what);
        DEDLOC_CHECK(at != std::string::npos);
        page.replace(at, what.size(), by);
    };
    put(R"(<link rel="icon" href="icon.svg" type="image/svg+xml">)",
        fmt::format(R"(<meta http-equiv="Content-Security-Policy" content="{}">)"
                    "\n"
                    R"(<link rel="icon" href="data:image/svg+xml,{}">)",
                    saved_policy,
                    percent_encoded(file_text("icon.svg"))));
    for (const std::string sheet : {"base.css", "style.css"})
        put(fmt::format(R"(<link rel="stylesheet" href="{}">)", sheet),
            "<style>\n" + file_text(sheet) + "</style>");
    put(R"(<script type="module" src="page.js"></script>)",
        fmt::format(R"(<script type="application/json" id="saved">{}</script>)"
                    "\n"
                    R"(<script type="importmap">{}</script>)"
                    "\n"
                    R"(<script type="module">import "dedloc/page.js";</script>)",
                    told_by(store, sheets_folder),
                    scripts_map()));
    return page;
}

}  // namespace dedloc::web
