#include "dedloc/transport/yamux.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dedloc::transport {

namespace {

using wire::YamuxHeader;
using wire::YamuxType;

constexpr std::uint16_t flag_syn = wire::yamux_syn;
constexpr std::uint16_t flag_ack = wire::yamux_ack;
constexpr std::uint16_t flag_fin = wire::yamux_fin;
constexpr std::uint16_t flag_rst = wire::yamux_rst;

constexpr std::uint32_t go_away_normal = 0;
constexpr std::uint32_t go_away_protocol_error = 1;

Error too_many_received() {
    return Error(ErrorKind::overloaded, "too many bytes wait to be read, or for their message");
}

}  // namespace

// ---------------------------------------------------------------------------------- YamuxStream

YamuxStream::YamuxStream(YamuxSession* session, std::uint32_t id, bool inbound, TimePoint now)
    : session_(session),
      id_(id),
      inbound_(inbound),
      syn_pending_(!inbound),
      ack_pending_(inbound),
      acknowledged_(inbound),
      receive_window_(now) {}

std::size_t YamuxStream::read_some(std::span<std::uint8_t> into) {
    const std::size_t copied = unread_.read(into);
    if (session_ != nullptr && copied > 0) {
        session_->share_.drop_unread(copied);
        session_->share_.drop_received(copied);
        session_->consumed(*this);
    }
    return copied;
}

void YamuxStream::read_into(std::span<std::uint8_t> into, std::size_t filled) {
    DEDLOC_CHECK(into.empty() || unread_.size() == 0);
    if (session_ != nullptr) {
        session_->share_.drop_received(sink_bytes_);
        session_->share_.add_received(filled);  // it was counted until read_some() gave it away
    }
    sink_bytes_ = filled;
    sink_ = into.subspan(filled);
}

void YamuxStream::keep(std::size_t bytes) {
    if (session_ == nullptr) return;
    if (bytes > kept_bytes_ && !session_->share_.may_receive(bytes - kept_bytes_)) {
        session_->reset_stream(*this, too_many_received());
        return;
    }
    session_->share_.drop_received(kept_bytes_);
    kept_bytes_ = bytes;
    session_->share_.add_received(kept_bytes_);
}

void YamuxStream::write(SharedBytes bytes) {
    DEDLOC_CHECK(!finish_wanted_);
    if (failure_ || session_ == nullptr || bytes->empty()) return;
    if (inbound_ && !session_->share_.may_queue(bytes->size())) {
        session_->reset_stream(
            *this, Error(ErrorKind::overloaded, "the peer does not read what it asked for"));
        return;
    }
    session_->share_.add_queued(bytes->size(), inbound_);
    queue_.push(std::move(bytes));
    session_->make_ready(*this);
}

void YamuxStream::finish() {
    if (finish_wanted_ || failure_) return;
    finish_wanted_ = true;
    if (session_ != nullptr) session_->make_ready(*this);
}

void YamuxStream::reset() {
    if (session_ != nullptr && !failure_)
        session_->reset_stream(*this, Error(ErrorKind::cancelled, "the stream was reset by us"));
}

void YamuxStream::release() {
    released_ = true;
    on_readable = nullptr;
    on_drained = nullptr;
    on_failed = nullptr;
    sink_ = {};
    drop_unread();
    if (session_ == nullptr || failure_) return;
    if (!finish_wanted_) {
        reset();
        return;
    }
    linger_until_ = session_->options_.now() + stream_linger_max;
}

void YamuxStream::drop_unread() {
    if (session_ != nullptr) {
        session_->share_.drop_unread(unread_.size());
        session_->share_.drop_received(held_bytes());
    }
    unread_.clear();
    sink_bytes_ = 0;
    kept_bytes_ = 0;
}

void YamuxStream::drop_queue() {
    if (session_ != nullptr) session_->share_.drop_queued(queue_.size(), inbound_);
    queue_.clear();
}

void YamuxStream::fail(Error error) {
    if (failure_) return;
    failure_ = std::move(error);
    drop_queue();
    // A callback may release the stream and thereby the other callbacks: take them all first.
    const auto readable = on_readable;
    const auto drained = on_drained;
    const auto failed = on_failed;
    if (readable) readable();
    if (drained) drained();
    if (failed) failed();
}

bool YamuxStream::has_output() const {
    if (failure_) return false;
    if (queue_.size() > 0) return send_window_ > 0;
    return finish_wanted_ && !finish_sent_;
}

// --------------------------------------------------------------------------------- YamuxSession

YamuxSession::YamuxSession(YamuxOptions options)
    : options_(std::move(options)),
      next_id_(options_.is_client ? 1 : 2),
      window_budget_(options_.window_max, options_.growth_max),
      share_(options_.memory, options_.is_needed),
      keep_alive_(options_.now(), options_.keep_alive_interval) {}

YamuxSession::~YamuxSession() { abort(Error(ErrorKind::peer_gone, "the connection was closed")); }

void YamuxSession::abort(Error error) {
    if (!failure_) failure_ = error;
    control_.clear();
    updates_.clear();
    ready_.clear();
    payload_stream_.reset();
    const auto streams = std::move(streams_);
    streams_.clear();
    inbound_count_ = 0;
    unacknowledged_count_ = 0;
    for (const auto& [id, stream] : streams) {
        share_.drop_unread(stream->unread_.size());
        share_.drop_received(stream->held_bytes());
        stream->drop_queue();
        stream->session_ = nullptr;
        if (stream->remote_finished_ && stream->finish_sent_) continue;
        stream->fail(error);
    }
}

Error YamuxSession::protocol_error(std::string message) {
    Error error(ErrorKind::peer_broke_protocol, "yamux: " + std::move(message));
    abort(error);
    control_.push_back(
        {.type = YamuxType::go_away, .flags = 0, .stream_id = 0, .length = go_away_protocol_error});
    go_away_sent_ = true;
    wake_writer();
    return error;
}

std::span<std::uint8_t> YamuxSession::place() const {
    if (payload_left_ == 0 || !payload_stream_) return {};
    const std::span<std::uint8_t> sink = payload_stream_->sink_;
    return sink.first(std::min(sink.size(), payload_left_));
}

Ok YamuxSession::feed(ByteView bytes) {
    if (failure_) return *failure_;
    if (!bytes.empty()) keep_alive_.hear(options_.now());
    while (!bytes.empty()) {
        if (payload_left_ > 0) {
            const std::size_t count = std::min(payload_left_, bytes.size());
            payload_left_ -= count;
            if (payload_stream_) deliver(payload_stream_, bytes.first(count));
            bytes = bytes.subspan(count);
            if (payload_left_ == 0) finish_data_frame();
            if (failure_) return *failure_;
            continue;
        }
        const auto twelve_bytes = header_reader_.feed(bytes);
        if (!twelve_bytes) break;
        auto header = wire::decode_yamux_header(*twelve_bytes);
        if (!header) return protocol_error(header.error().message());
        DEDLOC_TRY_VOID(receive_header(*header));
        if (failure_) return *failure_;
    }
    return {};
}

Ok YamuxSession::receive_header(const YamuxHeader& header) {
    switch (header.type) {
        case YamuxType::data:
            return receive_data_header(header);
        case YamuxType::window_update:
            return receive_window_update(header);
        case YamuxType::ping:
            return receive_ping(header);
        case YamuxType::go_away:
            return receive_go_away(header);
    }
    return protocol_error("a frame of unknown type");
}

Ok YamuxSession::receive_data_header(const YamuxHeader& header) {
    if (header.length > frame_received_bytes_max)
        return protocol_error(fmt::format("a frame of {} bytes", header.length));
    DEDLOC_TRY(StreamPtr stream, stream_of(header));
    if (stream && header.length > 0) {
        ReceiveWindow& window = stream->receive_window_;
        if (header.length > window.left())
            return protocol_error(
                fmt::format("{} bytes for a window of {}", header.length, window.left()));
        window.consume(header.length);
        if (stream->remote_finished_) {
            reset_stream(*stream, Error(ErrorKind::peer_broke_protocol, "data after the end"));
            stream.reset();
        }
    }
    payload_left_ = header.length;
    payload_stream_ = std::move(stream);
    payload_flags_ = header.flags;
    if (payload_left_ == 0) finish_data_frame();
    return {};
}

Ok YamuxSession::receive_window_update(const YamuxHeader& header) {
    DEDLOC_TRY(const StreamPtr stream, stream_of(header));
    if (!stream) return {};
    stream->send_window_ += header.length;
    // No implementation has windows beyond 2^31; more only serves to overflow something.
    if (stream->send_window_ > (std::uint64_t{1} << 32))
        return protocol_error("a window beyond 4 GiB");
    make_ready(*stream);
    receive_final_flags(stream, header.flags);
    return {};
}

Ok YamuxSession::receive_ping(const YamuxHeader& header) {
    if ((header.flags & flag_syn) != 0) {
        queue_control(
            {.type = YamuxType::ping, .flags = flag_ack, .stream_id = 0, .length = header.length});
        return {};
    }
    if ((header.flags & flag_ack) != 0) keep_alive_.receive_answer(header.length, options_.now());
    return {};
}

Ok YamuxSession::receive_go_away(const YamuxHeader& header) {
    go_away_received_ = true;
    if (header.length == go_away_normal) return {};
    Error error(ErrorKind::peer_gone,
                fmt::format("the peer ended the connection with yamux code {}", header.length));
    abort(error);
    return error;
}

Result<YamuxSession::StreamPtr> YamuxSession::stream_of(const YamuxHeader& header) {
    if (header.stream_id == 0) return protocol_error("a stream frame without a stream");
    if ((header.flags & flag_syn) != 0) return receive_syn(header);
    const auto found = streams_.find(header.stream_id);
    if (found == streams_.end()) return StreamPtr();  // a stream that we ended meanwhile
    const StreamPtr stream = found->second;
    if ((header.flags & flag_ack) != 0) acknowledge(*stream);
    if ((header.flags & flag_rst) != 0) {
        acknowledge(*stream);
        forget(*stream);
        stream->fail(Error(ErrorKind::peer_gone, "the stream was reset by the peer"));
        return StreamPtr();
    }
    return stream;
}

Result<YamuxSession::StreamPtr> YamuxSession::receive_syn(const YamuxHeader& header) {
    const bool is_odd = header.stream_id % 2 == 1;
    if (is_odd == options_.is_client) return protocol_error("a stream id of our own kind");
    if (streams_.contains(header.stream_id)) return protocol_error("a stream was opened twice");
    if ((header.flags & flag_rst) != 0) return StreamPtr();
    if (go_away_sent_ && failure_) return StreamPtr();
    if (inbound_count_ >= streams_inbound_max) {
        queue_control({.type = YamuxType::window_update,
                       .flags = flag_rst,
                       .stream_id = header.stream_id,
                       .length = 0});
        return StreamPtr();
    }
    StreamPtr stream(new YamuxStream(this, header.stream_id, /*inbound=*/true, options_.now()));
    streams_.emplace(header.stream_id, stream);
    ++inbound_count_;
    start_grown(*stream);
    if (on_inbound)
        on_inbound(stream);
    else
        stream->reset();
    return stream->failure_ ? StreamPtr() : stream;
}

void YamuxSession::receive_final_flags(const StreamPtr& stream, std::uint16_t flags) {
    if ((flags & flag_fin) == 0 || stream->failure_ || stream->remote_finished_) return;
    stream->remote_finished_ = true;
    forget_if_closed(*stream);
    const auto readable = stream->on_readable;
    if (readable) readable();
}

void YamuxSession::finish_data_frame() {
    const StreamPtr stream = std::move(payload_stream_);
    payload_stream_.reset();
    if (stream) receive_final_flags(stream, payload_flags_);
}

void YamuxSession::deliver(const StreamPtr& stream, ByteView bytes) {
    if (stream->failure_) return;
    if (stream->released_) {
        return;  // nobody reads; the window closes and the stream lingers or is reset
    }
    if (!stream->sink_.empty()) {
        const std::size_t count = std::min(stream->sink_.size(), bytes.size());
        if (!share_.may_receive(count)) {
            reset_stream(*stream, too_many_received());
            return;
        }
        share_.add_received(count);
        stream->sink_bytes_ += count;
        if (stream->sink_.data() != bytes.data())
            std::memcpy(stream->sink_.data(), bytes.data(), count);
        stream->sink_ = stream->sink_.subspan(count);
        bytes = bytes.subspan(count);
        const bool full = stream->sink_.empty();
        consumed(*stream);
        if (bytes.empty()) {
            const auto readable = stream->on_readable;
            if (full && readable) readable();
            return;
        }
    }
    if (!share_.may_buffer(bytes.size())) {
        reset_stream(*stream, too_many_received());
        return;
    }
    share_.add_unread(bytes.size());
    share_.add_received(bytes.size());
    stream->unread_.append(bytes);
    const auto readable = stream->on_readable;
    if (readable) readable();
}

void YamuxSession::consumed(YamuxStream& stream) {
    if (stream.remote_finished_ || stream.failure_ || stream.released_) return;
    if (stream.receive_window_.open_again(
            stream.unread_.size(), options_.now, keep_alive_.round_trip(), window_budget_))
        queue_update(stream);
}

void YamuxSession::start_grown(YamuxStream& stream) {
    if (options_.windows_start_grown && stream.receive_window_.start_grown(window_budget_))
        queue_update(stream);
}

Result<std::shared_ptr<YamuxStream>> YamuxSession::open() {
    if (failure_) return Error(ErrorKind::peer_gone, failure_->message());
    if (is_going_away()) return Error(ErrorKind::peer_gone, "the connection is being closed");
    if (next_id_ > 0x7fffffff)
        return Error(ErrorKind::peer_gone, "the connection has used up its stream numbers");
    if (unacknowledged_count_ >= streams_unacknowledged_max ||
        streams_.size() - inbound_count_ >= streams_outbound_max)
        return Error(ErrorKind::overloaded, "too many streams wait for the peer's answer");
    StreamPtr stream(new YamuxStream(this, next_id_, /*inbound=*/false, options_.now()));
    next_id_ += 2;
    ++unacknowledged_count_;
    streams_.emplace(stream->id_, stream);
    start_grown(*stream);
    return stream;
}

// ------------------------------------------------------------------------------------ liveness

void YamuxSession::probe(Duration answer_max) {
    if (failure_) return;
    const auto value = keep_alive_.probe(options_.now(), answer_max);
    if (value)
        queue_control(
            {.type = YamuxType::ping, .flags = flag_syn, .stream_id = 0, .length = *value});
}

Ok YamuxSession::tick() {
    if (failure_) return *failure_;
    const TimePoint now = options_.now();
    if (!keep_alive_.is_alive(now)) {
        Error error(ErrorKind::peer_gone, "the peer stopped answering");
        abort(error);
        return error;
    }
    if (keep_alive_.ping_is_due(now)) probe(options_.keep_alive_answer_max);
    std::vector<StreamPtr> over;
    for (const auto& [id, stream] : streams_)
        if (stream->released_ && now >= stream->linger_until_) over.push_back(stream);
    for (const StreamPtr& stream : over)
        reset_stream(*stream, Error(ErrorKind::timeout, "the peer kept its half open"));
    return {};
}

void YamuxSession::go_away() {
    if (failure_ || go_away_sent_) return;
    go_away_sent_ = true;
    queue_control(
        {.type = YamuxType::go_away, .flags = 0, .stream_id = 0, .length = go_away_normal});
}

}  // namespace dedloc::transport
