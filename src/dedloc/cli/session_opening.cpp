#include "dedloc/cli/session_opening.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <unistd.h>

#include "dedloc/cli/cap_schedule.h"
#include "dedloc/cli/peer_directory.h"
#include "dedloc/collab/join_string.h"

namespace dedloc::cli {
namespace {

namespace fs = std::filesystem;

Result<std::string> multiaddr_from(const std::string& text) {
    if (text.starts_with("/")) return text;
    const auto colon = text.rfind(':');
    std::string host = colon == std::string::npos ? std::string() : text.substr(0, colon);
    const std::string port_text = colon == std::string::npos ? text : text.substr(colon + 1);
    unsigned port = 0;
    const auto [end, error] =
        std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
    if (error != std::errc() || end != port_text.data() + port_text.size() || port > 65535)
        return make_error(ErrorKind::bad_input,
                          "'{}' is no address to listen on; write /ip4/0.0.0.0/tcp/4001, "
                          "0.0.0.0:4001, or none",
                          text);
    if (host.starts_with("[") && host.ends_with("]"))
        return fmt::format("/ip6/{}/tcp/{}", host.substr(1, host.size() - 2), port);
    if (host.empty() || host == "*") host = "0.0.0.0";
    return fmt::format("/ip4/{}/tcp/{}", host, port);
}

Ok make_writable_folder(const std::string& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error)
        return make_error(ErrorKind::local_fault, "cannot make {}: {}", path, error.message());
    if (::access(path.c_str(), W_OK | X_OK) != 0)
        return make_error(
            ErrorKind::local_fault, "cannot write in {}: {}", path, std::strerror(errno));
    return {};
}

// What the peer's folder has nothing to do with is about the port.
ExitCode opening_code(const Error& error, const std::string& directory) {
    switch (error.kind()) {
        case ErrorKind::conflict:
            return ExitCode::identity_in_use;
        case ErrorKind::local_fault:
            return error.message().find(directory) != std::string::npos ? ExitCode::disk
                                                                        : ExitCode::port;
        default:
            return code_for(error);
    }
}

}  // namespace

Result<std::vector<std::string>> listen_addresses(const std::vector<std::string>& given) {
    if (given.empty()) return std::vector<std::string>{"/ip4/0.0.0.0/tcp/0"};
    std::vector<std::string> addresses;
    for (const std::string& text : given) {
        if (text == "none") continue;
        DEDLOC_TRY(std::string address, multiaddr_from(text));
        addresses.push_back(std::move(address));
    }
    return addresses;
}

Outcome<OpenedSession> open_session(const Digest& run, const OpeningOptions& options) {
    auto listen = listen_addresses(options.listen);
    if (!listen) return failure(listen.error());
    for (const std::string& relay : options.relays)
        if (const auto parts = collab::split_peer_address(relay); !parts)
            return failure(parts.error());
    const auto caps = caps_of_day(options.caps.max_up, options.caps.max_down);
    if (!caps) return failure(caps.error());
    const bool numbered = options.directory.empty();
    std::string root;
    if (numbered) {
        auto found = state_root();
        if (!found) return failure(ExitCode::disk, found.error());
        root = *std::move(found);
    }
    for (int number = 1; number <= peers_per_machine_max; ++number) {
        const std::string directory =
            numbered ? numbered_directory(root, run, number)
                     : fs::absolute(options.directory).lexically_normal().string();
        if (const Ok made = make_writable_folder(directory); !made)
            return failure(ExitCode::disk, made.error());
        collab::SessionOptions session{.directory = directory,
                                       .listen = *listen,
                                       .announce = options.announce,
                                       .workers_count = options.workers_count,
                                       .nat = options.nat,
                                       .relays = options.relays,
                                       .congestion_control = options.congestion_control,
                                       .caps = *caps};
        auto opened = collab::Session::open(std::move(session));
        if (opened) return OpenedSession{.session = *std::move(opened), .directory = directory};
        const Error& error = opened.error();
        if (!numbered || error.kind() != ErrorKind::conflict)
            return failure(opening_code(error, directory), error);
    }
    return Failure{ExitCode::identity_in_use,
                   fmt::format("{} peers of this run are running on this machine already",
                               peers_per_machine_max)};
}

}  // namespace dedloc::cli
