// The sending side of a yamux session: control frames first, then streams in turn, small ones
// before bulk.

#include <algorithm>
#include <utility>

#include "dedloc/p2p/yamux.h"

namespace dedloc::p2p {

namespace {

// Small pieces of a stream's queue are joined into one frame of up to this size.
constexpr std::size_t join_bytes_max = 16u << 10;
constexpr std::size_t join_piece_bytes_max = 4u << 10;

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
    enqueue(stream.is_small() ? ready_small_ : ready_bulk_, std::move(pointer));
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
    growth_used_ -= stream.window_max_ - window_bytes_start;
    // The bytes received may still be read, but no longer count: the stream is over.
    unread_bytes_ -= stream.unread_bytes_;
    uncount_received(stream.held_bytes());
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
    return !control_.empty() || !updates_.empty() || !ready_small_.empty() || !ready_bulk_.empty();
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
            ping_sent_ = options_.now();
        given += emit(header, {}, sink);
    }
    while (!updates_.empty()) {
        const StreamPtr stream = std::move(updates_.front());
        updates_.pop_front();
        stream->in_updates_ = false;
        if (stream->session_ == nullptr) continue;
        const std::uint32_t delta = std::exchange(stream->update_pending_, 0);
        const wire::YamuxHeader header{.type = wire::YamuxType::window_update,
                                       .flags = take_flags(*stream),
                                       .stream_id = stream->id_,
                                       .length = delta};
        given += emit(header, {}, sink);
    }
    return given;
}

// The next stream in turn: small ones first, but not for ever. It leaves its queue.
YamuxSession::StreamPtr YamuxSession::pick_stream() {
    while (!ready_small_.empty() || !ready_bulk_.empty()) {
        const bool bulk = ready_small_.empty() ||
                          (!ready_bulk_.empty() && small_in_a_row_ >= small_frames_in_a_row_max);
        auto& queue = bulk ? ready_bulk_ : ready_small_;
        small_in_a_row_ = bulk ? 0 : small_in_a_row_ + 1;
        StreamPtr stream = std::move(queue.front());
        queue.pop_front();
        stream->in_ready_ = false;
        if (stream->session_ != nullptr && stream->has_output()) return stream;
    }
    return nullptr;
}

std::size_t YamuxSession::send_frame(YamuxStream& stream, const Sink& sink) {
    const ByteView payload = next_payload(stream);
    std::uint16_t flags = take_flags(stream);
    const bool last = payload.size() == stream.queued_bytes_ && stream.finish_wanted_;
    if (last) {
        flags |= wire::yamux_fin;
        stream.finish_sent_ = true;
    }
    const wire::YamuxHeader header{.type = wire::YamuxType::data,
                                   .flags = flags,
                                   .stream_id = stream.id_,
                                   .length = static_cast<std::uint32_t>(payload.size())};
    const std::size_t given = emit(header, payload, sink);
    stream.send_window_ -= payload.size();
    consume_queue(stream, payload.size());
    make_ready(stream);
    const auto drained = stream.queued_bytes_ == 0 ? stream.on_drained : nullptr;
    if (last) forget_if_closed(stream);
    if (drained) drained();
    return given;
}

// The bytes of the stream's next frame: straight from its queue, or small pieces joined.
ByteView YamuxSession::next_payload(YamuxStream& stream) {
    const std::size_t room =
        static_cast<std::size_t>(std::min<std::uint64_t>(frame_bytes_now_, stream.send_window_));
    if (stream.queue_.empty()) return {};
    const ByteView head = stream.queue_.front()->subspan(stream.queue_offset_);
    if (head.size() >= join_piece_bytes_max || stream.queue_.size() == 1)
        return head.first(std::min(head.size(), room));
    scratch_.clear();
    std::size_t offset = stream.queue_offset_;
    for (const SharedBytes& piece : stream.queue_) {
        const std::size_t left = std::min(room, join_bytes_max) - scratch_.size();
        if (left == 0) break;
        const ByteView rest = piece->subspan(offset);
        base::append(scratch_, rest.first(std::min(rest.size(), left)));
        offset = 0;
    }
    return scratch_;
}

void YamuxSession::consume_queue(YamuxStream& stream, std::size_t bytes) {
    stream.queued_bytes_ -= bytes;
    uncount_queued(stream, bytes);
    while (bytes > 0) {
        const std::size_t left = stream.queue_.front()->size() - stream.queue_offset_;
        if (bytes < left) {
            stream.queue_offset_ += bytes;
            return;
        }
        bytes -= left;
        stream.queue_.pop_front();
        stream.queue_offset_ = 0;
    }
}

}  // namespace dedloc::p2p
