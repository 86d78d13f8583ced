#include "dedloc/dht/lookup.h"

#include "dedloc/dht/batches.h"
#include "dedloc/runtime/together.h"

namespace dedloc::dht {

Lookup::Lookup(DhtNode::Core& core, DhtId target, std::size_t beam, Found found)
    : core_(core),
      target_(target),
      beam_(beam),
      found_(std::move(found)),
      changed_(core.host.executor()),
      done_(core.host.executor()) {
    for (const Contact& contact : core_.table.nearest(target_, beam_))
        add(contact, State::waiting, 1);
    if (!candidates_.empty()) return;
    for (const Contact& contact : core_.remembered()) {
        core_.bans.erase(contact.peer);
        add(contact, State::waiting, 1);
    }
}

void Lookup::add(const Contact& contact, State state, std::size_t hops) {
    if (contact.id == core_.id || contact.peer == core_.host.id()) return;
    if (core_.options.routing.bound_only && !contact.bound()) return;
    const DhtId at = distance(target_, contact.id);
    const auto there = candidates_.find(at);
    if (there != candidates_.end()) {
        Candidate& candidate = there->second;
        if (candidate.contact.peer == contact.peer) {
            if (candidate.state == State::waiting) candidate.state = state;
            return;
        }
        // Two peers claim one id: whose hash it is has it, else whoever came first.
        if (!contact.bound() || candidate.state == State::asked) return;
        candidate = {.contact = contact, .state = state, .hops = hops};
        return;
    }
    if (candidates_.size() >= candidates_max) {
        // Room for a nearer one by giving up the farthest that is not being asked.
        auto last = std::prev(candidates_.end());
        if (!(at < last->first) || last->second.state == State::asked) return;
        candidates_.erase(last);
    }
    candidates_.emplace(at, Candidate{.contact = contact, .state = state, .hops = hops});
}

Lookup::Candidate* Lookup::next() {
    if (visits_ >= visits_max) return nullptr;
    std::size_t in_beam = 0;
    for (auto& [at, candidate] : candidates_) {
        if (candidate.state == State::waiting && core_.banned(candidate.contact.peer))
            candidate.state = State::failed;
        if (candidate.state == State::failed) continue;
        if (candidate.state == State::waiting) return &candidate;
        if (++in_beam >= beam_) return nullptr;
    }
    return nullptr;
}

Task<void> Lookup::run(TimePoint deadline) {
    std::vector<Task<void>> workers;
    for (std::size_t i = 0; i < core_.options.workers; ++i) workers.push_back(worker(deadline));
    Task<void> working = runtime::all_of(std::move(workers));
    co_await runtime::first_of(std::move(working), done_.wait());
}

Task<void> Lookup::worker(TimePoint deadline) {
    while (!enough_) {
        Candidate* candidate = next();
        if (!candidate) {
            if (active_ == 0) break;
            co_await changed_.wait();
            continue;
        }
        if (core_.host.clock().now() >= deadline) {
            last_error_ =
                make_error(ErrorKind::timeout, "the lookup took longer than its deadline");
            break;
        }
        candidate->state = State::asked;
        const Contact contact = candidate->contact;
        const DhtId at = distance(target_, contact.id);
        ++active_;
        ++visits_;
        auto answer = co_await core_.finds->find(contact.peer, target_, deadline);
        --active_;
        // The map may have changed meanwhile; what is being asked stays in it.
        Candidate& asked = candidates_.at(at);
        if (answer) {
            asked.state = State::answered;
            receive_answer(contact, *answer);
        } else {
            asked.state = State::failed;
            last_error_ = std::move(answer).error();
        }
        changed_.pulse();
    }
    done_.set();
    changed_.pulse();
}

void Lookup::receive_answer(const Contact& asked, const wire::FindResponse& response) {
    const std::size_t hops = candidates_.at(distance(target_, asked.id)).hops;
    hops_ = std::max(hops_, hops);
    const auto own_id = response.peer ? DhtId::from(response.peer->node_id)
                                      : Result<DhtId>(Error(ErrorKind::bad_input, "no id"));
    if (!own_id || *own_id != asked.id) {
        // Somebody told us a wrong id for that peer. It counts under its own.
        candidates_.at(distance(target_, asked.id)).state = State::failed;
        if (!own_id) return;
        const Contact contact{.id = *own_id, .peer = asked.peer};
        add(contact, State::answered, hops);
    }
    if (response.results.empty()) return;
    const wire::FindResult& result = response.results.front();
    receive_neighbours(result, hops + 1);
    if (found_ && found_(asked, result)) enough_ = true;
}

void Lookup::receive_neighbours(const wire::FindResult& result, std::size_t hops) {
    const std::size_t count =
        std::min(result.nearest_node_ids.size(), result.nearest_peer_ids.size());
    for (std::size_t i = 0; i < std::min(count, 4 * core_.options.routing.bucket_size); ++i) {
        auto id = DhtId::from(result.nearest_node_ids[i]);
        auto peer = PeerId::from_bytes(result.nearest_peer_ids[i]);
        if (!id || !peer) continue;
        const Contact contact{.id = *id, .peer = *std::move(peer)};
        if (i < result.nearest_addresses.size())
            core_.note_addresses(contact.peer, result.nearest_addresses[i].addresses);
        add(contact, State::waiting, hops);
    }
}

std::vector<Contact> Lookup::nearest() const {
    std::vector<Contact> contacts;
    for (const auto& [at, candidate] : candidates_)
        if (candidate.state == State::answered) contacts.push_back(candidate.contact);
    return contacts;
}

}  // namespace dedloc::dht
