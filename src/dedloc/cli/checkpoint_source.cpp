#include "dedloc/cli/checkpoint_source.h"

#include <filesystem>
#include <unistd.h>

#include "dedloc/peer/peer_directory.h"

namespace dedloc::cli {

namespace fs = std::filesystem;

std::string peers_folder(const std::string& path) {
    const fs::path folder = fs::path(path).parent_path();
    if (folder.filename() != peer::checkpoints_folder) return {};
    const fs::path peer = folder.parent_path();
    const bool is_ours = ::access((peer / peer::identity_file).c_str(), R_OK) == 0 &&
                         ::access(peer.c_str(), W_OK | X_OK) == 0 &&
                         ::access(folder.c_str(), W_OK | X_OK) == 0;
    return is_ours ? peer.string() : std::string();
}

}  // namespace dedloc::cli
