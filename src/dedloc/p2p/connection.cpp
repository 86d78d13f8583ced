#include "dedloc/p2p/connection.h"

#include <algorithm>
#include <utility>

namespace dedloc::p2p {

namespace {

// Frames with smaller payloads share a TLS record; larger payloads are encrypted where they lie.
constexpr std::size_t copied_payload_bytes_max = 4u << 10;
constexpr std::size_t record_bytes_max = 16u << 10;
// So many small reads in a row, and the buffer shrinks again.
constexpr int small_reads_max = 32;
// How long a go-away may take to leave.
constexpr Duration last_words_max = 1s;

// Decrypted bytes go straight to the buffers of those who read.
class SessionReader final : public security::PlainReader {
  public:
    explicit SessionReader(transport::YamuxSession& session) : session_(session) {}
    std::span<std::uint8_t> place() override { return session_.place(); }
    Ok take(ByteView plain) override { return session_.feed(plain); }

  private:
    transport::YamuxSession& session_;
};

transport::YamuxOptions yamux_options(bool is_client, const PeerConnection::Settings& settings) {
    runtime::Clock& clock = settings.clock;
    transport::YamuxOptions options{.is_client = is_client,
                                    .now = [&clock] { return clock.now(); },
                                    .memory = settings.memory,
                                    .is_needed = settings.is_needed,
                                    .keep_alive_interval = settings.keep_alive_interval,
                                    .keep_alive_answer_max = settings.keep_alive_answer_max};
    if (settings.origin.lanes > 1) {
        options.windows_start_grown = true;
        options.window_max = transport::lane_window_bytes_max;
        options.growth_max = transport::lane_window_growth_bytes_max;
    }
    return options;
}

}  // namespace

// A place in the queue of those who wait to open a stream. Whoever leaves without using the turn
// it was given passes it on.
class PeerConnection::RoomTicket {
  public:
    explicit RoomTicket(PeerConnection& connection)
        : connection_(connection),
          turn_(std::make_shared<runtime::Event>(connection.settings_.executor)) {
        connection_.openers_.push_back(turn_);
    }
    ~RoomTicket() {
        const auto erased = std::erase(connection_.openers_, turn_);
        if (erased == 0 && !used_) connection_.wake_next_opener();
    }
    RoomTicket(const RoomTicket&) = delete;
    RoomTicket& operator=(const RoomTicket&) = delete;

    runtime::Event& turn() { return *turn_; }
    void use() { used_ = true; }

  private:
    PeerConnection& connection_;
    std::shared_ptr<runtime::Event> turn_;
    bool used_ = false;
};

PeerConnection::PeerConnection(transport::SecureConnection secured, Settings settings)
    : raw_(std::move(secured.raw)),
      channel_(std::move(secured.channel)),
      remote_(std::move(secured.remote)),
      is_dialler_(secured.is_dialler),
      security_(std::move(secured.security)),
      settings_(std::move(settings)),
      opened_at_(settings_.clock.now()),
      session_(yamux_options(is_dialler_, settings_)),
      output_(settings_.executor),
      tick_(settings_.executor) {
    session_.on_output = [this] { output_.set(); };
    session_.on_room = [this] { wake_next_opener(); };
    session_.on_inbound = [this](std::shared_ptr<transport::YamuxStream> stream) {
        if (on_inbound)
            on_inbound(std::move(stream));
        else
            stream->reset();
    };
}

PeerConnection::~PeerConnection() = default;

void PeerConnection::start(runtime::Scope& scope) {
    scope.spawn("p2p reader", read_loop(shared_from_this()));
    scope.spawn("p2p writer", write_loop(shared_from_this()));
    scope.spawn("p2p keep-alive", keep_alive_loop(shared_from_this()));
}

void PeerConnection::close(Error reason) {
    if (std::exchange(closed_, true)) return;
    const Self keep = shared_from_this();
    raw_->close();
    session_.abort(reason);
    output_.set();
    tick_.set();
    for (const auto& turn : std::exchange(openers_, {})) turn->set();
    if (const auto listener = std::exchange(on_closed, nullptr)) listener(reason);
}

void PeerConnection::close_gently(Error reason) {
    if (closed_ || closing_) return;
    closing_ = std::move(reason);
    output_.set();
}

void PeerConnection::probe(Duration answer_max) {
    session_.probe(answer_max);
    tick_.set();
}

// ------------------------------------------------------------------------------------- streams

void PeerConnection::wake_next_opener() {
    if (openers_.empty()) return;
    const auto turn = std::move(openers_.front());
    openers_.pop_front();
    turn->set();
}

TimePoint PeerConnection::used_at() {
    if (session_.streams_count() > 0) used_at_ = settings_.clock.now();
    return used_at_;
}

std::unique_ptr<transport::Stream> PeerConnection::adopt(
    std::shared_ptr<transport::YamuxStream> stream) {
    used_at_ = settings_.clock.now();
    return std::make_unique<transport::Stream>(
        std::move(stream), remote_, settings_.executor, settings_.clock);
}

Task<Result<std::unique_ptr<transport::Stream>>> PeerConnection::open_stream(TimePoint deadline) {
    const Self keep = shared_from_this();
    for (;;) {
        if (closed_) co_return Error(ErrorKind::peer_gone, "the connection was lost");
        auto opened = session_.open();
        if (opened) co_return adopt(*std::move(opened));
        if (opened.error().kind() != ErrorKind::overloaded) co_return std::move(opened).error();
        RoomTicket ticket(*this);
        const bool woken = co_await ticket.turn().wait_until(settings_.clock, deadline);
        if (!woken)
            co_return make_error(
                ErrorKind::timeout, "peer {} accepts no more streams", remote_.short_text());
        ticket.use();
    }
}

// --------------------------------------------------------------------------------------- tasks

void PeerConnection::moved(std::size_t bytes) {
    rate_.moved(bytes, settings_.clock.now());
    moved_untold_ += bytes;
    if (moved_untold_ < transport::lane_consider_bytes) return;
    moved_untold_ = 0;
    if (on_busy) on_busy();
}

bool PeerConnection::is_stranger() const {
    return settings_.strangers_turn && !(settings_.is_needed && settings_.is_needed());
}

void PeerConnection::spend_read(std::uint64_t frames_before) {
    const auto frames = static_cast<std::int64_t>(session_.frames_received() - frames_before);
    const StrangerBudget::Cost cost{.work = read_cost + frames * frame_cost, .bytes = 0};
    settings_.spend(remote_, cost);
}

Ok PeerConnection::take_plain() {
    const Bytes plain = channel_->take_plain();
    return session_.feed(plain);
}

Task<void> PeerConnection::read_loop(Self self) {
    Bytes cipher(read_buffer_bytes_min);
    int small_reads = 0;
    // The handshake may have brought application bytes along.
    Ok state = self->take_plain();
    SessionReader to_session(self->session_);
    while (state && !self->closed_) {
        const bool is_stranger = self->is_stranger();
        if (is_stranger) {
            const PeerId peer = self->remote_;
            co_await self->settings_.strangers_turn(peer);
            if (self->closed_) co_return;
        }
        auto count = co_await self->raw_->read_some(cipher);
        if (self->closed_) co_return;
        if (!count) {
            self->close(std::move(count).error());
            co_return;
        }
        if (*count == 0) {
            self->close(Error(ErrorKind::peer_gone, "the peer closed the connection"));
            co_return;
        }
        self->moved(*count);
        if (self->settings_.traffic) self->settings_.traffic->received(*count);
        const std::uint64_t frames = self->session_.frames_received();
        state = self->channel_->feed_to(ByteView(cipher).first(*count), to_session);
        if (is_stranger) {
            self->spend_read(frames);
            continue;  // with a small buffer, so that its turn is short
        }
        small_reads = *count < read_buffer_bytes_min / 2 ? small_reads + 1 : 0;
        if (*count == cipher.size() && cipher.size() < read_buffer_bytes_max) {
            cipher.resize(2 * cipher.size());
        } else if (small_reads > small_reads_max && cipher.size() > read_buffer_bytes_min) {
            cipher = Bytes(read_buffer_bytes_min);
        }
    }
    if (!state) self->close_gently(state.error());
}

// A batch of frames, encrypted.
Result<Bytes> PeerConnection::next_batch() {
    Ok state;
    const auto flush = [&] {
        if (state && !plain_out_.empty()) state = channel_->encrypt(plain_out_);
        plain_out_.clear();
    };
    const auto sink = [&](ByteView header, ByteView payload) {
        base::append(plain_out_, header);
        if (payload.size() <= copied_payload_bytes_max) {
            base::append(plain_out_, payload);
            if (plain_out_.size() >= record_bytes_max - copied_payload_bytes_max) flush();
            return;
        }
        flush();
        if (state) state = channel_->encrypt(payload);
    };
    session_.pull(batch_bytes_, sink);
    flush();
    if (!state) return std::move(state).error();
    return channel_->take_output();
}

// A batch is what the line takes in a moment: what is small and urgent comes after it.
void PeerConnection::fit_batch(std::size_t written, Duration took) {
    if (took > write_batch_time) {
        const double share = to_seconds(write_batch_time) / to_seconds(took);
        const auto fitting = static_cast<std::size_t>(static_cast<double>(written) * share);
        batch_bytes_ = std::clamp(fitting, write_batch_bytes_min, batch_bytes_);
    } else if (took < write_batch_time / 2 && written * 2 > batch_bytes_) {
        batch_bytes_ = std::min(batch_bytes_ * 2, write_batch_bytes_max);
    }
}

Task<void> PeerConnection::write_loop(Self self) {
    runtime::Clock& clock = self->settings_.clock;
    const auto give_up = [self] {
        self->close(Error(ErrorKind::peer_gone, "the peer's machine takes no more bytes"));
    };
    while (!self->closed_) {
        if (!self->session_.has_output()) {
            if (self->closing_) break;
            self->output_.reset();
            co_await self->output_.wait();
            continue;
        }
        auto batch = self->next_batch();
        if (self->closed_) break;
        if (!batch) {
            self->close(std::move(batch).error());
            co_return;
        }
        Bytes bytes = *std::move(batch);
        const Duration timeout = self->closing_ ? last_words_max : write_stall_max;
        const runtime::TimerGuard guard(clock, clock.call_at(clock.now() + timeout, give_up));
        const TimePoint begun = clock.now();
        auto written = co_await self->raw_->write(bytes);
        if (!written) {
            self->close(std::move(written).error());
            co_return;
        }
        self->fit_batch(bytes.size(), clock.now() - begun);
        self->moved(bytes.size());
        if (self->settings_.traffic) self->settings_.traffic->sent(bytes.size());
        self->channel_->recycle(std::move(bytes));
    }
    if (self->closing_) self->close(*self->closing_);
}

Task<void> PeerConnection::keep_alive_loop(Self self) {
    runtime::Clock& clock = self->settings_.clock;
    while (!self->closed_) {
        const auto alive = self->session_.tick();
        if (!alive) {
            self->close(alive.error());
            co_return;
        }
        self->tick_.reset();
        const TimePoint next = self->session_.next_tick();
        co_await self->tick_.wait_until(clock, next);
    }
}

}  // namespace dedloc::p2p
