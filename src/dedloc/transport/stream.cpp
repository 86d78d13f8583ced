#include "dedloc/transport/stream.h"

#include <utility>

#include "dedloc/wire/multistream.h"

namespace dedloc::transport {

namespace {

// Takes the reader's buffer away from the stream even when the reading Task is cancelled.
class SinkGuard {
  public:
    explicit SinkGuard(std::shared_ptr<YamuxStream> stream) : stream_(std::move(stream)) {}
    ~SinkGuard() { stream_->read_into({}); }
    SinkGuard(const SinkGuard&) = delete;
    SinkGuard& operator=(const SinkGuard&) = delete;

  private:
    std::shared_ptr<YamuxStream> stream_;
};

// Counts the bytes of a message until it is complete, or nobody waits for the rest any more.
class KeepGuard {
  public:
    explicit KeepGuard(std::shared_ptr<YamuxStream> stream) : stream_(std::move(stream)) {}
    ~KeepGuard() { stream_->keep(0); }
    KeepGuard(const KeepGuard&) = delete;
    KeepGuard& operator=(const KeepGuard&) = delete;
    void add(std::size_t bytes) { stream_->keep(bytes_ += bytes); }

  private:
    std::shared_ptr<YamuxStream> stream_;
    std::size_t bytes_ = 0;
};

}  // namespace

Stream::Stream(std::shared_ptr<YamuxStream> yamux,
               PeerId remote,
               runtime::Executor executor,
               runtime::Clock& clock)
    : yamux_(std::move(yamux)),
      remote_(std::move(remote)),
      clock_(clock),
      readable_(executor),
      drained_(executor) {
    yamux_->on_readable = [this] {
        readable_.set();
        if (watcher_ && !watches_failures_only_) std::exchange(watcher_, nullptr)();
    };
    yamux_->on_drained = [this] { drained_.set(); };
    yamux_->on_failed = [this] {
        if (watcher_) std::exchange(watcher_, nullptr)();
    };
}

Stream::~Stream() { yamux_->release(); }

void Stream::watch(std::function<void()> on_event, bool failures_only) {
    const bool happened =
        yamux_->failure().has_value() || (!failures_only && has_ended_or_has_bytes());
    if (happened) {
        on_event();
        return;
    }
    watcher_ = std::move(on_event);
    watches_failures_only_ = failures_only;
}

void Stream::unwatch() { watcher_ = nullptr; }

Error Stream::failure_or_end() const {
    if (yamux_->failure()) return *yamux_->failure();
    return Error(ErrorKind::peer_gone, "the stream ended in the middle of a message");
}

Task<Result<void>> Stream::readable() {
    while (!has_ended_or_has_bytes() && !yamux_->failure()) {
        readable_.reset();
        const bool woken = co_await readable_.wait_until(clock_, deadline_);
        if (!woken) co_return Error(ErrorKind::timeout, "the peer did not answer in time");
    }
    if (yamux_->failure() && !has_ended_or_has_bytes()) co_return *yamux_->failure();
    co_return Ok();
}

Task<Result<bool>> Stream::read_exactly(std::span<std::uint8_t> into) {
    if (!proposed_.empty()) {
        auto confirmed = co_await confirm();
        if (!confirmed) co_return std::move(confirmed).error();
    }
    const std::size_t size = into.size();
    const std::size_t filled = yamux_->read_some(into);
    if (filled == size) co_return true;
    const SinkGuard guard(yamux_);
    yamux_->read_into(into, filled);
    while (yamux_->read_into_left() > 0) {
        if (yamux_->failure()) co_return *yamux_->failure();
        if (yamux_->remote_finished()) {
            if (yamux_->read_into_left() == size) co_return false;
            co_return failure_or_end();
        }
        readable_.reset();
        const bool woken = co_await readable_.wait_until(clock_, deadline_);
        if (!woken) co_return Error(ErrorKind::timeout, "the peer did not answer in time");
    }
    co_return true;
}

Task<Result<std::optional<Bytes>>> Stream::read_prefixed(std::size_t bytes_max) {
    wire::LengthPrefixReader reader(bytes_max);
    KeepGuard kept(yamux_);
    Bytes piece;
    for (;;) {
        // The reader's memory grows with what came, so that a claimed length costs nothing.
        piece.resize(std::min(reader.wanted(), frame_bytes_max + std::size_t{0}));
        auto filled = co_await read_exactly(piece);
        if (!filled) co_return std::move(filled).error();
        if (!*filled) {
            if (reader.in_the_middle()) co_return failure_or_end();
            co_return std::optional<Bytes>();
        }
        auto fed = reader.feed(piece);
        if (!fed) co_return std::move(fed).error();
        if (auto message = reader.take()) co_return message;
        kept.add(piece.size());
    }
}

Task<Result<void>> Stream::sent() {
    while (yamux_->queued_bytes() > 0 && !yamux_->failure()) {
        drained_.reset();
        const bool woken = co_await drained_.wait_until(clock_, deadline_);
        if (!woken) co_return Error(ErrorKind::timeout, "the peer did not read in time");
    }
    if (yamux_->failure()) co_return *yamux_->failure();
    co_return Ok();
}

void Stream::propose(const std::string& protocol) {
    Bytes lines;
    wire::put_multistream_line(lines, wire::multistream_header);
    wire::put_multistream_line(lines, protocol);
    yamux_->write(std::move(lines));
    proposed_ = protocol;
}

Task<Result<std::string>> Stream::read_line() {
    wire::MultistreamReader reader;
    Bytes piece;
    for (;;) {
        piece.resize(reader.wanted());
        auto filled = co_await read_exactly(piece);
        if (!filled) co_return std::move(filled).error();
        if (!*filled) co_return failure_or_end();
        auto fed = reader.feed(piece);
        if (!fed) co_return std::move(fed).error();
        if (auto line = reader.take()) co_return *std::move(line);
    }
}

Task<Result<void>> Stream::confirm() {
    const std::string protocol = std::exchange(proposed_, std::string());
    if (protocol.empty()) co_return Ok();
    auto header = co_await read_line();
    if (!header) co_return std::move(header).error();
    if (*header != wire::multistream_header)
        co_return Error(ErrorKind::peer_broke_protocol, "the peer does not speak multistream");
    auto answer = co_await read_line();
    if (!answer) co_return std::move(answer).error();
    if (*answer == protocol) co_return Ok();
    if (*answer != wire::multistream_refusal)
        co_return Error(ErrorKind::peer_broke_protocol, "the peer chose what was not proposed");
    co_return make_error(
        ErrorKind::unsupported, "peer {} has no \"{}\"", remote_.short_text(), protocol);
}

Task<Result<std::string>> Stream::accept_proposal(
    const std::function<bool(const std::string&)>& is_offered) {
    auto header = co_await read_line();
    if (!header) co_return std::move(header).error();
    if (*header != wire::multistream_header)
        co_return Error(ErrorKind::peer_broke_protocol, "a stream that is not multistream");
    Bytes answer;
    wire::put_multistream_line(answer, wire::multistream_header);
    for (int proposals = 0; proposals < proposals_max; ++proposals) {
        auto protocol = co_await read_line();
        if (!protocol) co_return std::move(protocol).error();
        const bool accepted = is_offered(*protocol);
        wire::put_multistream_line(answer, accepted ? *protocol : wire::multistream_refusal);
        yamux_->write(std::exchange(answer, Bytes()));
        if (accepted) co_return *std::move(protocol);
    }
    co_return Error(ErrorKind::peer_broke_protocol, "too many proposals on one stream");
}

}  // namespace dedloc::transport
