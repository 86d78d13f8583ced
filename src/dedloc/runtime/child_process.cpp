#include "dedloc/runtime/child_process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace dedloc::runtime {
namespace {

// Between fork and exec only async-signal-safe calls are allowed.
[[noreturn]] void say_and_exit(const char* what, const char* of) {
    for (const char* text : {"dedloc: ", what, " ", of, "\n"})
        if (::write(2, text, std::strlen(text)) < 0) break;
    ::_exit(127);
}

[[noreturn]] void become(
    char* const* arguments, int output, int error, const ChildOptions& options, pid_t parent) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);  // it died before the line above
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, 0);
    ::dup2(output, 1);
    ::dup2(error, 2);
    // Sockets are made without CLOEXEC: whatever the child leaves running would keep our port, and
    // connections whose peers then never hear that we are gone.
    ::closefrom(3);
    ::signal(SIGPIPE, SIG_DFL);  // what we ignore it would, too
    if (options.niceness != 0) ::setpriority(PRIO_PROCESS, 0, options.niceness);
    if (options.data_bytes_max > 0) {
        const rlimit limit{.rlim_cur = options.data_bytes_max, .rlim_max = options.data_bytes_max};
        if (::setrlimit(RLIMIT_DATA, &limit) != 0)
            say_and_exit("cannot limit memory of", arguments[0]);
    }
    ::execv(arguments[0], arguments);
    say_and_exit("cannot run", arguments[0]);
}

Result<int> open_output(const std::string& path) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return make_error(
            ErrorKind::local_fault, "cannot write {}: {}", path, std::strerror(errno));
    return file;
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const ChildOptions& options) {
    DEDLOC_CHECK(!options.command.empty());
    DEDLOC_TRY(const int output, open_output(options.output_file));
    auto error = open_output(options.error_file);
    if (!error) {
        ::close(output);
        return error.error();
    }
    std::vector<std::string> command = options.command;
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) become(arguments.data(), output, *error, options, parent);
    const int fork_error = errno;
    ::close(output);
    ::close(*error);
    if (pid < 0)
        return make_error(ErrorKind::local_fault,
                          "cannot start {}: {}",
                          options.command.front(),
                          std::strerror(fork_error));
    return ChildProcess(pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), end_(other.end_) {}

ChildProcess::~ChildProcess() {
    if (pid_ <= 0 || end_) return;
    kill_group();
    if (end_) return;
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
}

bool ChildProcess::running() {
    if (end_) return false;
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return true;
    end_ = ChildEnd{};
    if (ended > 0 && WIFEXITED(status)) end_->exit_code = WEXITSTATUS(status);
    if (ended > 0 && WIFSIGNALED(status)) end_->signal = WTERMSIG(status);
    return false;
}

void ChildProcess::send(int signal) {
    if (running()) ::kill(pid_, signal);
}

void ChildProcess::kill_group() {
    if (!running()) return;
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);  // a moment after the fork it has no group of its own yet
}

bool ChildProcess::wait_for(double seconds) {
    // A pidfd becomes readable when the process ends; without one, short polls do.
    const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    double left = seconds;
    while (running() && left > 0) {
        const double slice = descriptor >= 0 ? left : std::min(left, 0.02);
        pollfd waited{.fd = descriptor, .events = POLLIN, .revents = 0};
        const int milliseconds = static_cast<int>(std::clamp(slice, 0.001, 600.0) * 1000);
        ::poll(&waited, descriptor >= 0 ? 1 : 0, milliseconds);
        left -= slice;
    }
    if (descriptor >= 0) ::close(descriptor);
    return !running();
}

}  // namespace dedloc::runtime
