#include "tests/netns/nat_wan.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <future>
#include <linux/if_tun.h>
#include <map>
#include <net/if.h>
#include <optional>
#include <queue>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <thread>
#include <unistd.h>

namespace dedloc::lab {
namespace {

using Frame = std::shared_ptr<std::vector<std::uint8_t>>;
constexpr std::size_t frame_bytes_max = 65536;
constexpr std::size_t frame_bytes_min = 14;
constexpr int frames_in_a_row_max = 64;
constexpr std::size_t frames_waiting_max = 1u << 16;
constexpr std::uint32_t timer_tag = 1u << 20;
constexpr std::uint32_t stop_tag = timer_tag + 1;

std::int64_t nanoseconds() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class Descriptor {
  public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    int get() const { return fd_; }

  private:
    int fd_;
};

// One direction of a line: a queue of which only its end is remembered.
struct Line {
    double bytes_per_s = 0;
    std::int64_t queue = 0;
    std::int64_t free_at = 0;

    // When the frame has left; nullopt: dropped.
    std::optional<std::int64_t> send(std::int64_t now, std::size_t bytes) {
        if (bytes_per_s <= 0) return now;
        const std::int64_t start = std::max(now, free_at);
        if (start - now > queue) return std::nullopt;
        free_at = start + static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / bytes_per_s);
        return free_at;
    }
};

struct Port {
    Descriptor tap;
    std::int64_t delay;
    Line up;
    Line down;
};

struct Flight {
    std::int64_t at;
    std::uint64_t number;
    std::uint32_t port;
    bool arrives;  // at `port`; else it has just crossed from there
    Frame frame;
    bool operator<(const Flight& other) const {
        return at != other.at ? at > other.at : number > other.number;
    }
};

std::uint64_t mac(const std::uint8_t* bytes) {
    std::uint64_t address = 0;
    std::memcpy(&address, bytes, 6);
    return address;
}

Error failed(const std::string& what) {
    return make_error(ErrorKind::local_fault, "{}: {}", what, std::strerror(errno));
}

// In the calling thread's namespace afterwards: that of `name`.
Result<Descriptor> open_tap(const WanPort& port) {
    const std::string path = "/run/netns/" + port.netns;
    const Descriptor netns(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (netns.get() < 0 || ::setns(netns.get(), CLONE_NEWNET) != 0) return failed(path);
    Descriptor tap(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (tap.get() < 0) return failed("/dev/net/tun");
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    std::snprintf(request.ifr_name, sizeof request.ifr_name, "%s", port.device.c_str());
    if (::ioctl(tap.get(), TUNSETIFF, &request) != 0) return failed("a TAP device");
    return tap;
}

class Switch {
  public:
    explicit Switch(int stop) : stop_(stop) {}

    Ok open(const std::vector<WanPort>& ports) {
        for (const WanPort& port : ports) {
            DEDLOC_TRY(Descriptor tap, open_tap(port));
            const Line line{.bytes_per_s = port.bytes_per_s, .queue = port.queue.count()};
            ports_.push_back({std::move(tap), port.delay.count(), line, line});
        }
        for (std::uint32_t i = 0; i < ports_.size(); ++i) watch(ports_[i].tap.get(), i);
        watch(timer_.get(), timer_tag);
        watch(stop_, stop_tag);
        return {};
    }

    void run() {
        std::array<epoll_event, 32> events{};
        for (;;) {
            const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
            for (int i = 0; i < count; ++i) {
                const std::uint32_t tag = events[static_cast<std::size_t>(i)].data.u32;
                if (tag == stop_tag) return;
                if (tag == timer_tag) {
                    std::uint64_t expirations = 0;
                    (void)!::read(timer_.get(), &expirations, sizeof expirations);
                } else {
                    receive_frames(tag);
                }
            }
            deliver(nanoseconds());
            set_timer();
        }
    }

  private:
    void watch(int fd, std::uint32_t tag) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u32 = tag;
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
    }

    void receive_frames(std::uint32_t from) {
        Port& port = ports_[from];
        for (int i = 0; i < frames_in_a_row_max; ++i) {
            const ssize_t size = ::read(port.tap.get(), buffer_.data(), buffer_.size());
            if (size < static_cast<ssize_t>(frame_bytes_min)) return;
            const auto left = port.up.send(nanoseconds(), static_cast<std::size_t>(size));
            if (!left || flights_.size() >= frames_waiting_max) continue;
            where_[mac(buffer_.data() + 6)] = from;
            auto frame =
                std::make_shared<std::vector<std::uint8_t>>(buffer_.data(), buffer_.data() + size);
            flights_.push({*left + port.delay, ++numbers_, from, false, std::move(frame)});
        }
    }

    void deliver(std::int64_t now) {
        while (!flights_.empty() && flights_.top().at <= now) {
            const Flight flight = flights_.top();
            flights_.pop();
            if (flight.arrives) {
                (void)!::write(
                    ports_[flight.port].tap.get(), flight.frame->data(), flight.frame->size());
                continue;
            }
            const auto known = where_.find(mac(flight.frame->data()));
            for (std::uint32_t to = 0; to < ports_.size(); ++to) {
                if (to == flight.port || (known != where_.end() && known->second != to)) continue;
                const auto at = ports_[to].down.send(flight.at, flight.frame->size());
                if (at) flights_.push({*at, ++numbers_, to, true, flight.frame});
            }
        }
    }

    void set_timer() {
        itimerspec next{};
        if (!flights_.empty()) {
            next.it_value.tv_sec = flights_.top().at / 1'000'000'000;
            next.it_value.tv_nsec = flights_.top().at % 1'000'000'000;
        }
        ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &next, nullptr);
    }

    int stop_;
    Descriptor epoll_{::epoll_create1(EPOLL_CLOEXEC)};
    Descriptor timer_{::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)};
    std::vector<Port> ports_;
    std::priority_queue<Flight> flights_;
    std::map<std::uint64_t, std::uint32_t> where_;  // MAC address: port
    std::uint64_t numbers_ = 0;
    std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(frame_bytes_max);
};

}  // namespace

struct NatWan::State {
    Descriptor stop{::eventfd(0, EFD_CLOEXEC)};
    std::thread thread;
};

NatWan::NatWan(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<NatWan>> NatWan::start(std::vector<WanPort> ports) {
    auto state = std::make_unique<State>();
    std::promise<Ok> opened;
    auto outcome = opened.get_future();
    // A thread is in the namespace of the port it opened last, and does nothing else there.
    state->thread = std::thread([&opened, ports = std::move(ports), stop = state->stop.get()] {
        Switch network(stop);
        // A line does not slow down because the machine is busy.
        const sched_param priority{.sched_priority = 1};
        (void)::pthread_setschedparam(::pthread_self(), SCHED_RR, &priority);
        Ok ready = network.open(ports);
        const bool go_on = ready.has_value();
        opened.set_value(std::move(ready));
        if (go_on) network.run();
    });
    Ok ready = outcome.get();
    std::unique_ptr<NatWan> wan(new NatWan(std::move(state)));
    if (!ready) return std::move(ready).error();
    return wan;
}

NatWan::~NatWan() {
    const std::uint64_t one = 1;
    (void)!::write(state_->stop.get(), &one, sizeof one);
    state_->thread.join();
}

}  // namespace dedloc::lab
