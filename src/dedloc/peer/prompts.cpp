#include "dedloc/peer/prompts.h"

#include <filesystem>
#include <fmt/format.h>

#include "dedloc/base/shell_quoted.h"
#include "dedloc/base/text_lines.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/web/sheets.h"

namespace dedloc::peer {
namespace {

namespace fs = std::filesystem;

}  // namespace

Ok check_prompts(const std::vector<std::string>& prompts) {
    if (prompts.empty())
        return make_error(
            ErrorKind::bad_input,
            "say what to draw or to go on with: --prompt \"…\", or --prompts FILE with one a line");
    if (prompts.size() > prompts_max)
        return make_error(ErrorKind::bad_input,
                          "{} prompts are too many for one page; at most {}",
                          prompts.size(),
                          prompts_max);
    for (const std::string& prompt : prompts)
        if (prompt.size() > prompt_bytes_max)
            return make_error(ErrorKind::bad_input,
                              "a prompt has {} bytes; at most {} are read",
                              prompt.size(),
                              prompt_bytes_max);
    return {};
}

Result<std::vector<std::string>> prompts_of_file(const std::string& path) {
    DEDLOC_TRY(const std::string text, read_text_file(path, prompts_file_bytes_max));
    std::vector<std::string> prompts;
    auto lines = base::TextLines::of(text);
    if (!lines) return std::move(lines).error().with_context(path);
    while (auto line = lines->next())
        if (!line->text.starts_with('#')) prompts.push_back(std::move(line->text));
    if (prompts.empty())
        return make_error(ErrorKind::bad_input, "{} has no prompts: one a line", path);
    DEDLOC_TRY_VOID(check_prompts(prompts));
    return prompts;
}

std::string sheet_command(const std::string& file,
                          const std::string& peer_directory,
                          bool writes_text,
                          const std::string& then) {
    std::error_code error;
    const std::string prompts = fs::absolute(file, error).string();
    const std::string folder = web::sheets_folder_of(peer_directory);
    std::string command = fmt::format(
        "mkdir -p -- {0} && {1} sample \"$1\" --prompts {2} --n {3} --threads 1 --device cpu --out "
        "{0}/step-\"$2\".{4} && ln -sfn -- step-\"$2\".{4} {0}/latest.{4}",
        base::shell_quoted(folder),
        base::shell_quoted(own_program()),
        base::shell_quoted(prompts),
        writes_text ? 1 : 4,
        writes_text ? "txt" : "png");
    if (then.empty()) return command;
    return fmt::format("( {} ); code=$?; ( {}\n) || code=$?; exit $code", command, then);
}

}  // namespace dedloc::peer
