#include "dedloc/cli/interrupts.h"

#include <atomic>
#include <signal.h>
#include <unistd.h>

namespace dedloc::cli {
namespace {

std::atomic<int> interrupts_seen{0};
std::atomic<bool> force_on_second{false};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int) {
    if (interrupts_seen.fetch_add(1, std::memory_order_relaxed) == 0) return;
    if (!force_on_second.load(std::memory_order_relaxed)) return;
    // Only async-signal-safe calls: give the cursor back and go. Votes and counters on disk are
    // durable before they are used, so nothing is lost but unfinished work.
    static constexpr char show_cursor[] = "\x1b[?25h";
    if (::isatty(STDOUT_FILENO) == 1) {
        const ssize_t ignored = ::write(STDOUT_FILENO, show_cursor, sizeof show_cursor - 1);
        (void)ignored;
    }
    ::_exit(130);
}

}  // namespace

void catch_interrupts(SecondInterrupt second) {
    force_on_second = second == SecondInterrupt::ends_at_once;
    struct sigaction action {};
    action.sa_handler = on_signal;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    // Whoever started us with nohup wants us to stay when the terminal closes.
    struct sigaction before {};
    ::sigaction(SIGHUP, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

int interrupts() { return interrupts_seen.load(std::memory_order_relaxed); }

}  // namespace dedloc::cli
