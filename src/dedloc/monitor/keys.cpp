#include "dedloc/monitor/keys.h"

#include <atomic>
#include <cerrno>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

namespace dedloc::monitor {
namespace {

constexpr std::size_t keys_at_once_max = 64;

// The terminal that a Keys of this process has changed, and how it was; -1: none.
std::atomic<int> changed_terminal{-1};
termios modes_before{};
static_assert(std::atomic<int>::is_always_lock_free);

// Whether its keys are ours. What is not our controlling terminal asks nobody for that.
bool is_in_foreground(int terminal) {
    const pid_t group = ::tcgetpgrp(terminal);
    return group == -1 ? errno == ENOTTY : group == ::getpgrp();
}

// The system stops a process of the background that reads or changes its terminal, and one may be
// put there between a question and a call: meanwhile those signals wait, and the call fails.
class StopsBlocked {
  public:
    StopsBlocked() {
        sigset_t stops;
        sigemptyset(&stops);
        sigaddset(&stops, SIGTTIN);
        sigaddset(&stops, SIGTTOU);
        ::pthread_sigmask(SIG_BLOCK, &stops, &before_);
    }
    ~StopsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    StopsBlocked(const StopsBlocked&) = delete;
    StopsBlocked& operator=(const StopsBlocked&) = delete;

  private:
    sigset_t before_{};
};

bool is_readable(int descriptor) {
    pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
    return ::poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0;
}

}  // namespace

bool Keys::are_there() const { return descriptor_ >= 0 && ::isatty(descriptor_) == 1; }

// A shell may have given the terminal its own modes while the process was stopped, so each call
// looks.
bool Keys::begin() {
    termios modes{};
    if (::tcgetattr(descriptor_, &modes) != 0) return false;
    if ((modes.c_lflag & (ICANON | ECHO)) == 0) return true;
    if (changed_terminal.load() < 0) modes_before = modes;
    changed_terminal = descriptor_;
    modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    modes.c_cc[VMIN] = 0;
    modes.c_cc[VTIME] = 0;
    return ::tcsetattr(descriptor_, TCSANOW, &modes) == 0;
}

std::string Keys::take() {
    if (!are_there()) return {};
    const StopsBlocked blocked;
    if (!is_in_foreground(descriptor_) || !begin() || !is_readable(descriptor_)) return {};
    char typed[keys_at_once_max];
    const ssize_t size = ::read(descriptor_, typed, sizeof typed);
    return size > 0 ? std::string(typed, static_cast<std::size_t>(size)) : std::string();
}

void Keys::close() {
    if (descriptor_ < 0 || changed_terminal.load() != descriptor_) return;
    const StopsBlocked blocked;
    give_terminal_back();
}

void give_terminal_back() {
    const int terminal = changed_terminal.exchange(-1);
    if (terminal >= 0 && is_in_foreground(terminal)) ::tcsetattr(terminal, TCSANOW, &modes_before);
}

}  // namespace dedloc::monitor
