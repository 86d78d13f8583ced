#include "dedloc/peer/copied_folder.h"

#include <optional>
#include <sys/stat.h>

#include "dedloc/base/file.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/runtime/real.h"

namespace dedloc::peer {
namespace {

constexpr std::string_view place_file = "place";
constexpr std::size_t place_bytes_max = 256;

// Containers may have no machine's id: then the number alone tells.
std::optional<std::string> place_of(const std::string& directory) {
    struct stat identity {};
    const std::string path = directory + "/" + std::string(identity_file);
    if (directory.empty() || ::stat(path.c_str(), &identity) != 0) return std::nullopt;
    const auto machine = base::read_file("/etc/machine-id", place_bytes_max);
    return fmt::format("{} {}",
                       static_cast<std::uint64_t>(identity.st_ino),
                       machine ? machine->substr(0, machine->find('\n')) : std::string());
}

}  // namespace

bool may_be_copied(const std::string& directory) {
    const auto noted =
        base::read_file(directory + "/" + std::string(place_file), 2 * place_bytes_max);
    return !noted || place_of(directory) != *noted;
}

void note_place(const std::string& directory) {
    const auto place = place_of(directory);
    if (!place) return;
    const auto disk = runtime::real_disk(directory);
    if (disk) (void)(*disk)->write_atomically(std::string(place_file), as_bytes(*place));
}

}  // namespace dedloc::peer
