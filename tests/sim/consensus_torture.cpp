// See consensus_torture.h.

#include "tests/sim/consensus_torture.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "dedloc/base/random.h"
#include "dedloc/security/toy_signature.h"

namespace dedloc::lab {
namespace {

using namespace consensus;  // the subject of this file

constexpr int steps_of_a_history = 400;

struct Message {
    enum class Kind { prepare, promise, propose, vote } kind;
    std::size_t from = 0;
    std::size_t to = 0;
    std::uint32_t ballot = 0;
    std::uint32_t life = 0;  // of the proposer: answers to a dead process reach nobody
    Bytes value;             // propose, vote
    ConsensusReply reply;    // promise
};

// One voter: acceptor, its disk, and the proposer in the same process.
struct Process {
    AcceptorRecord disk;
    PaxosAcceptor acceptor;
    bool lost_its_disk = false;
    std::deque<std::pair<AcceptorRecord, Message>> writing;  // leaves when it is on disk
    std::uint32_t life = 0;
    std::uint32_t round = 0;  // of ballots
    std::uint32_t outbid = 0;
    std::optional<Tally> promises;
    std::optional<Tally> votes;
    std::uint32_t ballot = 0;
    Bytes value;
};

class History {
  public:
    History(std::uint64_t seed, PlantedBugs bugs) : random_(seed), bugs_(bugs) {
        const std::size_t count = 2 + random_.below(4);
        for (std::size_t i = 0; i < count; ++i)
            voters_.push_back({security::toy_peer_id(i + 1), i + 1});
        instance_.step = 7;
        processes_.resize(count);
        for (Process& process : processes_) process.acceptor = PaxosAcceptor({}, bugs_);
        // Swarm testing: some histories have no deaths, some no loss, …
        death_ = random_.chance(0.7) ? random_.uniform(0, 0.04) : 0;
        disk_loss_ = random_.chance(0.5) ? random_.uniform(0, 0.5) : 0;
        loss_ = random_.chance(0.7) ? random_.uniform(0, 0.4) : 0;
        repeat_ = random_.chance(0.5) ? random_.uniform(0, 0.2) : 0;
        propose_ = random_.uniform(0.01, 0.15);
    }

    void run() {
        for (int i = 0; i < steps_of_a_history && certified_.size() < 2; ++i) step();
    }
    std::size_t certified_count() const { return certified_.size(); }

  private:
    void step() {
        const double choice = random_.uniform();
        const std::size_t who = random_.below(processes_.size());
        if (choice < death_) {
            die(who);
        } else if (choice < death_ + propose_) {
            begin_ballot(who);
        } else if (random_.chance(0.5)) {
            finish_write(who);
        } else {
            deliver();
        }
    }

    void die(std::size_t who) {
        Process& process = processes_[who];
        const bool lose_disk = random_.chance(disk_loss_);
        const std::uint32_t life = process.life + 1;
        const bool lost = process.lost_its_disk || lose_disk;
        AcceptorRecord disk = lose_disk ? AcceptorRecord{} : std::move(process.disk);
        process = Process{};
        process.life = life;
        process.lost_its_disk = lost;
        process.acceptor = PaxosAcceptor(disk, bugs_);
        process.disk = std::move(disk);
    }

    // A peer whose memory is gone has another incarnation and may not vote.
    bool may_vote(const Process& process) const {
        return !process.lost_its_disk || bugs_.vote_without_memory;
    }

    void begin_ballot(std::size_t who) {
        Process& process = processes_[who];
        if (!may_vote(process)) return;
        const auto n = static_cast<std::uint32_t>(processes_.size());
        std::uint32_t ballot = static_cast<std::uint32_t>(who) + process.round * n;
        while (ballot < process.outbid) {
            ++process.round;
            ballot += n;
        }
        ++process.round;
        process.ballot = ballot;
        process.promises.emplace(voters_, bugs_);
        process.votes.reset();
        if (ballot == 0 || bugs_.skip_prepare) {
            propose(who, fresh_value(who));
            return;
        }
        for (std::size_t to = 0; to < processes_.size(); ++to)
            send({Message::Kind::prepare, who, to, ballot, process.life, {}, {}});
    }

    Bytes fresh_value(std::size_t who) { return Bytes{static_cast<std::uint8_t>(who), values_++}; }

    // The proposer's own vote comes first and must be durable; only then are the others asked.
    void propose(std::size_t who, Bytes value) {
        Process& process = processes_[who];
        process.promises.reset();
        process.value = value;
        process.votes.emplace(voters_, bugs_);
        send(
            {Message::Kind::propose, who, who, process.ballot, process.life, std::move(value), {}});
    }

    void send(Message message) { network_.push_back(std::move(message)); }

    void deliver() {
        if (network_.empty()) return;
        const std::size_t at = random_.below(network_.size());
        Message message = network_[at];
        const bool to_itself = message.from == message.to;
        if (to_itself || !random_.chance(repeat_))
            network_.erase(network_.begin() + static_cast<std::ptrdiff_t>(at));
        if (!to_itself && random_.chance(loss_)) return;
        switch (message.kind) {
            case Message::Kind::prepare:
                on_prepare(message);
                break;
            case Message::Kind::propose:
                on_propose(message);
                break;
            case Message::Kind::promise:
                on_promise(message);
                break;
            case Message::Kind::vote:
                on_vote(message);
                break;
        }
    }

    void on_prepare(const Message& message) {
        Process& process = processes_[message.to];
        if (!may_vote(process)) return;
        Message answer{Message::Kind::promise,
                       message.to,
                       message.from,
                       message.ballot,
                       message.life,
                       {},
                       process.acceptor.prepare({}, instance_, message.ballot)};
        if (answer.reply.answer == Answer::yes)
            write_then_send(message.to, std::move(answer));
        else
            send(std::move(answer));
    }

    void on_propose(const Message& message) {
        Process& process = processes_[message.to];
        if (!may_vote(process)) return;
        const auto reply = process.acceptor.accept({}, instance_, message.ballot, message.value);
        if (reply.answer != Answer::yes) return;
        write_then_send(message.to,
                        {Message::Kind::vote,
                         message.to,
                         message.from,
                         message.ballot,
                         message.life,
                         message.value,
                         {}});
    }

    void write_then_send(std::size_t who, Message answer) {
        Process& process = processes_[who];
        if (bugs_.forget_votes) {
            send(std::move(answer));
            return;
        }
        process.writing.emplace_back(process.acceptor.record(), std::move(answer));
    }

    void finish_write(std::size_t who) {
        Process& process = processes_[who];
        if (process.writing.empty()) return;
        auto [record, answer] = std::move(process.writing.front());
        process.writing.pop_front();
        process.disk = std::move(record);
        const bool overtaken = answer.kind == Message::Kind::promise &&
                               process.acceptor.record().promised != answer.ballot;
        if (!overtaken) send(std::move(answer));
    }

    void on_promise(const Message& message) {
        Process& process = processes_[message.to];
        if (message.life != process.life) return;
        if (message.reply.answer == Answer::outbid)
            process.outbid = std::max(process.outbid, message.reply.ballot);
        if (message.ballot != process.ballot || !process.promises) return;
        process.promises->promise(voters_[message.from].peer, message.reply);
        if (!process.promises->promised()) return;
        const std::optional<Bytes> keep = process.promises->value_to_keep();
        propose(message.to, keep ? *keep : fresh_value(message.to));
    }

    void on_vote(const Message& message) {
        Process& process = processes_[message.to];
        if (message.life != process.life || message.ballot != process.ballot || !process.votes ||
            message.value != process.value)
            return;
        const bool own_was_missing = process.votes->votes_count() == 0;
        process.votes->vote(voters_[message.from].peer, {});
        if (own_was_missing)
            for (std::size_t to = 0; to < processes_.size(); ++to)
                if (to != message.to)
                    send({Message::Kind::propose,
                          message.to,
                          to,
                          process.ballot,
                          process.life,
                          process.value,
                          {}});
        if (process.votes->chosen()) certified_.insert(process.value);
    }

    Random random_;
    PlantedBugs bugs_;
    std::vector<Voter> voters_;
    Instance instance_;
    std::vector<Process> processes_;
    std::vector<Message> network_;
    std::set<Bytes> certified_;
    std::uint8_t values_ = 0;
    double death_ = 0;
    double disk_loss_ = 0;
    double loss_ = 0;
    double repeat_ = 0;
    double propose_ = 0;
};

}  // namespace

TortureOutcome torture_consensus(std::uint64_t seed, consensus::PlantedBugs bugs) {
    History history(seed, bugs);
    history.run();
    return {history.certified_count()};
}

}  // namespace dedloc::lab
