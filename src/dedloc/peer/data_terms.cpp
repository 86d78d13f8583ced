#include "dedloc/peer/data_terms.h"

#include <cstdio>
#include <string_view>
#include <unistd.h>

#include "dedloc/base/printable.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/say.h"
#include "dedloc/tasks/data_section.h"

namespace dedloc::peer {
namespace {

constexpr std::size_t terms_bytes_max = 16'384;

// Everything that is agreed to: other data, or other words about them, are asked for anew.
std::string agreed_text(const tasks::DataKeys& keys) {
    return keys.catalogue + "\n" + keys.licence + "\n" + keys.origin + "\n";
}

bool is_yes(std::string_view answer) {
    while (!answer.empty() && answer.back() == '\n') answer.remove_suffix(1);
    return answer == "y" || answer == "Y" || answer == "yes" || answer == "Yes";
}

// False as well where nobody answers.
bool asked_at_terminal() {
    say(stderr, "Take them, and train with them? [y/N] ");
    char answer[16] = {};
    if (std::fgets(answer, sizeof answer, stdin) == nullptr) return false;
    return is_yes(answer);
}

}  // namespace

std::string data_terms(const run::TaskConfig& task, std::uint64_t cache_bytes) {
    const tasks::DataKeys keys = tasks::data_keys(task);
    constexpr double megabyte = 1e6;
    return fmt::format(
        "this run sends its data ({:.1f} MB in all) to those who train, piece by piece, and each "
        "gives them on; at most {:.0f} MB of them stay in this peer's folder\n"
        "  licence  {}\n"
        "  from     {}",
        static_cast<double>(keys.bytes) / megabyte,
        static_cast<double>(cache_bytes) / megabyte,
        base::printable(keys.licence),
        base::printable(keys.origin));
}

std::optional<Failure> agree_on_data(const run::TaskConfig& task,
                                     const PeerOptions& options,
                                     const std::string& directory,
                                     const std::function<void(const std::string&)>& say_it) {
    const tasks::DataKeys keys = tasks::data_keys(task);
    const std::string path = directory + "/" + data_terms_file;
    const auto before = read_text_file(path, terms_bytes_max);
    if (before && *before == agreed_text(keys)) return std::nullopt;
    const std::string terms = data_terms(task, options.data_cache_bytes);
    const bool can_ask = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
    if (!options.agrees && !can_ask)
        return Failure{ExitCode::bad_input,
                       fmt::format("{}\nNobody is at a terminal here to agree to that: if you do, "
                                   "add --yes to `{} join`",
                                   terms,
                                   called_as())};
    if (options.agrees) {
        say_it(terms);
    } else {
        say(stderr, "{}\n", terms);
        if (!asked_at_terminal())
            return Failure{ExitCode::bad_input, "nothing was downloaded, and nothing is trained"};
    }
    if (const Ok kept = write_private_file(path, agreed_text(keys)); !kept)
        return failure(ExitCode::disk, kept.error());
    return std::nullopt;
}

}  // namespace dedloc::peer
