// World: computers, their clocks, disks and the network between them, in virtual time, from a seed.
//
//   sim::World world(seed);
//   sim::SimNode& a = world.add_node({.name = "a"});
//   sim::SimNode& b = world.add_node({.name = "b"});
//   MyProtocol on_a(a.host(), a.runtime());
//   world.run_until([&] { return on_a.done(); }, 60s);
//   b.kill();
//   world.run_task(on_b.stop());  world.run_task(b.host().stop());   // join what was killed
//
// The same seed and the same calls give the same trace, bit for bit, with every compiler: events
// are ordered by (time, sequence number), nothing iterates over addresses or hashes, and all
// randomness comes from base::Random.
//
// The network is a model of TCP, not of packets:
//  * latency, jitter and loss of a pair; bytes per second of the pair and of both machines, shared
//    by all that flows. Messages up to small_bytes_max pass bulk data, as they do through a
//    multiplexer; bulk goes first come first served.
//  * a lost message comes late (retransmission, and everything after it on that connection too);
//    seldom, or after several losses in a row, the connection breaks.
//  * a killed process: its machine resets the connections at once, others learn it one latency
//    later. A lost machine, a partition, a frozen process: others learn nothing until the
//    keepalive time has passed. What was sent into a partition arrives after it has healed, if the
//    connection still stands.
//  * a frozen process (SIGSTOP) keeps its connections; what arrives waits, then all comes at once.
//
// Everything runs in the thread that drives the world. Destroy protocols before the World; it
// joins its hosts itself.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/base/time.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/network.h"
#include "dedloc/runtime/node.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/sim/event_queue.h"
#include "dedloc/sim/sim_disk.h"

namespace asio {
class io_context;
}

namespace dedloc::sim {

class World;
class Process;
class SimNode;
class Wire;

// Messages up to this size do not queue behind bulk data.
inline constexpr std::size_t small_bytes_max = 4096;
// A stream's write waits while the machine's line has so much before it.
inline constexpr Duration line_backlog_max{50'000'000};
// Framing and packet headers add this to a message.
inline constexpr std::size_t overhead_bytes = 64;

// From one machine to another; set_link sets both directions.
struct LinkOptions {
    Duration latency{20'000'000};  // one way
    Duration jitter{0};            // added: uniform in [0, jitter]
    double bytes_per_s = 1.25e9;   // the machines' own rates limit as well
    double loss = 0;               // probability that a message must be sent again
};

struct NodeOptions {
    std::string name;          // empty: "n0", "n1", …
    Duration clock_offset{0};  // of now(), against the world's time
    double clock_drift = 0;    // 1e-4: gains 0.1 ms a second
    Duration wall_skew{0};     // of wall_now()
    double upload_bytes_per_s = 12.5e6;
    double download_bytes_per_s = 12.5e6;
    bool dialable = true;
    // The networks that the machine is in, a bit each: IPv4 and IPv6, the Internet and a VPN. Two
    // that share none reach each other through any live machine that is in one of each (a relay).
    unsigned networks = 1;
};

struct WorldOptions {
    LinkOptions link;                     // of pairs without set_link
    bool everyone_knows_everyone = true;  // dialling by id needs no add_addresses
    Duration keepalive{10'000'000'000};   // silence after which a connection is given up
    Duration worker_cost{0};              // virtual time of one Workers job
    std::size_t stream_window_bytes = 4u << 20;
    // Lines, and what the methods below send, are so many times smaller than what they stand for.
    // Other messages are as long as ever: they, and what is put around each, count so many times
    // less on a line and in the statistics.
    double shrunk = 1;
    std::vector<std::string> shrunk_methods{};
};

// All messages of one method that were delivered, with the packet headers around them.
struct MethodTraffic {
    std::string method;
    std::uint64_t messages = 0;
    double bytes = 0;
};

struct WorldStats {
    std::uint64_t events = 0;
    std::uint64_t messages_delivered = 0;
    std::uint64_t bytes_delivered = 0;  // without what is put around messages
    std::uint64_t messages_lost = 0;    // sent again, or gone with their connection
    std::uint64_t connections_broken = 0;
};

// One computer. Its identity and disk outlive its processes.
class SimNode {
  public:
    const std::string& name() const { return options_.name; }
    std::size_t index() const { return index_; }
    const PeerId& id() const { return signer_.id(); }
    const security::ToySigner& signer() const { return signer_; }
    std::string ip() const;       // "10.0.0.3"
    std::string address() const;  // "/ip4/10.0.0.3/tcp/4000"
    NodeOptions& options() { return options_; }

    // The runtime of the process that runs now (or ran last).
    runtime::Node runtime();
    p2p::Host& host();
    SimDisk& disk();
    runtime::Clock& clock();
    runtime::Network& network();  // bytes over the same links, for testing p2p itself
    std::uint32_t incarnation() const { return incarnation_; }

    // SIGKILL: nothing of the process runs any more, nothing it sends leaves, nothing it writes
    // reaches the disk. Its objects still exist: stop and destroy them, then host().stop(), then
    // restart(). (stop() lets the tasks of a dead process run again, cut off, so that they end.)
    void kill();
    void lose_machine();  // power failure: as kill(), and nobody is told
    bool alive() const;   // a process runs, frozen or not
    // SIGSTOP and SIGCONT. The machine's clock goes on.
    void freeze();
    void thaw();
    void freeze_for(Duration duration);
    bool frozen() const;
    // A new process on this machine: new host, no tasks, the same identity. The dead one's host
    // must have been stopped.
    void restart(bool lose_disk = false);
    // Called when the process dies, whatever killed it (crash_at_next_write as well).
    void on_death(std::function<void(SimNode&)> listener) { on_death_ = std::move(listener); }

    void set_clock_drift(double drift);  // from now on
    void step_wall_clock(Duration by) { options_.wall_skew += by; }
    // Added to what the links of this machine do anyway.
    void set_weather(double loss, Duration latency);
    // The line has carried this by now, of what was given to it.
    runtime::Traffic traffic();
    // How long the line will yet be busy with what was given to it.
    Duration upload_backlog() const;

  private:
    friend class World;
    friend class Process;
    friend class Wire;
    friend class SimClock;
    friend class SimHost;
    friend class SimNetwork;

    struct Line {  // one direction of the machine's line; times until which it is taken
        TimePoint small_free;
        TimePoint bulk_free;
        std::uint64_t bytes = 0;    // that it was given
        std::uint64_t carried = 0;  // of them, at the last look
    };

    SimNode(World& world, std::size_t index, NodeOptions options, std::uint64_t identity_seed);
    void die(bool machine);
    std::uint64_t carried(Line& line, double bytes_per_s) const;
    TimePoint local_time(TimePoint world_time) const;
    TimePoint world_time(TimePoint local) const;

    World& world_;
    std::size_t index_;
    NodeOptions options_;
    security::ToySigner signer_;
    std::shared_ptr<DiskContent> disk_content_;
    Process* process_ = nullptr;
    std::uint32_t incarnation_ = 0;
    bool machine_up_ = true;
    TimePoint drift_since_world_;
    TimePoint drift_since_local_;
    std::int64_t drift_ppb_ = 0;
    double weather_loss_ = 0;
    Duration weather_latency_{0};
    Line up_;
    Line down_;
    std::function<void(SimNode&)> on_death_;
};

class World {
  public:
    explicit World(std::uint64_t seed, WorldOptions options = {});
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    SimNode& add_node(NodeOptions options = {});
    SimNode& node(std::string_view name);  // must exist
    SimNode& node(std::size_t index) { return *nodes_.at(index); }
    SimNode* find(const PeerId& id);
    std::size_t nodes_count() const { return nodes_.size(); }

    TimePoint now() const { return now_; }
    runtime::Executor executor();
    Random random(std::string_view purpose) const { return random_.fork(purpose); }
    std::uint64_t seed() const { return seed_; }
    const WorldOptions& options() const { return options_; }
    // For tasks that belong to nobody on the network: the test's own. Stopped with the world.
    runtime::Scope& scope() { return *scope_; }

    void run_for(Duration duration);
    // True as soon as the predicate holds (looked at after events, at most once a virtual
    // millisecond); false when `at_most` has passed.
    bool run_until(const std::function<bool()>& predicate, Duration at_most);
    // Drives the world until the task has ended; a failed check if it does not.
    void run_task(Task<void> task, Duration at_most = std::chrono::hours(1));
    // Calls `action` at that time, between all tasks; nobody's clock stops it.
    void at(TimePoint time, std::function<void()> action);
    void after(Duration duration, std::function<void()> action);
    Task<void> sleep_until(TimePoint time);  // for the world's own tasks

    // Groups of names that reach only each other; nodes in no group form one of their own.
    void partition(const std::vector<std::vector<std::string>>& groups);
    void end_partition();
    void heal();  // ends partition and blocks
    // Nothing from `from` arrives at `to`; the other direction is not touched.
    void block(const SimNode& from, const SimNode& to);
    void unblock(const SimNode& from, const SimNode& to);
    void set_link(const SimNode& a, const SimNode& b, LinkOptions options);
    void set_default_link(LinkOptions options);  // pairs without set_link; from now on

    // Called for every message that arrives, in order, before it is handled.
    using MessageListener =
        std::function<void(std::size_t from, std::size_t to, const std::string& method)>;
    void on_message(MessageListener listener) { on_message_ = std::move(listener); }

    // A peer made bad: called for every request, answer and message of a stream that somebody
    // sends, and may change its bytes. What it signs itself can be signed anew (SimNode::signer).
    struct Outgoing {
        std::size_t from;
        std::size_t to;
        const std::string& method;
        bool is_answer;  // to a call, or from who accepted the stream
        Bytes& payload;
    };
    using Tamper = std::function<void(const Outgoing&)>;
    void on_send(Tamper tamper) { tamper_ = std::move(tamper); }

    // Adds a line to the trace.
    void note(std::string_view text);
    // Hashes all delivered messages (time, from, to, method, size, bytes) and notes so far.
    std::uint64_t trace_hash() const { return trace_; }
    const WorldStats& stats() const { return stats_; }
    std::vector<MethodTraffic> traffic() const;
    double bytes_on_lines() const;  // of all methods

    // --- for the other files of this room ---
    struct Pair {  // one direction between two machines
        LinkOptions link;
        bool own_link = false;
        TimePoint free;
    };
    EventId schedule(TimePoint time, Process* owner, Action action);
    void cancel(EventId event) { events_.cancel(event); }
    void release_held(Process& process);
    Pair& pair(std::size_t from, std::size_t to);
    bool path_open(std::size_t from, std::size_t to) const;
    std::uint32_t intern(const std::string& method);
    const std::string& method_name(std::uint32_t method) const;
    // One way between two that share a network, or are not asked for one.
    bool leg_open(std::size_t from, std::size_t to) const;
    bool is_bridged(std::size_t from, std::size_t to) const;
    void add_wire(std::shared_ptr<Wire> wire);
    void remove_wire(std::uint64_t id);
    void reassess_wires();
    void tamper(const Process& from,
                const Process& to,
                std::uint32_t method,
                bool is_answer,
                Bytes& payload);
    void trace_message(std::size_t from, std::size_t to, std::uint32_t method, ByteView payload);
    // How many bytes a message counts on a line.
    std::size_t bytes_on_line(std::uint32_t method, std::size_t payload_bytes) const;
    SimNode* find_address(std::string_view ip);
    Random& link_random() { return link_random_; }
    WorldStats& mutable_stats() { return stats_; }
    std::uint64_t next_wire_id() { return ++wires_made_; }
    void start_process(SimNode& node);

  private:
    friend class SimNode;

    struct Method {
        std::string name;
        std::uint64_t hash = 0;
        bool as_it_is = true;  // its payloads count in full, however much lines are shrunk
        std::uint64_t messages = 0;
        std::uint64_t payload_bytes = 0;
    };
    double bytes_on_lines(const Method& method) const;

    void drain();  // runs what is ready
    bool step(TimePoint limit);
    void mix(std::uint64_t word);
    void break_off(Process& process, bool machine);

    std::uint64_t seed_;
    WorldOptions options_;
    Random random_;
    Random link_random_;
    TimePoint now_;
    std::unique_ptr<asio::io_context> io_;
    EventQueue events_;
    std::vector<std::unique_ptr<SimNode>> nodes_;
    std::vector<std::unique_ptr<Process>> processes_;      // dead ones too, until the end
    std::unordered_map<PeerId, std::size_t> nodes_by_id_;  // looked up, never iterated
    std::unordered_map<std::string, std::uint32_t> methods_by_name_;
    std::vector<Method> methods_;
    MessageListener on_message_;
    Tamper tamper_;
    std::map<std::pair<std::size_t, std::size_t>, Pair> pairs_;
    std::set<std::pair<std::size_t, std::size_t>> blocked_;
    std::vector<std::size_t> group_of_;  // empty: no partition
    std::map<std::uint64_t, std::shared_ptr<Wire>> wires_;
    std::uint64_t wires_made_ = 0;
    std::unique_ptr<runtime::Scope> scope_;
    std::uint64_t trace_;
    WorldStats stats_;
};

}  // namespace dedloc::sim
