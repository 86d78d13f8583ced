#include "dedloc/runtime/router_port_mapper.h"

#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/program_beside.h"
#include "dedloc/runtime/router_words.h"

namespace dedloc::runtime {

namespace {

constexpr std::string_view helper_name = "dedloc-ask-router";

// A helper that runs, and the end of the pipe that it answers by. Its end is ours.
class Helper {
  public:
    static Result<std::unique_ptr<Helper>> start(Executor executor,
                                                 std::vector<std::string> command);
    ~Helper() {
        ::kill(pid_, SIGKILL);
        while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
    Helper(const Helper&) = delete;
    Helper& operator=(const Helper&) = delete;

    asio::posix::stream_descriptor& pipe() { return pipe_; }

  private:
    Helper(Executor executor, int pipe, pid_t pid) : pipe_(std::move(executor), pipe), pid_(pid) {}
    asio::posix::stream_descriptor pipe_;
    pid_t pid_;
};

// Not fork: this process may be large, and its threads must not wait while its pages are copied.
int spawn(std::vector<std::string>& command, int output, pid_t* pid) {
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, output, 1);
    ::posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addclosefrom_np(&files, 3);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setpgroup(&attributes, 0);  // the terminal's Ctrl-C is for us
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    std::array<char*, 1> environment{nullptr};
    const int error =
        ::posix_spawn(pid, arguments[0], &files, &attributes, arguments.data(), environment.data());
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
    return error;
}

Result<std::unique_ptr<Helper>> Helper::start(Executor executor, std::vector<std::string> command) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return make_error(ErrorKind::local_fault, "no pipe: {}", std::strerror(errno));
    pid_t pid = 0;
    const int error = spawn(command, ends[1], &pid);
    ::close(ends[1]);
    if (error != 0) {
        ::close(ends[0]);
        return make_error(ErrorKind::local_fault,
                          "the helper program {} cannot be started: {}; it is built and installed "
                          "together with dedloc",
                          command.front(),
                          std::strerror(error));
    }
    return std::unique_ptr<Helper>(new Helper(std::move(executor), ends[0], pid));
}

// All that the helper says, up to the limit and one byte.
Task<Result<std::string>> hear(Executor executor, std::vector<std::string> command) {
    auto started = Helper::start(std::move(executor), std::move(command));
    if (!started) co_return std::move(started).error();
    const std::unique_ptr<Helper> helper = *std::move(started);
    std::string said(router_answer_bytes_max + 1, '\0');
    const auto buffer = asio::buffer(said);
    std::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const std::size_t count = co_await asio::async_read(helper->pipe(), buffer, token);
    if (error == asio::error::operation_aborted)
        throw std::system_error(error);  // the Task was cancelled
    said.resize(count);
    co_return said;
}

class RouterPortMapper final : public PortMapper {
  public:
    RouterPortMapper(Executor executor, Clock& clock, std::string program)
        : executor_(std::move(executor)), clock_(clock), program_(std::move(program)) {}

    Task<Result<PortMapping>> map(PortWish wish, TimePoint deadline) override {
        auto said = co_await ask(words_for(wish), deadline);
        if (!said) co_return std::move(said).error();
        co_return parse_mapped(*said, wish.internal_port);
    }

    Task<Result<void>> unmap(PortMapping mapping, TimePoint deadline) override {
        auto said = co_await ask(words_for_removal(mapping), deadline);
        if (!said) co_return std::move(said).error();
        co_return parse_unmapped(*said);
    }

  private:
    Task<Result<std::string>> ask(std::vector<std::string> words, TimePoint deadline) {
        words.insert(words.begin(), program_);
        auto hearing = hear(executor_, std::move(words));
        auto said =
            co_await with_deadline(clock_, deadline, "asking the router", std::move(hearing));
        co_return said;
    }

    Executor executor_;
    Clock& clock_;
    std::string program_;
};

}  // namespace

std::unique_ptr<PortMapper> router_port_mapper(Executor executor,
                                               Clock& clock,
                                               std::string program) {
    if (program.empty()) program = program_beside(helper_name);
    return std::make_unique<RouterPortMapper>(std::move(executor), clock, std::move(program));
}

}  // namespace dedloc::runtime
