#include "dedloc/peer/interrupts.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "dedloc/monitor/keys.h"

namespace dedloc::peer {
namespace {

constexpr std::int64_t one_interrupt_ns = 100'000'000;

std::atomic<int> interrupts_seen{0};
std::atomic<std::int64_t> first_interrupt_ns{0};  // 0: there was none
std::atomic<bool> force_on_second{false};
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::atomic<const char*> farewell_words{nullptr};

std::int64_t monotonic_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Only async-signal-safe calls. Nobody meant twice what `timeout` sends to its child and then to
// the child's group, nor the SIGHUP of a terminal that closes: one is the shell's, one the
// kernel's.
void on_signal(int signal) {
    const std::int64_t now = monotonic_ns();
    std::int64_t first = 0;
    const bool is_first = first_interrupt_ns.compare_exchange_strong(first, now);
    if (!is_first && (signal == SIGHUP || now - first < one_interrupt_ns)) return;
    interrupts_seen.fetch_add(1, std::memory_order_relaxed);
    if (is_first || !force_on_second.load(std::memory_order_relaxed)) return;
    // The terminal has its cursor and its modes back. Votes and counters on disk are durable before
    // they are used, so nothing is lost but unfinished work.
    static constexpr char show_cursor[] = "\x1b[?25h";
    if (::isatty(STDOUT_FILENO) == 1) {
        const ssize_t ignored = ::write(STDOUT_FILENO, show_cursor, sizeof show_cursor - 1);
        (void)ignored;
    }
    monitor::give_terminal_back();
    ::_exit(130);
}

void say_and_end(int) {
    if (const char* words = farewell_words.load()) {
        const ssize_t ignored = ::write(STDERR_FILENO, words, std::strlen(words));
        (void)ignored;
    }
    ::_exit(130);
}

void handle_signals(void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    // A user that started us with nohup wants us to stay when the terminal closes.
    struct sigaction before {};
    ::sigaction(SIGHUP, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

}  // namespace

void catch_interrupts(SecondInterrupt second) {
    force_on_second = second == SecondInterrupt::ends_at_once;
    handle_signals(on_signal);
}

void end_when_interrupted(const char* words) {
    farewell_words = words;
    handle_signals(say_and_end);
}

int interrupts() { return interrupts_seen.load(std::memory_order_relaxed); }

}  // namespace dedloc::peer
