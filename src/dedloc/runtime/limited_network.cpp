#include "dedloc/runtime/limited_network.h"

#include <algorithm>
#include <utility>

namespace dedloc::runtime {

struct LimitedNetwork::Ways {
    explicit Ways(Clock& clock) : up(clock), down(clock) {}
    RateLimiter up;
    RateLimiter down;
};

namespace {

using Ways = LimitedNetwork::Ways;

// Kept by reads and writes that still wait when the connection is destroyed.
struct LimitedState {
    std::unique_ptr<Connection> whole;
    std::shared_ptr<Ways> ways;
    RateLimiter::Place sending{};
    RateLimiter::Place receiving{};
    std::size_t owed = 0;  // bytes that came and are not paid
};

Task<Result<std::size_t>> read_paying(std::shared_ptr<LimitedState> state,
                                      std::span<std::uint8_t> into) {
    RateLimiter& down = state->ways->down;
    if (state->owed > 0) co_await down.wait(state->owed, state->receiving);
    state->owed = 0;
    const auto portion = into.first(std::min(into.size(), down.portion()));
    auto count = co_await state->whole->read_some(portion);
    if (count) state->owed = *count;
    co_return count;
}

Task<Result<void>> write_paying(std::shared_ptr<LimitedState> state, ByteView bytes) {
    RateLimiter& up = state->ways->up;
    while (!bytes.empty()) {
        const ByteView portion = bytes.first(std::min(bytes.size(), up.portion()));
        co_await up.wait(portion.size(), state->sending);
        auto written = co_await state->whole->write(portion);
        if (!written) co_return written;
        bytes = bytes.subspan(portion.size());
    }
    co_return Ok();
}

class LimitedConnection final : public Connection {
  public:
    LimitedConnection(std::unique_ptr<Connection> whole, std::shared_ptr<Ways> ways)
        : state_(std::make_shared<LimitedState>(std::move(whole), std::move(ways))) {}
    ~LimitedConnection() override { close(); }

    Task<Result<std::size_t>> read_some(std::span<std::uint8_t> into) override {
        if (!state_->ways->down.limits()) return state_->whole->read_some(into);
        return read_paying(state_, into);
    }
    Task<Result<void>> write(ByteView bytes) override {
        if (!state_->ways->up.limits()) return state_->whole->write(bytes);
        return write_paying(state_, bytes);
    }
    void close() override {
        state_->whole->close();
        state_->sending.leave();
        state_->receiving.leave();
    }
    SocketAddress local() const override { return state_->whole->local(); }
    SocketAddress remote() const override { return state_->whole->remote(); }
    std::optional<Duration> network_round_trip() const override {
        return state_->whole->network_round_trip();
    }

  private:
    std::shared_ptr<LimitedState> state_;
};

using Connecting = Task<Result<std::unique_ptr<Connection>>>;

Connecting limited(Connecting connecting, std::shared_ptr<Ways> ways) {
    auto connected = co_await std::move(connecting);
    if (!connected) co_return std::move(connected).error();
    std::unique_ptr<Connection> made =
        std::make_unique<LimitedConnection>(*std::move(connected), std::move(ways));
    co_return made;
}

class LimitedListener final : public Listener {
  public:
    LimitedListener(std::unique_ptr<Listener> whole, std::shared_ptr<Ways> ways)
        : whole_(std::move(whole)), ways_(std::move(ways)) {}

    Connecting accept() override { return limited(whole_->accept(), ways_); }
    SocketAddress local() const override { return whole_->local(); }
    void close() override { whole_->close(); }

  private:
    std::unique_ptr<Listener> whole_;
    std::shared_ptr<Ways> ways_;
};

}  // namespace

LimitedNetwork::LimitedNetwork(Network& line, Clock& clock)
    : line_(line), ways_(std::make_shared<Ways>(clock)) {}

void LimitedNetwork::set_caps(const LineCaps& caps) {
    caps_ = caps;
    ways_->up.set_rate(caps.up);
    ways_->down.set_rate(caps.down);
}

Connecting LimitedNetwork::connect(SocketAddress address, TimePoint deadline) {
    return limited(line_.connect(std::move(address), deadline), ways_);
}

Connecting LimitedNetwork::connect_from(std::uint16_t local_port,
                                        SocketAddress address,
                                        TimePoint deadline) {
    return limited(line_.connect_from(local_port, std::move(address), deadline), ways_);
}

Result<std::unique_ptr<Listener>> LimitedNetwork::listen(const SocketAddress& address) {
    DEDLOC_TRY(auto listener, line_.listen(address));
    std::unique_ptr<Listener> made = std::make_unique<LimitedListener>(std::move(listener), ways_);
    return made;
}

std::vector<std::string> LimitedNetwork::interface_addresses() const {
    return line_.interface_addresses();
}

std::vector<std::string> LimitedNetwork::outward_addresses() const {
    return line_.outward_addresses();
}

}  // namespace dedloc::runtime
