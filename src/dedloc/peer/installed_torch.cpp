#include "dedloc/peer/installed_torch.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <memory>

#include "dedloc/base/file.h"
#include "dedloc/base/printable.h"
#include "dedloc/peer/trainer_program.h"
#include "dedloc/runtime/program_beside.h"

namespace dedloc::peer {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t small_file_bytes_max = 64 * 1024;
constexpr const char* library = "lib/libtorch_cpu.so";
constexpr const char* ask_python =
    "python3 -c 'import importlib.util as u; s = u.find_spec(\"torch\"); "
    "print(s.submodule_search_locations[0] if s else \"\")' 2>/dev/null </dev/null";

std::string first_line(std::string text) {
    text.resize(std::min(text.find('\n'), text.size()));
    return text;
}

std::string torch_of_python() {
    const std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(ask_python, "r"), ::pclose);
    if (!output) return {};
    std::array<char, 4096> line{};
    if (std::fgets(line.data(), line.size(), output.get()) == nullptr) return {};
    return first_line(line.data());
}

// "2.15.0+cpu" of torch/version.py.
std::string version_of(const fs::path& torch) {
    const auto text = base::read_file((torch / "version.py").string(), small_file_bytes_max);
    if (!text) return {};
    constexpr std::string_view before = "__version__ = '";
    const std::size_t at = text->find(before);
    if (at == std::string::npos) return {};
    const std::size_t begin = at + before.size();
    return base::printable(text->substr(begin, text->find('\'', begin) - begin), 64);
}

bool is_of(std::string_view version, std::string_view wanted) {
    return version.starts_with(wanted) &&
           (version.size() == wanted.size() || version[wanted.size()] == '.');
}

Error other_torch(const std::string& wanted, const std::string& found) {
    return make_error(ErrorKind::cannot_compute,
                      "what computes needs libtorch of PyTorch {0}, and {1}: pip install "
                      "'torch=={0}.*' into the Python that python3 is here, or let DEDLOC_TORCH "
                      "name the folder of such a one",
                      wanted,
                      found);
}

}  // namespace

Result<std::string> libtorch_for(const std::string& programs) {
    const auto text =
        base::read_file((fs::path(programs) / trainer_torch_file).string(), small_file_bytes_max);
    if (!text) return std::string();
    const std::string wanted = first_line(*text);
    std::error_code error;
    // site-packages/dedloc/bin and site-packages/torch.
    const fs::path beside = fs::path(programs).parent_path().parent_path() / "torch";
    const char* const given = std::getenv("DEDLOC_TORCH");
    fs::path torch = given != nullptr ? fs::path(given) : beside;
    const bool is_beside = given == nullptr && fs::exists(beside / library, error);
    if (given == nullptr && !is_beside) torch = torch_of_python();
    if (torch.empty()) return other_torch(wanted, "there is no PyTorch");
    if (!fs::exists(torch / library, error))
        return other_torch(wanted, fmt::format("{} has no {}", torch.string(), library));
    const std::string version = version_of(torch);
    if (!is_of(version, wanted))
        return other_torch(wanted, fmt::format("the one in {} is {}", torch.string(), version));
    return is_beside ? std::string() : (torch / "lib").string();
}

Ok prepare_libtorch() {
    const fs::path trainer = runtime::program_beside(trainer_name);
    DEDLOC_TRY(const std::string folder, libtorch_for(trainer.parent_path().string()));
    if (folder.empty()) return {};
    const char* const before = std::getenv("LD_LIBRARY_PATH");
    const std::string path =
        before != nullptr && *before != 0 ? fmt::format("{}:{}", folder, before) : folder;
    ::setenv("LD_LIBRARY_PATH", path.c_str(), 1);
    return {};
}

}  // namespace dedloc::peer
