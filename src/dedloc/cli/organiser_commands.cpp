#include "dedloc/cli/organiser_commands.h"

#include <algorithm>
#include <filesystem>

#include "dedloc/admission/book_issuer.h"
#include "dedloc/cli/given_run_file.h"

namespace dedloc::cli {
namespace {

namespace fs = std::filesystem;

bool is_invited_run(const peer::RunningPeer& peer) {
    const auto join = run::parse_join_string(peer.join_string);
    return join && !join->authority.is_empty();
}

peer::Outcome<OrganiserFolder> folder_of_invited_run(const std::string& path) {
    const auto run = given_run_file(path + "/" + std::string(peer::run_copy_file));
    if (!run) return peer::failure(run.error());
    if (!run->access)
        return peer::Failure{
            peer::ExitCode::bad_input,
            "the run " + run->name +
                " lets in whoever has a join string; names need a run of `dedloc host "
                "--admit list`"};
    return OrganiserFolder{.path = path, .run_name = run->name, .run = run::run_hash(*run)};
}

// Finds peers in numbered folders that let people in once (peer_directory.h).
std::vector<std::string> folders_with_a_book(const std::string& root) {
    std::vector<std::string> folders;
    std::error_code error;
    for (const auto& run : fs::directory_iterator(root, error)) {
        std::error_code inner;
        for (const auto& peer : fs::directory_iterator(run.path(), inner))
            if (fs::exists(peer.path() / admission::book_file, inner))
                folders.push_back(peer.path().string());
    }
    std::ranges::sort(folders);
    return folders;
}

}  // namespace

peer::Outcome<peer::RunningPeer> organising_peer(const std::string& directory) {
    if (!directory.empty()) {
        auto peer = peer::running_peer(directory);
        if (!peer) return peer::failure(peer::ExitCode::unreachable, peer.error());
        if (!is_invited_run(*peer))
            return peer::Failure{
                peer::ExitCode::bad_input,
                "the run " + peer->run_name +
                    " lets in whoever has a join string; names need a run of `dedloc "
                    "host --admit list`"};
        return *std::move(peer);
    }
    const auto root = peer::state_root();
    if (!root) return peer::failure(peer::ExitCode::disk, root.error());
    std::vector<peer::RunningPeer> organising;
    for (peer::RunningPeer& peer : peer::running_peers(*root))
        if (is_invited_run(peer)) organising.push_back(std::move(peer));
    if (organising.size() == 1) return std::move(organising.front());
    if (organising.empty())
        return peer::Failure{
            peer::ExitCode::unreachable,
            "no peer of a run that lets in by invitation is running on this machine "
            "(looked in " +
                *root + "); for one started with --dir, give the same --dir"};
    std::string text = "several peers of such runs are running here; say which one by --dir:";
    for (const peer::RunningPeer& peer : organising)
        text += "\n  " + peer.path + " (" + peer.run_name + ")";
    return peer::Failure{peer::ExitCode::bad_input, text};
}

peer::Outcome<OrganiserFolder> organiser_folder(const std::string& directory) {
    if (!directory.empty()) return folder_of_invited_run(directory);
    const auto root = peer::state_root();
    if (!root) return peer::failure(peer::ExitCode::disk, root.error());
    std::vector<std::string> folders;
    for (const peer::RunningPeer& peer : peer::running_peers(*root))
        if (is_invited_run(peer)) folders.push_back(peer.path);
    if (folders.empty()) folders = folders_with_a_book(*root);
    if (folders.size() == 1) return folder_of_invited_run(folders.front());
    if (folders.empty())
        return peer::Failure{peer::ExitCode::bad_input,
                             "no peer on this machine has invited anybody (looked in " + *root +
                                 "); for one started with --dir, give the same --dir"};
    std::string text = "several peers here have invited people; say which one by --dir:";
    for (const std::string& folder : folders) text += "\n  " + folder;
    return peer::Failure{peer::ExitCode::bad_input, text};
}

Result<admission::InviteBook> read_book(const std::string& directory, const Digest& run) {
    const std::string path = directory + "/" + std::string(admission::book_file);
    std::error_code error;
    if (!fs::exists(path, error)) return admission::InviteBook(run);
    DEDLOC_TRY(const std::string text, peer::read_text_file(path, admission::book_bytes_max));
    return admission::InviteBook::decode(as_bytes(text), run);
}

}  // namespace dedloc::cli
