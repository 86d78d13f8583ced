// InboundHandshakes: the strangers who have connected and not yet shown who they are, and which of
// them goes when another one comes and there is no room.
//
// A peer that says nothing keeps a seat for negotiation_max. A thousand who say nothing, from one
// machine or one network, must not keep others out: the oldest of the network that holds most seats
// makes room. Who is really a peer is done in a few round trips, long before it is the oldest.
//
// A network whose own members drive each other out does so at a limited pace; the rest of them find
// no room. So a flood from one network costs little, and a peer in that network that got a seat has
// the time that it needs: of a network it is the address with most seats that loses one. Newcomers
// of other networks do not wait for this, and nor does an address of the same one that has knocked
// little lately: the honest neighbour of those who flood.
//
// A network is an IPv4 /24 or an IPv6 /48. Thread: one. Cost: O(seats) to choose, when all are
// taken.

#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dedloc/base/time.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::transport {

class InboundHandshakes {
  public:
    // Held by the task that does the handshake; gone with it.
    class Seat {
      public:
        Seat(InboundHandshakes& all, std::uint64_t number) : all_(all), number_(number) {}
        ~Seat() { all_.seats_.erase(number_); }
        Seat(const Seat&) = delete;
        Seat& operator=(const Seat&) = delete;
        std::uint64_t number() const { return number_; }

      private:
        InboundHandshakes& all_;
        std::uint64_t number_;
    };

    std::unique_ptr<Seat> sit(const std::string& ip);
    // Nothing, if the seat is empty again.
    void belongs_to(std::uint64_t seat, runtime::TaskId task);
    // Picks who shall go for a newcomer from `ip`, which empties the seat at once; nullopt: nobody,
    // and the newcomer finds no room.
    std::optional<runtime::TaskId> unseat_one_for(const std::string& ip, TimePoint now);
    std::size_t size() const { return seats_.size(); }

  private:
    struct Taken {
        std::string network;
        std::string address;
        runtime::TaskId task = 0;
    };
    bool knocks_little(const std::string& ip, TimePoint now);

    std::map<std::uint64_t, Taken> seats_;  // oldest first
    std::uint64_t next_ = 0;
    // When a network may have driven out its own as often as it has (a leaky bucket).
    TimePoint crowding_until_{0s};
    std::map<std::string, TimePoint> knocks_;  // the same, of each address that found no room
};

// "203.0.113." of "203.0.113.7" in bytes; what is no IP literal is a network of its own.
std::string network_of(const std::string& ip);

}  // namespace dedloc::transport
