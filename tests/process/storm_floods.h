// Floods by strangers who have shown an identity each, over right connections of libp2p: what
// `dedloc-lab storm` asks of a peer beside knocking at its door.
//
//   const Flood flood(FloodKind::find_node, port);   // begins
//   …
//   flood.answers(), flood.cpu_seconds()             // so far
//
// Thread: one of its own. Cost: as much of a core as the peer lets it use.

#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

namespace dedloc::lab {

enum class FloodKind {
    find_node,  // strangers leave sixteen long addresses each and go; others ask for peers
    identify,   // who are you, again and again
    hello,      // hellos of no run, and of methods that nobody has
    hold,       // calls of 4 MiB that are announced, begun and never finished
    handshake,  // connections with a new identity each, which end at once
    relay,      // places at the relay, and circuits that carry bytes
};
inline constexpr std::array flood_kinds = {FloodKind::find_node,
                                           FloodKind::identify,
                                           FloodKind::hello,
                                           FloodKind::hold,
                                           FloodKind::handshake,
                                           FloodKind::relay};
std::string_view to_string(FloodKind kind);

class Flood {
  public:
    Flood(FloodKind kind, std::uint16_t port);
    ~Flood();
    Flood(const Flood&) = delete;
    Flood& operator=(const Flood&) = delete;
    std::uint64_t answers() const;
    double cpu_seconds() const;  // of its thread

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// A thread that computes for `share` of each moment, and does nothing else: what a flood costs the
// machine without asking anybody anything.
class BusyNeighbour {
  public:
    explicit BusyNeighbour(double share);
    ~BusyNeighbour();
    BusyNeighbour(const BusyNeighbour&) = delete;
    BusyNeighbour& operator=(const BusyNeighbour&) = delete;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace dedloc::lab
