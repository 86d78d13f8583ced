// yamux 1.0.0: many streams over one ordered, secured byte connection. A state machine without
// sockets, clocks or tasks: bytes in by feed(), bytes out by pull(), time by a function.
//
//   YamuxSession session(options);
//   session.feed(decrypted);                       // an Error ends the connection
//   session.pull(128 KiB, [&](header, payload) {…});  // encrypt both views at once
//   auto stream = session.open();
//   stream->write(std::move(bytes));               // queued; pull() takes frames from it
//
// Flow control: every stream starts with 256 KiB both ways. A receive window doubles, up to 16 MiB,
// when half of it was used up within four round trips; its updates come every 512 KiB at least; all
// streams of a session share a budget for that. Output order: control frames (pongs, window
// updates, resets), then streams with little to say, then bulk streams in turn, one frame of at
// most 64 KiB each; so nothing small waits for more than the batch that is being written.
//
// Source: https://github.com/hashicorp/yamux/blob/master/spec.md, libp2p specs/yamux; reference
// implementations go-yamux 4 and rust-yamux. Limits: limits.h.
// Cost: 12 bytes a frame; a received byte is copied once, or not at all if it came to place().
// Thread: one. Errors: peer_broke_protocol from feed() after queueing a go-away; overloaded.

#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/base/time.h"
#include "dedloc/transport/limits.h"
#include "dedloc/transport/yamux_keep_alive.h"
#include "dedloc/transport/yamux_memory.h"
#include "dedloc/transport/yamux_queues.h"
#include "dedloc/transport/yamux_window.h"
#include "dedloc/wire/yamux_frame.h"

namespace dedloc::transport {

class YamuxSession;

class YamuxStream {
  public:
    std::uint32_t id() const { return id_; }
    bool is_inbound() const { return inbound_; }
    // Set once the stream was reset by either side or its session ended.
    const std::optional<Error>& failure() const { return failure_; }

    // Copies what is there, at most `into`; may be 0.
    std::size_t read_some(std::span<std::uint8_t> into);
    // Bytes that come from now on go straight into `into`, behind those that read_some() has put
    // there (all that were buffered), and on_readable is called when it is full. An empty span ends
    // that; until then what is in it counts as if it were unread.
    void read_into(std::span<std::uint8_t> into, std::size_t filled = 0);
    std::size_t read_into_left() const { return sink_.size(); }
    // The reader has so many bytes of a message that is not complete: they count as if they were
    // unread. Beyond the limits the stream fails (overloaded).
    void keep(std::size_t bytes);
    std::size_t readable_bytes() const { return unread_.size(); }
    // The other side has finished and everything it sent was read.
    bool at_end() const { return remote_finished_ && unread_.size() == 0; }
    bool remote_finished() const { return remote_finished_; }

    // Queues. The caller waits for on_drained before it queues more than it can answer for.
    void write(SharedBytes bytes);
    void write(Bytes bytes) { write(SharedBytes(std::move(bytes))); }
    std::size_t queued_bytes() const { return queue_.size(); }
    // Peers that open streams and never read them cannot make us queue without limit: beyond
    // connection_queued_bytes_max, or its share of host_queued_bytes_max, an inbound stream fails
    // (overloaded) instead.
    void finish();  // half-close after what is queued
    bool finished() const { return finish_wanted_; }
    void reset();
    // The owner is gone. What is queued before finish() still leaves; without finish() this is a
    // reset.
    void release();

    std::function<void()> on_readable;  // bytes, end, failure
    std::function<void()> on_drained;   // nothing queued any more, or failure
    std::function<void()> on_failed;

  private:
    friend class YamuxSession;
    YamuxStream(YamuxSession* session, std::uint32_t id, bool inbound, TimePoint now);
    void fail(Error error);
    std::size_t held_bytes() const { return unread_.size() + sink_bytes_ + kept_bytes_; }
    void drop_unread();
    void drop_queue();
    bool has_output() const;
    bool is_small() const { return queue_.size() <= small_stream_bytes_max; }

    YamuxSession* session_;  // null once the session has forgotten the stream
    std::uint32_t id_;
    bool inbound_;
    bool syn_pending_;
    bool ack_pending_;
    bool acknowledged_;
    bool released_ = false;
    bool finish_wanted_ = false;
    bool finish_sent_ = false;
    bool remote_finished_ = false;
    bool in_ready_ = false;
    bool in_updates_ = false;
    std::optional<Error> failure_;
    TimePoint linger_until_ = TimePoint::never();

    ReceiveWindow receive_window_;
    UnreadBytes unread_;
    std::span<std::uint8_t> sink_;
    std::size_t sink_bytes_ = 0;  // in it, and before it
    std::size_t kept_bytes_ = 0;

    std::uint64_t send_window_ = window_bytes_start;
    SendQueue queue_;
};

struct YamuxOptions {
    bool is_client = true;  // dialler of the connection: odd stream ids
    std::function<TimePoint()> now;
    std::shared_ptr<StreamMemory> memory;  // null: its own
    std::function<bool()> is_needed{};     // whether the peer is none of the strangers
    // For connections whose streams are all bulk: a new stream begins with the window that the
    // largest had to grow to, instead of growing for seconds on a long link.
    bool windows_start_grown = false;
    std::uint32_t window_max = window_bytes_max;       // of a stream; tuning stops there
    std::size_t growth_max = window_growth_bytes_max;  // of all streams, beyond their start
    Duration keep_alive_interval = transport::keep_alive_interval;
    Duration keep_alive_answer_max = transport::keep_alive_answer_max;
};

class YamuxSession {
  public:
    explicit YamuxSession(YamuxOptions options);
    ~YamuxSession();
    YamuxSession(const YamuxSession&) = delete;
    YamuxSession& operator=(const YamuxSession&) = delete;

    std::function<void(std::shared_ptr<YamuxStream>)> on_inbound;  // it may refuse by reset()
    std::function<void()> on_output;                               // there is something to pull
    std::function<void()> on_room;                                 // open() may succeed again

    // After an Error the session is over: pull() the go-away, close the connection.
    Ok feed(ByteView bytes);
    // Where a reader waits for the bytes that come next; empty: nobody does. Bytes fed from there
    // are not copied.
    std::span<std::uint8_t> place() const;

    using Sink = std::function<void(ByteView header, ByteView payload)>;
    // Hands frames of about `bytes_max` in all to `sink`; the views die with its return. Returns
    // the bytes given.
    std::size_t pull(std::size_t bytes_max, const Sink& sink);
    bool has_output() const;

    // overloaded: wait for on_room. peer_gone: the session is over or going away.
    Result<std::shared_ptr<YamuxStream>> open();
    std::size_t streams_count() const { return streams_.size(); }
    std::size_t queued_bytes() const { return share_.queued_bytes(); }

    // Pings, and gives up on peers that are silent. Call it at next_tick() or later.
    Ok tick();
    TimePoint next_tick() const { return keep_alive_.next_tick(); }
    // Asks for a sign of life within `answer_max`; tick() fails without one.
    void probe(Duration answer_max);
    TimePoint last_received() const { return keep_alive_.last_heard(); }
    std::uint64_t frames_received() const { return header_reader_.headers_count(); }
    std::optional<Duration> round_trip() const { return keep_alive_.round_trip(); }

    // No new streams from either side; those that exist go on.
    void go_away();
    bool is_going_away() const { return go_away_sent_ || go_away_received_; }
    bool go_away_was_received() const { return go_away_received_; }

    // Ends everything with `error`; nothing is sent any more.
    void abort(Error error);
    const std::optional<Error>& failure() const { return failure_; }

  private:
    friend class YamuxStream;
    using StreamPtr = std::shared_ptr<YamuxStream>;

    Ok receive_header(const wire::YamuxHeader& header);
    Ok receive_data_header(const wire::YamuxHeader& header);
    Ok receive_window_update(const wire::YamuxHeader& header);
    Ok receive_ping(const wire::YamuxHeader& header);
    Ok receive_go_away(const wire::YamuxHeader& header);
    // Creates or finds the stream that a frame speaks of; null: ignore the frame.
    Result<StreamPtr> stream_of(const wire::YamuxHeader& header);
    Result<StreamPtr> receive_syn(const wire::YamuxHeader& header);
    void receive_final_flags(const StreamPtr& stream, std::uint16_t flags);
    void deliver(const StreamPtr& stream, ByteView bytes);
    void finish_data_frame();
    Error protocol_error(std::string message);

    void consumed(YamuxStream& stream);
    void start_grown(YamuxStream& stream);
    void enqueue(std::deque<StreamPtr>& queue, StreamPtr stream);
    void make_ready(YamuxStream& stream);
    void queue_update(YamuxStream& stream);
    void queue_control(const wire::YamuxHeader& header);
    void reset_stream(YamuxStream& stream, Error error);
    void forget_if_closed(YamuxStream& stream);
    void forget(YamuxStream& stream);
    void acknowledge(YamuxStream& stream);
    std::uint16_t take_flags(YamuxStream& stream);
    std::size_t send_frame(YamuxStream& stream, const Sink& sink);
    StreamPtr pick_stream();
    std::size_t send_control(const Sink& sink);
    std::size_t emit(const wire::YamuxHeader& header, ByteView payload, const Sink& sink);
    void wake_writer();
    StreamPtr pointer_to(const YamuxStream& stream) const;

    YamuxOptions options_;
    std::optional<Error> failure_;
    std::map<std::uint32_t, StreamPtr> streams_;
    std::size_t inbound_count_ = 0;
    std::size_t unacknowledged_count_ = 0;
    std::uint32_t next_id_;
    bool go_away_sent_ = false;
    bool go_away_received_ = false;

    // Parsing.
    HeaderReader header_reader_;
    std::size_t payload_left_ = 0;
    StreamPtr payload_stream_;  // null: the payload is dropped
    std::uint16_t payload_flags_ = 0;

    // Output.
    std::deque<wire::YamuxHeader> control_;
    std::deque<StreamPtr> updates_;
    StreamTurns ready_;
    Bytes scratch_;
    std::uint64_t frame_bytes_now_ = frame_payload_bytes_max;

    WindowBudget window_budget_;
    MemoryShare share_;
    KeepAlive keep_alive_;
};

}  // namespace dedloc::transport
