// Lookup: a beam search for the nodes nearest to one id, and, on the way, for the records there.
//
// Keeps the beam_size nearest candidates that have not failed; `workers` calls at a time go to the
// nearest that were not asked yet; it ends when all of the beam have answered, when `enough` says
// so, or after visits_max calls.
//
// Source: docs/spec/dht.md. Cost: about beam_size calls. Thread: network.

#pragma once
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "dedloc/dht/core.h"

namespace dedloc::dht {

inline constexpr std::size_t visits_max = 200;
inline constexpr std::size_t candidates_max = 1024;

class Lookup {
  public:
    // `found`: gets every answer's result; true ends the lookup. May be empty.
    using Found = std::function<bool(const Contact& from, const wire::FindResult& result)>;

    Lookup(DhtNode::Core& core, DhtId target, std::size_t beam, Found found);
    Lookup(const Lookup&) = delete;
    Lookup& operator=(const Lookup&) = delete;

    Task<void> run(TimePoint deadline);

    // Nodes that answered, nearest first.
    std::vector<Contact> nearest() const;
    std::size_t asked() const { return visits_; }
    // The longest chain of nodes, each named by the one before, that were asked.
    std::size_t hops() const { return hops_; }
    const std::optional<Error>& last_error() const { return last_error_; }

  private:
    enum class State { waiting, asked, answered, failed };
    struct Candidate {
        Contact contact;
        State state = State::waiting;
        std::size_t hops = 0;  // who named it had so many, less one
    };

    void add(const Contact& contact, State state, std::size_t hops);
    Candidate* next();  // nullptr: none for now
    Task<void> worker(TimePoint deadline);
    void receive_answer(const Contact& asked, const wire::FindResponse& response);
    void receive_neighbours(const wire::FindResult& result, std::size_t hops);

    DhtNode::Core& core_;
    DhtId target_;
    std::size_t beam_;
    Found found_;
    std::map<DhtId, Candidate> candidates_;  // by distance
    std::size_t active_ = 0;
    std::size_t visits_ = 0;
    std::size_t hops_ = 0;
    bool enough_ = false;
    std::optional<Error> last_error_;
    runtime::Event changed_;
    runtime::Event done_;
};

}  // namespace dedloc::dht
