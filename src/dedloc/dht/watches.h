// Watches: changes of a key, pushed to those who want to hear of them.
//
// A watcher opens a stream to the nearest nodes of the key and names it. Each answers at once with
// what it holds, then with every record of the key that it takes; what changes while a message is
// on its way travels together in the next. The watcher checks each record as it checks what a get
// finds. Holders come and go: every rewatch_period it looks for the nearest again, and asks them
// (so it hears, later, from hivemind's nodes, too, which push nothing).
//
// Limits: watchers of one key, of one peer and in all; for each, the subkeys that have changed
// since its last message. Messages: watch_message_bytes at most, or one record. Thread: the network
// thread.

#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "dedloc/dht/core.h"

namespace dedloc::dht {

inline constexpr std::size_t watchers_per_key_max = 64;
inline constexpr std::size_t watchers_per_peer_max = 256;
inline constexpr std::size_t watchers_max = 4096;
inline constexpr std::size_t watch_message_bytes = 1u << 20;
inline constexpr std::size_t watch_request_bytes_max = 64;
inline constexpr std::size_t watched_holders = 2;
inline constexpr Duration rewatch_period = 30s;
inline constexpr Duration rewatch_pause_min = 1s;  // between failures

class Watches {
  public:
    explicit Watches(DhtNode::Core& core) : core_(core) {}

    // --- the holder's side
    // A stream's handler: until the watcher ends it, or the node stops.
    Task<void> serve(std::unique_ptr<p2p::MessageStream> stream);
    // A record was put into the storage.
    void changed(const DhtId& key, ByteView subkey);
    void end_all();
    std::size_t watchers() const { return count_; }

    // --- the watcher's side
    struct State {
        State(runtime::Executor executor, DhtId what, ChangeListener told, StorageLimits limits)
            : key(what), listener(std::move(told)), known(limits), lost(executor) {}
        DhtId key;
        ChangeListener listener;
        Storage known;
        runtime::Event lost;  // a holder that has spoken is gone
        bool ended = false;
    };
    // Until it is cancelled, or `ended`.
    Task<void> follow(std::shared_ptr<State> state);

  private:
    struct Watcher {
        explicit Watcher(runtime::Executor executor) : woken(executor) {}
        std::set<Bytes> subkeys;  // that have changed; of the plain value: nil
        runtime::Event woken;
    };
    class Place;  // in the lists, while it lives

    std::shared_ptr<Watcher> add(const DhtId& key, const PeerId& peer);
    void remove(const DhtId& key, const PeerId& peer, const std::shared_ptr<Watcher>& watcher);
    // Takes out of `subkeys` what fits into one message.
    wire::FindResult next_news(const DhtId& key, std::set<Bytes>& subkeys);
    std::set<Bytes> subkeys_of(const DhtId& key);

    Task<void> ask_around(std::shared_ptr<State> state, std::vector<Contact>& nearest);
    Task<void> hear_from(std::shared_ptr<State> state, PeerId holder);
    Task<void> hear_from_ourselves(std::shared_ptr<State> state);
    void take(State& state, const wire::FindResult& news);

    DhtNode::Core& core_;
    std::map<DhtId, std::vector<std::shared_ptr<Watcher>>> by_key_;
    std::map<PeerId, std::size_t> by_peer_;
    std::size_t count_ = 0;
};

}  // namespace dedloc::dht
