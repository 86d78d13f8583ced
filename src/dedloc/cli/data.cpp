// dedloc data emoji FOLDER: Debian's colour emoji as pictures with captions. The helper program
// dedloc-draw-emoji draws them; it links the font libraries that dedloc does not.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "dedloc/cli/commands.h"
#include "dedloc/images/folder.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/say.h"
#include "dedloc/runtime/child_process.h"
#include "dedloc/runtime/program_beside.h"

namespace dedloc::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view drawing_program = "dedloc-draw-emoji";
constexpr double drawing_seconds_max = 300;  // 3 s where the processor is idle

Result<std::string> drawing_helper() {
    std::error_code status;
    const std::string path = runtime::program_beside(drawing_program);
    if (fs::is_regular_file(path, status)) return path;
    return make_error(ErrorKind::local_fault,
                      "the helper program {} is not there; it is built and installed together with "
                      "dedloc (Debian packages libharfbuzz-dev, libfreetype-dev)",
                      path);
}

std::string text_and_remove(const fs::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    std::error_code ignored;
    fs::remove(path, ignored);
    std::string line = text.str();
    while (!line.empty() && line.back() == '\n') line.pop_back();
    return line;
}

Result<int> draw_emoji(const DataEmojiOptions& options) {
    DEDLOC_TRY(const std::string program, drawing_helper());
    std::error_code status;
    fs::create_directories(options.folder, status);
    if (!fs::is_directory(options.folder, status))
        return make_error(ErrorKind::bad_input, "{} cannot be made a folder", options.folder);
    const fs::path folder(options.folder);
    if (fs::exists(folder / "captions.jsonl", status) && !options.force)
        return make_error(ErrorKind::bad_input,
                          "{} has captions.jsonl already (--force replaces the pictures)",
                          options.folder);
    if (!options.json) peer::say(stdout, "drawing the emoji into {} …\n", options.folder);
    const fs::path out = folder / ".drawing.out";
    const fs::path error = folder / ".drawing.err";
    DEDLOC_TRY(auto child,
               runtime::ChildProcess::start({.command = {program,
                                                         options.folder,
                                                         options.language,
                                                         fmt::format("{}", options.side)},
                                             .output_file = out.string(),
                                             .error_file = error.string()}));
    const bool ended = child.wait_for(drawing_seconds_max);
    const std::string told = text_and_remove(out);
    const std::string complaint = text_and_remove(error);
    if (!ended)
        return make_error(ErrorKind::local_fault,
                          "drawing the emoji did not end within {:.0f} s",
                          drawing_seconds_max);
    if (child.end()->signal != 0 || child.end()->exit_code != 0)
        return make_error(
            ErrorKind::bad_input, "{}", complaint.empty() ? "drawing the emoji failed" : complaint);
    auto json = nlohmann::ordered_json::parse(told, nullptr, false);
    if (json.is_discarded())
        return make_error(ErrorKind::local_fault, "the helper program said no JSON: {}", told);
    DEDLOC_TRY(const auto drawn, images::ImageFolder::open(options.folder));
    json["fingerprint"] = drawn.fingerprint().hex();
    if (options.json) {
        peer::say(stdout, "{}\n", monitor::json_line(json));
        return 0;
    }
    peer::say(
        stdout,
        "{} pictures of {} × {} pixels with captions; {} of them are held out: their figure and "
        "their skin tone\noccur elsewhere, but not together. Train with --data {}\n",
        json.value("pictures", 0),
        options.side,
        options.side,
        json.value("held_out", 0),
        options.folder);
    return 0;
}

}  // namespace

int run_data_emoji(const DataEmojiOptions& options) {
    const auto result = draw_emoji(options);
    return result ? *result : peer::report(peer::failure(result.error()));
}

}  // namespace dedloc::cli
