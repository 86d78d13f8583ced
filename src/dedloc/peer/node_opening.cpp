#include "dedloc/peer/node_opening.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <unistd.h>

#include "dedloc/base/log.h"
#include "dedloc/peer/cap_schedule.h"
#include "dedloc/peer/copied_folder.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/run/join_string.h"
#include "dedloc/runtime/machine.h"
#include "dedloc/runtime/real.h"
#include "dedloc/wire/multiaddr.h"
#include "dedloc/wire/written_addresses.h"

namespace dedloc::peer {
namespace {

namespace fs = std::filesystem;

// The network, the event log, names, evaluations, data, the disk: each has a thread or two.
constexpr std::size_t threads_beside = 8;
constexpr std::string_view port_file = "port";
constexpr std::size_t port_letters_max = 8;

// All but its folder.
Result<collab::NodeOptions> node_options(const OpeningOptions& options) {
    collab::NodeOptions node;
    if (!options.listen.empty()) {
        DEDLOC_TRY(node.listen, wire::listen_addresses(options.listen));
    }
    DEDLOC_TRY(node.announce, wire::announced_addresses(options.announce));
    for (const std::string& relay : options.relays) DEDLOC_TRY_VOID(run::split_peer_address(relay));
    if (!options.relays.empty() && !options.listen.empty() && node.listen.empty())
        return make_error(ErrorKind::bad_input,
                          "--listen none says that nobody is to reach this peer, so it would take "
                          "no place at the relay; leave --listen out (a relay needs no open port)");
    DEDLOC_TRY(node.caps, caps_of_day(options.caps.max_up, options.caps.max_down));
    if (!options.congestion_control.empty())
        DEDLOC_TRY_VOID(runtime::may_use_congestion_control(options.congestion_control));
    node.workers_count = options.workers_count;
    node.nat = options.nat;
    node.relays = options.relays;
    node.congestion_control = options.congestion_control;
    return node;
}

Ok make_writable_folder(const std::string& path) {
    std::error_code error;
    const bool is_new = fs::create_directories(path, error);
    if (error)
        return make_error(ErrorKind::local_fault, "cannot make {}: {}", path, error.message());
    if (is_new) fs::permissions(path, fs::perms::owner_all, error);  // its files are private, too
    if (::access(path.c_str(), W_OK | X_OK) != 0)
        return make_error(
            ErrorKind::local_fault, "cannot write in {}: {}", path, std::strerror(errno));
    return {};
}

// The port that a peer had before, so that strings with its address lead to it again.
std::uint16_t earlier_port(const std::string& directory) {
    const auto text = read_text_file(directory + "/" + std::string(port_file), port_letters_max);
    std::uint16_t port = 0;
    if (text) (void)std::from_chars(text->data(), text->data() + text->size(), port);
    return port;
}

// Where users say no port, the one of last time is tried first; another program may have it now.
Result<std::unique_ptr<collab::Node>> open_at_earlier_port(collab::NodeOptions node,
                                                           const std::string& directory,
                                                           bool any_port) {
    node.directory = directory;
    const std::uint16_t port = any_port ? earlier_port(directory) : std::uint16_t{0};
    if (port == 0) return collab::Node::open(std::move(node));
    collab::NodeOptions again = node;
    again.listen = {fmt::format("/ip4/0.0.0.0/tcp/{}", port)};
    auto opened = collab::Node::open(std::move(again));
    if (opened || opened.error().kind() == ErrorKind::conflict) return opened;
    return collab::Node::open(std::move(node));
}

// The port only saves others a fresh join string, so nobody is told when it cannot be written.
void keep_port(const collab::Node& node, const std::string& directory) {
    const auto addresses = node.run_on_network_thread([&] { return node.host().addresses(); });
    for (const std::string& text : addresses) {
        const auto address = wire::Multiaddr::from_text(text);
        if (!address || address->is_relayed() || address->tcp_port().value_or(0) == 0) continue;
        (void)write_private_file(directory + "/" + std::string(port_file),
                                 std::to_string(*address->tcp_port()));
        return;
    }
}

// An error that has nothing to do with the peer's folder is about the port.
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

std::string announced_in_vain(const std::vector<std::string>& announced,
                              const std::vector<std::string>& listen) {
    const auto stays = [](const std::string& text) {
        const auto address = wire::Multiaddr::from_text(text);
        return address && address->tcp_port().value_or(0) != 0;
    };
    if (std::ranges::any_of(listen, stays)) return {};
    for (const std::string& text : announced) {
        const auto address = wire::Multiaddr::from_text(text);
        // A relay passes on to any port.
        if (!address || address->is_relayed() || !address->tcp_port()) continue;
        const bool is_v6 = address->host().value_or("").find(':') != std::string::npos;
        const std::uint16_t port = *address->tcp_port();
        return fmt::format(
            "others are told to dial {}, but this peer listens on no port that "
            "stays, so nothing leads from there to it; add --listen {}, or "
            "whichever port of this machine it leads to",
            text,
            is_v6 ? fmt::format("'[::]:{}'", port) : fmt::format("0.0.0.0:{}", port));
    }
    return {};
}

std::optional<Failure> check_opening(const OpeningOptions& options) {
    if (const auto node = node_options(options); !node) return failure(node.error());
    std::string folder = options.directory;
    if (folder.empty()) {
        auto root = state_root();
        if (!root) return failure(ExitCode::disk, root.error());
        folder = *std::move(root);
    }
    std::error_code error;
    const bool was_there = fs::exists(folder, error);
    if (const Ok made = make_writable_folder(folder); !made)
        return failure(ExitCode::disk, made.error());
    // The work before its use may fail, and a folder without a peer puzzles.
    if (!was_there) fs::remove(folder, error);
    return std::nullopt;
}

Outcome<OpenedNode> open_node(const Digest& run, const OpeningOptions& options) {
    auto node = node_options(options);
    if (!node) return failure(node.error());
    std::shared_ptr<CapSetting> caps;
    if (options.caps_can_change) {
        auto setting = CapSetting::make(options.caps.max_up, options.caps.max_down);
        if (!setting) return failure(setting.error());
        caps = *std::move(setting);
        node->caps = [caps](WallSeconds now) { return caps->at(now); };
    }
    const std::size_t computing =
        options.workers_count == 0 ? runtime::usable_processors() : options.workers_count;
    if (const Ok started = runtime::can_start_threads(2 * computing + threads_beside); !started)
        return failure(ExitCode::cannot_compute, started.error());
    if (const std::string why = announced_in_vain(node->announce, node->listen); !why.empty())
        log(LogLevel::warning, "cli", "{}", why);
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
        // A relay for anyone and `find` have no run, and write nothing of one.
        const Ok own = run.is_zero() ? Ok() : train::check_folder_of(directory, run);
        if (!own) return failure(own.error());
        auto opened = open_at_earlier_port(*node, directory, options.listen.empty());
        if (opened) {
            if (node->announce.empty()) keep_port(**opened, directory);
            note_place(directory);
            // Left by a process that was killed: `invite` would print it as ours.
            ::unlink((directory + "/" + std::string(join_file)).c_str());
            return OpenedNode{
                .node = *std::move(opened), .directory = directory, .caps = std::move(caps)};
        }
        const Error& error = opened.error();
        if (!numbered || error.kind() != ErrorKind::conflict)
            return failure(opening_code(error, directory), error);
    }
    return Failure{ExitCode::identity_in_use,
                   fmt::format("{} peers of this run are running on this machine already",
                               peers_per_machine_max)};
}

}  // namespace dedloc::peer
