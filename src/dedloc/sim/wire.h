// Wire: one virtual TCP connection between two processes. Hosts carry calls and streams on it,
// SimNetwork carries bytes.
//
// Side 0 is who dialled, side 1 who accepted. Each side is open or not; a side that was closed
// hears nothing more. Order: packets of one side arrive in any order if some are small and some
// bulk; who needs an order numbers them (InOrder).

#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dedloc/base/bytes.h"
#include "dedloc/sim/world.h"

namespace dedloc::sim {

struct Packet {
    std::uint8_t kind = 0;
    bool opened_by_sender = false;  // the call or stream it belongs to
    std::uint32_t method = 0;
    std::uint64_t id = 0;        // of the call or stream
    std::uint64_t sequence = 0;  // within a stream
    Bytes payload;
    std::unique_ptr<Error> error;
};

using PacketPtr = std::unique_ptr<Packet>;

class Wire : public std::enable_shared_from_this<Wire> {
  public:
    Wire(World& world, Process& dialler, Process& acceptor);
    virtual ~Wire() = default;
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    std::uint64_t id() const { return id_; }
    bool is_open(int side) const { return open_[side]; }
    Process& process(int side) const { return *process_[side]; }
    bool touches(const Process& process) const {
        return process_[0] == &process || process_[1] == &process;
    }

    // Does nothing for a side whose process has died in between.
    void open(int side);
    void send(int side, PacketPtr packet);
    // Closes this side now; the other hears of it one latency later, unless `quietly`.
    void close(int side, const std::string& why, bool quietly = false);
    // The process of this side died. Its machine resets the connection, unless that is lost too.
    void cut(int side, bool machine_lost);
    void reset_from_network(const std::string& why);  // both sides, soon
    void give_up_later();
    // Looks again at whether the two can hear each other.
    void reassess();
    Duration round_trip() const;

  protected:
    // Called for an open side only.
    virtual void on_packet(int side, Packet& packet) = 0;
    virtual void on_close(int side, const std::string& why) = 0;
    World& world() const { return world_; }

  private:
    struct Direction {
        std::deque<PacketPtr> stalled;  // sent into a partition
        TimePoint not_before;           // a retransmission holds back what follows
        TimePoint last_small;
    };

    World::Pair& pair_from(int side) const;
    Duration latency_from(int side) const;
    bool healthy() const;
    void transmit(int side, PacketPtr packet);
    void transmit_bulk(int side, PacketPtr packet, Duration delay);
    std::optional<Duration> draw_delay(int side, bool small);
    void arrive(int side, PacketPtr packet);
    void flush(int side);
    void tell_closed(int side, const std::string& why, Duration after);
    void closed(int side, const std::string& why);

    World& world_;
    std::uint64_t id_;
    Process* process_[2];
    bool open_[2] = {false, false};
    bool was_open_[2] = {false, false};  // or never will be
    bool gone_ = false;
    bool healthy_ = true;
    std::uint64_t health_epoch_ = 0;
    Direction direction_[2];  // [side that sends]
    World::Pair* pair_[2];
};

// Gives back numbered packets in order. Bounded by the sender's window.
class InOrder {
  public:
    // Calls deliver(packet) for every packet that is next.
    template <typename Deliver>
    void push(Packet& packet, Deliver deliver) {
        if (packet.sequence != next_) {
            early_.emplace(packet.sequence, std::move(packet));
            return;
        }
        ++next_;
        deliver(packet);
        for (auto found = early_.find(next_); found != early_.end(); found = early_.find(next_)) {
            Packet following = std::move(found->second);
            early_.erase(found);
            ++next_;
            deliver(following);
        }
    }

  private:
    std::uint64_t next_ = 0;
    std::map<std::uint64_t, Packet> early_;
};

}  // namespace dedloc::sim
