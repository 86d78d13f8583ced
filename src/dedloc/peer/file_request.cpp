#include "dedloc/peer/file_request.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "dedloc/admission/book_issuer.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/security/hash.h"

namespace dedloc::peer {
namespace {

namespace fs = std::filesystem;

constexpr auto request_look_time = std::chrono::milliseconds(50);
constexpr std::size_t request_name_bytes = 8;  // of chance, in the file's name
constexpr std::size_t refusal_bytes_max = 4096;

}  // namespace

Ok ask_by_file(const std::string& folder,
               std::string_view request,
               double timeout_s,
               std::string_view silence) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
        return make_error(ErrorKind::local_fault, "cannot make {}: {}", folder, error.message());
    const std::string path =
        folder + "/" + base::to_hex(security::secure_random(request_name_bytes));
    // The file is there whole or not at all: its name until then is none that the peer looks at.
    DEDLOC_TRY_VOID(write_private_file(path, request));
    const double until = steady_seconds() + timeout_s;
    while (fs::exists(path, error)) {
        if (steady_seconds() > until) {
            fs::remove(path, error);
            return make_error(ErrorKind::timeout, "{}", silence);
        }
        std::this_thread::sleep_for(request_look_time);
    }
    const std::string refused = path + std::string(admission::refusal_suffix);
    if (!fs::exists(refused, error)) return {};
    const auto why = read_text_file(refused, refusal_bytes_max);
    fs::remove(refused, error);
    return make_error(ErrorKind::bad_input, "{}", why ? *why : why.error().message());
}

}  // namespace dedloc::peer
