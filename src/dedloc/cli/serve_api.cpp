// dedloc serve-api: a model behind HTTP (api/server.h), from a checkpoint or from a run that is
// under way. A run is followed: now and then its newest state is taken, and requests from then on
// are answered by that.

#include <nlohmann/json.hpp>
#include <thread>

#include "dedloc/api/server.h"
#include "dedloc/cli/commands.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/newer_states.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/state/manifest.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/web/server.h"

namespace dedloc::cli {
namespace {

constexpr auto api_look_time = std::chrono::milliseconds(100);
constexpr std::size_t fingerprint_letters = 12;

// Loads the model's parameters; the rest of the state is not kept.
Result<api::ServedState> served_state(const peer::Visited& from) {
    DEDLOC_TRY(auto generator,
               from.task->generator(replica::parameters_of(*from.state),
                                    replica::buffers_of(*from.state)));
    const std::string root = state::make_manifest(*from.state).root.hex();
    api::ServedState served{
        .generator = {},
        .step = from.state->step(),
        .fingerprint =
            fmt::format("step-{}-{}", from.state->step(), root.substr(0, fingerprint_letters))};
    // The generator holds its task, which has to outlive it.
    served.generator = {generator.release(),
                        [task = from.task](tasks::Generator* made) { delete made; }};
    return served;
}

void tell_where(const ServeApiOptions& options,
                const api::Server& server,
                const api::ServerOptions& at,
                const peer::Visited& from) {
    const std::string base = server.origin() + "/v1";
    const bool has_token = !at.where.is_loopback();
    if (options.json) {
        nlohmann::ordered_json json{{"ok", true},
                                    {"run", from.run.name},
                                    {"step", from.state->step()},
                                    {"address", server.address()},
                                    {"base_url", base},
                                    {"port", server.port()}};
        if (has_token) json["token"] = at.token;
        peer::say(stdout, "{}\n", monitor::json_line(json));
    } else {
        peer::say(stdout,
                  "{}, step {}: {} (Ctrl-C ends it)\nfor clients of OpenAI's interface: base_url {}"
                  "{}\n",
                  from.run.name,
                  from.state->step(),
                  server.address(),
                  base,
                  has_token ? ", api_key " + at.token : std::string());
    }
    std::fflush(stdout);
}

peer::Outcome<web::WebAddress> place_of(const ServeApiOptions& options) {
    const bool is_v6 = options.address.find(':') != std::string::npos;
    const auto where = web::parse_web_address(fmt::format(
        "{0}{1}{2}:{3}", is_v6 ? "[" : "", options.address, is_v6 ? "]" : "", options.port));
    if (where) return *where;
    return peer::Failure{
        peer::ExitCode::bad_input,
        fmt::format("'{}' is no address to listen at: write 127.0.0.1, 0.0.0.0, :: "
                    "or one of this machine's own",
                    options.address)};
}

}  // namespace

int run_serve_api(const ServeApiOptions& options) {
    auto where = place_of(options);
    if (!where) return peer::report(where.failure());
    const tasks::TaskOptions task{
        .device = options.device, .threads_count = options.threads, .unprepared = true};
    const bool follows = !options.join_string.empty();
    const double until = peer::steady_seconds() + options.seconds;
    const auto goes_on = [&] {
        return peer::interrupts() == 0 && (options.seconds == 0 || peer::steady_seconds() < until);
    };
    const auto tell = [](const std::string& line) { peer::say(stderr, "dedloc: {}\n", line); };
    peer::NewerStates states({.join_string = options.join_string,
                              .directory = options.directory,
                              .checkpoint = options.checkpoint,
                              .refresh = options.refresh},
                             task,
                             goes_on,
                             tell);
    auto from = states.first();
    if (!from) return peer::report(from.failure());
    auto served = served_state(*from);
    if (!served) return peer::report(peer::failure(served.error()));
    api::ServerOptions at{.where = *where, .token = {}};
    if (!at.where.is_loopback()) at.token = web::new_token();
    auto server = api::Server::start({.model = from->run.name,
                                      .writes_text = tasks::writes_text(from->run.task),
                                      .follows = follows},
                                     *std::move(served),
                                     at);
    if (!server) return peer::report(peer::failure(peer::ExitCode::port, server.error()));
    peer::catch_interrupts();
    tell_where(options, **server, at, *from);
    from->state.reset();
    while (!follows && goes_on()) std::this_thread::sleep_for(api_look_time);
    while (const auto newer = states.next()) {
        auto next = served_state(*newer);
        tell(next ? fmt::format("step {}", next->step) : next.error().message());
        if (next) (*server)->set_state(*std::move(next));
    }
    return 0;
}

}  // namespace dedloc::cli
