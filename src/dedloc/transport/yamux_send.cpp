// The sending side of a yamux session: control frames first, then streams in turn, small ones
// before bulk.

#include <algorithm>
#include <utility>

#include "dedloc/transport/yamux.h"

namespace dedloc::transport {

namespace {

wire::YamuxHeader data_header(const YamuxStream& stream, std::uint16_t flags, std::size_t bytes) {
    return {.type = wire::YamuxType::data,
            .flags = flags,
            .stream_id = stream.id(),
            .length = static_cast<std::uint32_t>(bytes)};
}

}  // namespace

void YamuxSession::wake_writer() {
    if (on_output) on_output();
}

YamuxSession::StreamPtr YamuxSession::pointer_to(const YamuxStream& stream) const {
    const auto found = streams_.find(stream.id_);
    return found == streams_.end() ? nullptr : found->second;
}

// A stream that is over leaves its queue when its turn comes. While the peer takes no bytes no turn
// comes, and it could open streams and reset them for ever.
void YamuxSession::enqueue(std::deque<StreamPtr>& queue, StreamPtr stream) {
    if (queue.size() > 2 * streams_.size() + streams_over_queued_max)
        std::erase_if(queue, [](const StreamPtr& one) { return one->session_ == nullptr; });
    queue.push_back(std::move(stream));
}

void YamuxSession::make_ready(YamuxStream& stream) {
    if (stream.in_ready_ || !stream.has_output()) return;
    StreamPtr pointer = pointer_to(stream);
    if (!pointer) return;
    stream.in_ready_ = true;
    enqueue(ready_.queue_of(stream.is_small()), std::move(pointer));
    wake_writer();
}

void YamuxSession::queue_update(YamuxStream& stream) {
    if (stream.in_updates_) return;
    StreamPtr pointer = pointer_to(stream);
    if (!pointer) return;
    stream.in_updates_ = true;
    enqueue(updates_, std::move(pointer));
    wake_writer();
}

void YamuxSession::queue_control(const wire::YamuxHeader& header) {
    if (failure_) return;
    if (control_.size() >= control_frames_max) {
        (void)protocol_error("the peer asks for more answers than it reads");
        return;
    }
    control_.push_back(header);
    wake_writer();
}

void YamuxSession::reset_stream(YamuxStream& stream, Error error) {
    const StreamPtr pointer = pointer_to(stream);
    if (!pointer) return;
    // A stream whose SYN never left is not known to the other side.
    if (!stream.syn_pending_)
        queue_control({.type = wire::YamuxType::window_update,
                       .flags = wire::yamux_rst,
                       .stream_id = stream.id_,
                       .length = 0});
    acknowledge(stream);
    if (failure_) return;  // queue_control gave up on the session, and failed all streams
    forget(stream);
    pointer->fail(std::move(error));
}

void YamuxSession::forget_if_closed(YamuxStream& stream) {
    if (stream.finish_sent_ && stream.remote_finished_) forget(stream);
}

void YamuxSession::forget(YamuxStream& stream) {
    if (stream.session_ == nullptr) return;
    acknowledge(stream);
    window_budget_.give_back(stream.receive_window_.growth());
    // The bytes received may still be read, but no longer count: the stream is over.
    share_.drop_unread(stream.unread_.size());
    share_.drop_received(stream.held_bytes());
    if (stream.inbound_) --inbound_count_;
    stream.drop_queue();
    stream.session_ = nullptr;
    streams_.erase(stream.id_);
    if (on_room) on_room();
}

void YamuxSession::acknowledge(YamuxStream& stream) {
    if (stream.acknowledged_) return;
    stream.acknowledged_ = true;
    --unacknowledged_count_;
    if (on_room) on_room();
}

std::uint16_t YamuxSession::take_flags(YamuxStream& stream) {
    std::uint16_t flags = 0;
    if (std::exchange(stream.syn_pending_, false)) flags |= wire::yamux_syn;
    if (std::exchange(stream.ack_pending_, false)) flags |= wire::yamux_ack;
    return flags;
}

bool YamuxSession::has_output() const {
    return !control_.empty() || !updates_.empty() || !ready_.empty();
}

std::size_t YamuxSession::pull(std::size_t bytes_max, const Sink& sink) {
    std::size_t given = 0;
    frame_bytes_now_ =
        std::clamp<std::uint64_t>(bytes_max, frame_bytes_min, frame_payload_bytes_max);
    while (given < bytes_max) {
        given += send_control(sink);
        if (given >= bytes_max) break;
        const StreamPtr stream = pick_stream();
        if (!stream) break;
        given += send_frame(*stream, sink);
    }
    return given;
}

std::size_t YamuxSession::emit(const wire::YamuxHeader& header,
                               ByteView payload,
                               const Sink& sink) {
    const auto bytes = wire::encode_yamux_header(header);
    sink(bytes, payload);
    return bytes.size() + payload.size();
}

std::size_t YamuxSession::send_control(const Sink& sink) {
    std::size_t given = 0;
    while (!control_.empty()) {
        const wire::YamuxHeader header = control_.front();
        control_.pop_front();
        if (header.type == wire::YamuxType::ping && header.flags == wire::yamux_syn)
            keep_alive_.ping_leaves(options_.now());
        given += emit(header, {}, sink);
    }
    while (!updates_.empty()) {
        const StreamPtr stream = std::move(updates_.front());
        updates_.pop_front();
        stream->in_updates_ = false;
        if (stream->session_ == nullptr) continue;
        const std::uint32_t delta = stream->receive_window_.take_update();
        const wire::YamuxHeader header{.type = wire::YamuxType::window_update,
                                       .flags = take_flags(*stream),
                                       .stream_id = stream->id_,
                                       .length = delta};
        given += emit(header, {}, sink);
    }
    return given;
}

// The next stream in turn. It leaves its queue.
YamuxSession::StreamPtr YamuxSession::pick_stream() {
    while (StreamPtr stream = ready_.take()) {
        stream->in_ready_ = false;
        if (stream->session_ != nullptr && stream->has_output()) return stream;
    }
    return nullptr;
}

// The end of a stream is a frame of its own: go-yamux looks at a frame's flags before its bytes,
// and a reader that wakes between the two is told that nothing came.
std::size_t YamuxSession::send_frame(YamuxStream& stream, const Sink& sink) {
    const auto bytes_max =
        static_cast<std::size_t>(std::min<std::uint64_t>(frame_bytes_now_, stream.send_window_));
    const ByteView payload = stream.queue_.next(bytes_max, scratch_);
    const bool last = payload.size() == stream.queue_.size() && stream.finish_wanted_;
    std::size_t given = 0;
    if (!payload.empty()) {
        given += emit(data_header(stream, take_flags(stream), payload.size()), payload, sink);
        stream.send_window_ -= payload.size();
        share_.drop_queued(payload.size(), stream.inbound_);
        stream.queue_.consume(payload.size());
    }
    if (last) {
        const auto flags = static_cast<std::uint16_t>(take_flags(stream) | wire::yamux_fin);
        given += emit(data_header(stream, flags, 0), {}, sink);
        stream.finish_sent_ = true;
    }
    make_ready(stream);
    const auto drained = stream.queue_.size() == 0 ? stream.on_drained : nullptr;
    if (last) forget_if_closed(stream);
    if (drained) drained();
    return given;
}

}  // namespace dedloc::transport
