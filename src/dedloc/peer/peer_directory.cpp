#include "dedloc/peer/peer_directory.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dedloc/base/file.h"
#include "dedloc/run/join_string.h"
#include "dedloc/run/run_file.h"

namespace dedloc::peer {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

// True while some process holds the peer's identity. Never creates the file.
bool is_in_use(const std::string& path) {
    const int file = ::open((path + "/identity.lock").c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return false;
    const bool busy = ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ::close(file);
    return busy;
}

double age_seconds(const fs::path& path) {
    std::error_code error;
    const auto written = fs::last_write_time(path, error);
    if (error) return 0;
    return std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
}

std::string trimmed(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
        text.pop_back();
    return text;
}

}  // namespace

Result<std::string> state_root() {
    if (const std::string state = environment("XDG_STATE_HOME"); !state.empty())
        return state + "/dedloc";
    if (const std::string home = environment("HOME"); !home.empty())
        return home + "/.local/state/dedloc";
    return make_error(ErrorKind::local_fault,
                      "neither HOME nor XDG_STATE_HOME is set; say with --dir where this peer "
                      "keeps its files");
}

std::string numbered_directory(const std::string& root, const Digest& run, int number) {
    return fmt::format("{}/{}/{}", root, run.short_hex(), number);
}

Result<RunningPeer> running_peer(const std::string& path) {
    if (!is_in_use(path)) return make_error(ErrorKind::not_found, "no peer is running in {}", path);
    const std::string join_path = path + "/" + std::string(join_file);
    auto join = read_text_file(join_path, 2 * run::join_string_bytes_max);
    if (!join)
        return make_error(ErrorKind::not_found,
                          "the peer in {} has no join string yet, as it has not joined its run; "
                          "try again in a moment (a relay gives none)",
                          path);
    RunningPeer peer{.path = path,
                     .run_name = fs::path(path).parent_path().filename().string(),
                     .join_string = trimmed(*join),
                     .join_age_s = age_seconds(join_path)};
    const std::string run_path = path + "/" + std::string(run_copy_file);
    if (const auto text = read_text_file(run_path, run::run_file_bytes_max))
        if (const auto run = run::parse_run_file(*text, run_path)) peer.run_name = run->name;
    return peer;
}

Result<std::string> way_back_of(const std::string& path) {
    for (const std::string_view name : {join_file, way_back_file})
        if (auto text =
                read_text_file(path + "/" + std::string(name), 2 * run::join_string_bytes_max))
            return trimmed(*std::move(text));
    return make_error(ErrorKind::bad_input,
                      "{} is a folder without a join string: it is none of a peer that has met "
                      "others; give the run's join string",
                      path);
}

std::vector<RunningPeer> running_peers(const std::string& root) {
    std::vector<RunningPeer> peers;
    std::error_code error;
    for (const auto& run : fs::directory_iterator(root, error)) {
        if (!run.is_directory(error)) continue;
        for (const auto& number : fs::directory_iterator(run.path(), error))
            if (auto peer = running_peer(number.path().string())) peers.push_back(*std::move(peer));
    }
    std::sort(peers.begin(), peers.end(), [](const RunningPeer& a, const RunningPeer& b) {
        return std::tie(a.join_age_s, a.path) < std::tie(b.join_age_s, b.path);
    });
    return peers;
}

std::string peer_at_work_beside(const std::string& directory) {
    const auto is_numbered = [](const fs::path& path) {
        const std::string name = path.filename().string();
        return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    };
    const fs::path own(directory);
    if (!is_numbered(own)) return {};  // --dir: anything may be beside it
    std::error_code error;
    for (const auto& beside : fs::directory_iterator(own.parent_path(), error))
        if (beside.path().filename() != own.filename() && is_numbered(beside.path()) &&
            running_peer(beside.path().string()))
            return beside.path().string();
    return {};
}

Result<std::string> read_text_file(const std::string& path, std::size_t bytes_max) {
    auto text = base::read_file(path, bytes_max);
    if (!text) return Error(ErrorKind::bad_input, text.error().message());
    return text;
}

Ok write_private_file(const std::string& path, std::string_view text) {
    const std::string temporary = fmt::format("{}.{}.new", path, ::getpid());
    const auto fail = [&](const char* what) {
        const Error error =
            make_error(ErrorKind::local_fault, "{} {}: {}", what, path, std::strerror(errno));
        ::unlink(temporary.c_str());
        return error;
    };
    const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return fail("cannot write");
    const ssize_t written = ::write(file, text.data(), text.size());
    ::close(file);
    if (written != static_cast<ssize_t>(text.size())) return fail("cannot write");
    if (::rename(temporary.c_str(), path.c_str()) != 0) return fail("cannot replace");
    return {};
}

}  // namespace dedloc::peer
