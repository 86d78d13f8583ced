#include "dedloc/runtime/rate_limiter.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

namespace dedloc::runtime {

namespace {

// A timer that is due a rounding error too early would be due again at once, for ever.
constexpr Duration timer_lateness{1'000};

}  // namespace

// Shared with the timer, which may outlive the limiter.
struct RateLimiter::State : std::enable_shared_from_this<State> {
    explicit State(Clock& its_clock) : clock(its_clock) {}

    struct Waiter {
        std::shared_ptr<Parked> parked;
        std::size_t bytes;
    };

    double depth() const {
        return std::max(rate * to_seconds(burst_time), static_cast<double>(burst_bytes_min));
    }
    void fill() {
        const TimePoint now = clock.now();
        tokens = std::min(depth(), tokens + rate * to_seconds(now - filled_at));
        filled_at = now;
    }
    double missing(std::size_t bytes) const {
        return std::min(static_cast<double>(bytes), depth()) - tokens;
    }
    bool take(std::size_t bytes) {
        if (rate <= 0) return true;
        fill();
        if (missing(bytes) > 0) return false;
        tokens -= static_cast<double>(bytes);
        return true;
    }
    void serve() {
        while (!waiters.empty()) {
            const Waiter& first = waiters.front();
            if (!first.parked->done()) {
                if (!take(first.bytes)) return arm(missing(first.bytes));
                first.parked->resume();
            }
            waiters.pop_front();
        }
    }
    void arm(double bytes) {
        if (timer != 0) return;
        const Duration wait = from_seconds(bytes / rate) + timer_lateness;
        timer = clock.call_at(clock.now() + wait, [weak = weak_from_this()] {
            const auto self = weak.lock();
            if (!self) return;
            self->timer = 0;
            self->serve();
        });
    }

    Clock& clock;
    double rate = 0;  // bytes per second; 0: no limit
    double tokens = 0;
    TimePoint filled_at;
    TimerId timer = 0;
    std::deque<Waiter> waiters;
};

RateLimiter::RateLimiter(Clock& clock) : state_(std::make_shared<State>(clock)) {}
RateLimiter::~RateLimiter() = default;

void RateLimiter::set_rate(double bytes_per_s) {
    State& state = *state_;
    const bool begins = state.rate <= 0;
    if (!begins) state.fill();
    state.rate = bytes_per_s;
    state.tokens = begins ? state.depth() : std::min(state.tokens, state.depth());
    state.filled_at = state.clock.now();
    state.clock.cancel_timer(std::exchange(state.timer, 0));
    state.serve();
}

bool RateLimiter::limits() const { return state_->rate > 0; }

std::size_t RateLimiter::portion() const {
    if (!limits()) return std::numeric_limits<std::size_t>::max();
    const double bytes = state_->rate * to_seconds(portion_time);
    return static_cast<std::size_t>(std::clamp(
        bytes, static_cast<double>(portion_bytes_min), static_cast<double>(portion_bytes_max)));
}

Task<void> RateLimiter::wait(std::size_t bytes, Place& place) {
    const auto state = state_;
    if (state->waiters.empty() && state->take(bytes)) co_return;
    auto start = [&state, &place, bytes](std::shared_ptr<Parked> parked) {
        place.waiting_ = parked;
        state->waiters.push_back({std::move(parked), bytes});
        // Only those who gave up may be before us.
        state->serve();
    };
    co_await park(start);
    place.waiting_.reset();
}

}  // namespace dedloc::runtime
