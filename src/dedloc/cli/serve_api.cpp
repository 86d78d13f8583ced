// dedloc serve-api: a model behind HTTP (api/server.h), from a checkpoint or from a run that is
// under way. A run is followed: now and then its newest state is taken, and requests from then on
// are answered by that.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "dedloc/api/server.h"
#include "dedloc/cli/commands.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/visitor.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/state/manifest.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/web/server.h"

namespace dedloc::cli {
namespace {

constexpr auto api_look_time = std::chrono::milliseconds(100);
// Taking a state costs others' lines: of the time it is at most one part in so many.
constexpr double visit_share = 20;
constexpr std::size_t fingerprint_letters = 12;

// The model with its parameters; the rest of the state is let go.
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
    // The task outlives what it made.
    served.generator = {generator.release(),
                        [task = from.task](tasks::Generator* made) { delete made; }};
    return served;
}

// Takes the run's newest state again and again, on a thread of its own.
class Follower {
  public:
    Follower(const ServeApiOptions& options,
             const tasks::TaskOptions& task,
             api::Server& server,
             std::uint64_t step)
        : options_(options), task_(task), server_(server), step_(step), thread_([this] {
              run();
          }) {}
    ~Follower() {
        {
            const std::lock_guard lock(mutex_);
            ending_ = true;
        }
        ended_.notify_all();
        thread_.join();
    }
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;

  private:
    void run() {
        double pause = options_.refresh;
        while (waits(pause)) {
            const double begun = peer::steady_seconds();
            look();
            pause = std::max(options_.refresh, visit_share * (peer::steady_seconds() - begun));
        }
    }
    // No: it ends.
    bool waits(double seconds) {
        std::unique_lock lock(mutex_);
        return !ended_.wait_for(
            lock, std::chrono::duration<double>(seconds), [this] { return ending_.load(); });
    }
    void look() {
        auto visited = peer::visit_run(
            options_.join_string,
            options_.directory,
            task_,
            [](const std::string&) {},
            [this] { return !ending_; });
        if (ending_) return;
        const bool is_there = static_cast<bool>(visited);
        if (is_there != was_there_)
            tell(is_there
                     ? "the run answers again"
                     : fmt::format("the run does not answer, so its state of step {} is served "
                                   "on: {}",
                                   step_,
                                   visited.failure().message));
        was_there_ = is_there;
        if (!is_there || visited->state->step() == step_) return;
        auto served = served_state(*visited);
        if (!served) return tell(served.error().message());
        step_ = served->step;
        server_.set_state(*std::move(served));
        tell(fmt::format("step {}", step_));
    }
    void tell(const std::string& line) const { peer::say(stderr, "dedloc: {}\n", line); }

    const ServeApiOptions& options_;
    const tasks::TaskOptions task_;
    api::Server& server_;
    std::uint64_t step_;
    bool was_there_ = true;
    std::atomic<bool> ending_ = false;
    std::mutex mutex_;
    std::condition_variable ended_;
    std::thread thread_;  // the last member
};

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
    auto from =
        follows ? peer::visit_run(options.join_string,
                                  options.directory,
                                  task,
                                  [](const std::string& line) { peer::say(stderr, "{}\n", line); })
                : peer::visit_checkpoint(options.checkpoint, task);
    if (!from) return peer::report(from.failure());
    auto served = served_state(*from);
    if (!served) return peer::report(peer::failure(served.error()));
    const tasks::TaskKind* kind = tasks::find_task(from->run.task.kind);
    api::ServerOptions at{.where = *where, .token = {}};
    if (!at.where.is_loopback()) at.token = web::new_token();
    auto server = api::Server::start(
        {.model = from->run.name, .writes_text = kind && kind->writes_text, .follows = follows},
        *std::move(served),
        at);
    if (!server) return peer::report(peer::failure(peer::ExitCode::port, server.error()));
    peer::catch_interrupts();
    tell_where(options, **server, at, *from);
    std::optional<Follower> follower;
    if (follows) follower.emplace(options, task, **server, from->state->step());
    from->state.reset();
    const double until = peer::steady_seconds() + options.seconds;
    while (peer::interrupts() == 0 && (options.seconds == 0 || peer::steady_seconds() < until))
        std::this_thread::sleep_for(api_look_time);
    return 0;
}

}  // namespace dedloc::cli
