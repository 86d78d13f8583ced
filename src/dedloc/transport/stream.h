// Stream: a yamux stream for coroutines. Raw bytes both ways, with one deadline for all its waits;
// and multistream-select on it.
//
// Destroying it resets it, unless finish() was called: then what is queued still leaves.
//
// Thread: the network thread; one reader and one writer at a time. Errors of all waits: timeout
// (the stream's deadline), peer_gone (reset, connection lost).

#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/task.h"
#include "dedloc/transport/yamux.h"
#include "dedloc/wire/length_prefix.h"

namespace dedloc::transport {

class Stream {
  public:
    Stream(std::shared_ptr<YamuxStream> yamux,
           PeerId remote,
           runtime::Executor executor,
           runtime::Clock& clock);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    const PeerId& remote() const { return remote_; }
    bool is_inbound() const { return yamux_->is_inbound(); }
    void set_deadline(TimePoint deadline) { deadline_ = deadline; }
    TimePoint deadline() const { return deadline_; }

    // True when all of `into` was filled, false when the other side ended before its first byte.
    Task<Result<bool>> read_exactly(std::span<std::uint8_t> into);
    // One message with its length in front; nullopt: ended before its first byte.
    Task<Result<std::optional<Bytes>>> read_prefixed(std::size_t bytes_max);
    // Reads what is there now, at most `into`; may be 0. After confirm(), readable().
    std::size_t read_some(std::span<std::uint8_t> into) { return yamux_->read_some(into); }
    // Waits until something can be read, the other side has ended, or (an Error) failed.
    Task<Result<void>> readable();
    bool at_end() const { return yamux_->at_end(); }
    bool has_ended_or_has_bytes() const {
        return yamux_->remote_finished() || yamux_->readable_bytes() > 0;
    }

    // Queues; sent() waits until nothing is queued any more.
    void write(Bytes bytes) { yamux_->write(std::move(bytes)); }
    void write(SharedBytes bytes) { yamux_->write(std::move(bytes)); }
    Task<Result<void>> sent();
    void finish() { yamux_->finish(); }
    bool finished() const { return yamux_->finished(); }
    void reset() { yamux_->reset(); }

    // Called once when the stream fails, or the other side ends or sends something; for those who
    // neither read nor write at that time.
    void watch(std::function<void()> on_event, bool failures_only);
    void unwatch();

    // Initiator: writes header and proposal now, and reads their echo before the first byte that is
    // read (so the caller may write at once: one round trip in all).
    void propose(const std::string& protocol);
    // Reads the echo of propose(). unsupported: the peer said "na".
    Task<Result<void>> confirm();
    // Responder: answers proposals until `is_offered` likes one, which it returns.
    Task<Result<std::string>> accept_proposal(
        const std::function<bool(const std::string&)>& is_offered);

  private:
    Task<Result<std::string>> read_line();
    Error failure_or_end() const;

    std::shared_ptr<YamuxStream> yamux_;
    PeerId remote_;
    runtime::Clock& clock_;
    TimePoint deadline_ = TimePoint::never();
    runtime::Event readable_;
    runtime::Event drained_;
    std::function<void()> watcher_;
    bool watches_failures_only_ = false;
    std::string proposed_;  // until its echo was read
};

}  // namespace dedloc::transport
