// One of four members breaks the rules at one message, again and again, from the tenth second on.
// It is refused by name, nobody honest is, the others go on stepping together, and what they
// certify is what the checkers recompute.

#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "dedloc/averaging/messages.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/wire/message.h"

#include "tests/sim/simulation.h"

namespace dedloc::lab {
namespace {

using namespace averaging;
using namespace consensus;
using namespace allreduce;

constexpr std::size_t bad = 2;
constexpr TimePoint from_then_on{10s};
constexpr std::uint64_t aborts_max = 2;

// A liar's memory, and the key that it signs with.
struct Scene {
    sim::World* world = nullptr;
    std::size_t to = 0;
    Bytes plan;                                 // the newest signed plan of anybody
    std::optional<CounterRange> first_samples;  // that were in an average
    std::map<std::size_t, std::uint32_t> first_part;
    std::map<std::size_t, Bytes> average_before;
    Bytes vote_before;
    std::map<std::size_t, std::vector<Bytes>> contribution_before;  // a stream's messages
    std::map<std::size_t, std::size_t> sent_again;                  // of those
    std::map<std::string, Bytes> newest_call;                       // of anybody, by its method
    std::uint32_t round_ms_max = 0;                                 // of all plans
    Digest run;  // of the newest decision that was proposed …
    double branch_samples = 0;
    std::uint64_t number = 0;

    const security::ToySigner& signer() const { return world->node(bad).signer(); }
};

struct Lie {
    const char* name;
    const char* method;
    bool is_answer;
    const char* told;  // of the bad member, in the log of an honest one
    bool (*tell)(Scene&, Bytes&);
};

template <typename Message>
std::optional<Message> read(const Bytes& bytes) {
    auto message = wire::decode<Message>(bytes);
    if (!message) return std::nullopt;
    return *std::move(message);
}

// Changes the numbers of one part of the contribution.
template <typename Change>
bool change_numbers(Bytes& bytes, Change change) {
    const auto data = read<PartData>(bytes);
    if (!data || data->encoded.empty()) return false;
    Bytes encoded = to_bytes(data->encoded);
    change(encoded);
    PartData changed;
    changed.part = data->part;
    changed.encoded = encoded;
    bytes = wire::encode(changed);
    return true;
}

bool fill_with(Bytes& bytes, float value) {
    return change_numbers(bytes, [value](Bytes& encoded) {
        for (std::size_t i = 0; i + sizeof value <= encoded.size(); i += sizeof value)
            std::memcpy(encoded.data() + i, &value, sizeof value);
    });
}

template <typename Change>
bool change_part_number(Bytes& bytes, Change change) {
    auto data = read<PartData>(bytes);
    if (!data || data->encoded.empty()) return false;
    const Bytes encoded = to_bytes(data->encoded);
    data->encoded = encoded;
    if (!change(data->part)) return false;
    bytes = wire::encode(*data);
    return true;
}

template <typename Change>
bool change_announcement(Bytes& bytes, Change change) {
    auto announce = read<Announce>(bytes);
    if (!announce || announce->input.fresh.size() == 0) return false;
    if (!change(announce->input)) return false;
    bytes = wire::encode(*announce);
    return true;
}

// A plan of its own, changed and signed anew.
template <typename Change>
bool change_plan(Scene& scene, Bytes& bytes, Change change) {
    auto message = read<Signed>(bytes);
    auto plan = message ? read<RoundPlan>(message->payload) : std::nullopt;
    if (!plan) return false;
    change(*plan);
    message->payload = wire::encode(*plan);
    message->signature = scene.signer().sign(plan_domain, message->payload);
    bytes = wire::encode(*message);
    return true;
}

// An average of its own; signed anew if that is wanted.
template <typename Change>
bool change_average(Scene& scene, Bytes& bytes, bool sign, Change change) {
    auto data = read<FinishedPartData>(bytes);
    if (!data || data->encoded.empty()) return false;
    Bytes encoded = to_bytes(data->encoded);
    change(data->header, encoded);
    data->encoded = encoded;
    if (sign)
        data->header.signature = scene.signer().sign(part_domain, data->header.signed_bytes());
    bytes = wire::encode(*data);
    return true;
}

// Nobody has it.
void include_one_beyond_the_members(FinishedPart& header) { header.included.back() |= 0x80; }

template <typename Change>
bool change_decision(Bytes& bytes, Change change) {
    auto propose = read<Propose>(bytes);
    if (propose && !propose->compact_decision.empty()) {  // ask for it whole, and see
        propose->digest = Digest{};
        bytes = wire::encode(*propose);
        return false;
    }
    auto decision = propose ? read<Decision>(propose->decision) : std::nullopt;
    if (!decision || decision->parts.empty()) return false;
    change(*decision);
    propose->decision = wire::encode(*decision);
    bytes = wire::encode(*propose);
    return true;
}

// The first part that is (or is not) its own by the plan, changed, in its own name and signed anew.
template <typename Change>
bool change_part_of_decision(Scene& scene, Bytes& bytes, bool own, Change change) {
    bool changed = false;
    change_decision(bytes, [&](Decision& decision) {
        const auto plan = read<RoundPlan>(decision.plan);
        if (!plan) return;
        const auto liar = static_cast<std::uint32_t>(
            std::ranges::find(plan->members, scene.signer().id(), &PlanMember::peer) -
            plan->members.begin());
        const auto part = std::ranges::find_if(decision.parts, [&](const FinishedPart& one) {
            return (plan->parts[one.part].owner == liar) == own;
        });
        if (part == decision.parts.end()) return;
        part->owner = liar;
        change(*part);
        part->signature = scene.signer().sign(part_domain, part->signed_bytes());
        changed = true;
    });
    return changed;
}

void send_call(Scene& scene, const char* method, Bytes request) {
    auto call = [](sim::SimNode& node, PeerId to, const char* name, Bytes payload) -> Task<void> {
        const TimePoint deadline = node.clock().now() + Duration(1s);
        (void)co_await node.host().call(to, name, std::move(payload), deadline);
    };
    scene.world->scope().spawn(
        "lie",
        call(scene.world->node(bad), scene.world->node(scene.to).id(), method, std::move(request)));
}

// Somebody else's plan is repaired by the bad member, in its own favour.
bool send_forged_repair(Scene& scene, Bytes&) {
    const auto message = read<Signed>(scene.plan);
    const auto plan = message ? read<RoundPlan>(message->payload) : std::nullopt;
    if (!plan || plan->leader == scene.world->node(bad).id()) return false;
    Repair repair;
    repair.plan = decision_digest(message->payload);
    repair.number = 1;
    repair.parts = {0};
    for (std::uint32_t i = 0; i < plan->members.size(); ++i)
        if (plan->members[i].peer == scene.world->node(bad).id()) repair.owners = {i};
    Signed forged;
    forged.payload = wire::encode(repair);
    forged.signature = scene.signer().sign(repair_domain, forged.payload);
    send_call(scene, repair_method, wire::encode(forged));
    return true;
}

// The member's own plan, its own repair, but nothing that proves that it made it.
bool send_repair_with_a_broken_signature(Scene& scene, Bytes&) {
    const auto message = read<Signed>(scene.plan);
    const auto plan = message ? read<RoundPlan>(message->payload) : std::nullopt;
    if (!plan || plan->leader != scene.world->node(bad).id()) return false;
    Repair repair;
    repair.plan = decision_digest(message->payload);
    repair.number = 1;
    repair.parts = {0};
    repair.owners = {0};
    Signed forged;
    forged.payload = wire::encode(repair);
    forged.signature = scene.signer().sign(repair_domain, forged.payload);
    forged.signature.front() ^= 1;
    send_call(scene, repair_method, wire::encode(forged));
    return true;
}

// The header names that step's plan.
bool send_earlier_contribution(Scene& scene, Bytes& bytes) {
    const auto before = scene.contribution_before.find(scene.to);
    if (before == scene.contribution_before.end()) return false;
    std::size_t& place = scene.sent_again[scene.to];
    if (read<PartsHeader>(bytes)) place = 0;
    if (place >= before->second.size()) return false;
    bytes = before->second[place++];
    return true;
}

const Lie lies[] = {
    {"not_a_number",
     parts_method,
     false,
     "not finite",
     [](Scene&, Bytes& b) { return fill_with(b, std::numeric_limits<float>::quiet_NaN()); }},
    {"infinity",
     parts_method,
     false,
     "not finite",
     [](Scene&, Bytes& b) { return fill_with(b, -std::numeric_limits<float>::infinity()); }},
    {"one_infinite_number_in_one_part",
     parts_method,
     false,
     "not finite",
     [](Scene&, Bytes& b) {
         const auto data = read<PartData>(b);
         if (!data || data->part != 3) return false;
         return change_numbers(b, [](Bytes& encoded) {
             const float infinite = std::numeric_limits<float>::infinity();
             std::memcpy(encoded.data() + 8, &infinite, sizeof infinite);
         });
     }},
    {"over_norm",
     parts_method,
     false,
     "norm_max",
     [](Scene&, Bytes& b) { return fill_with(b, 1e9f); }},
    {"wrong_length",
     parts_method,
     false,
     "wrong length",
     [](Scene&, Bytes& b) {
         return change_numbers(b, [](Bytes& encoded) { encoded.resize(encoded.size() - 4); });
     }},
    {"nonsense_for_a_part",
     parts_method,
     false,
     "cannot be read",
     [](Scene&, Bytes& b) {
         if (!read<PartData>(b)) return false;
         b.assign(b.size(), 0xff);
         return true;
     }},
    {"a_part_that_is_not_reduced_there",
     parts_method,
     false,
     "none that is reduced here",
     [](Scene&, Bytes& b) {
         return change_part_number(b, [](std::uint32_t& part) { return (part += 1000) > 0; });
     }},
    {"a_part_twice",
     parts_method,
     false,
     "came twice",
     [](Scene& scene, Bytes& b) {
         if (read<PartsHeader>(b)) scene.first_part.erase(scene.to);
         return change_part_number(b, [&scene](std::uint32_t& part) {
             const auto [first, is_first] = scene.first_part.emplace(scene.to, part);
             part = first->second;
             return !is_first;
         });
     }},
    {"parts_of_another_group",
     parts_method,
     false,
     "group",
     [](Scene&, Bytes& b) {
         auto header = read<PartsHeader>(b);
         if (!header) return false;
         header->plan.bytes[0] ^= 1;
         b = wire::encode(*header);
         return true;
     }},
    {"a_contribution_of_an_earlier_step", parts_method, false, "group", send_earlier_contribution},
    {"a_million_samples",
     announce_method,
     false,
     "more samples",
     [](Scene&, Bytes& b) {
         return change_announcement(
             b, [](MemberInput& input) { return (input.fresh.end += 1'000'000) > 0; });
     }},
    {"four_batches_of_samples",
     announce_method,
     false,
     "more samples",
     [](Scene&, Bytes& b) {
         return change_announcement(
             b, [](MemberInput& input) { return (input.fresh.end += 4 * 128) > 0; });
     }},
    {"more_samples_than_its_speed_makes",
     announce_method,
     false,
     "has computed at most",
     [](Scene&, Bytes& b) {
         return change_announcement(
             b, [](MemberInput& input) { return (input.fresh.end += 160) > 0; });
     }},
    {"samples_that_run_backwards",
     announce_method,
     false,
     "backwards",
     [](Scene&, Bytes& b) {
         return change_announcement(b, [](MemberInput& input) {
             std::swap(input.fresh.begin, input.fresh.end);
             return true;
         });
     }},
    {"more_samples_left_out_than_anybody_computes_again",
     announce_method,
     false,
     "leaves out more samples than the run allows",
     [](Scene&, Bytes& b) {
         return change_announcement(b, [](MemberInput& input) {
             constexpr std::uint64_t many = std::uint64_t{1} << 40;
             input.fresh.end += many;
             input.fresh.left_out += many;
             return true;
         });
     }},
    {"samples_that_are_in_the_model_already",
     announce_method,
     false,
     "already",
     [](Scene& scene, Bytes& b) {
         return change_announcement(b, [&scene](MemberInput& input) {
             input.fresh = *scene.first_samples;
             input.carried = {};
             input.carried_ranges.clear();
             return true;
         });
     }},
    {"ranges_without_samples_of_one_that_only_aggregates",
     announce_method,
     false,
     "an aggregator brings no contribution",
     [](Scene&, Bytes& b) {
         auto announce = read<Announce>(b);
         if (!announce || announce->leaving) return false;
         announce->aggregator = true;
         announce->input = {};
         announce->input.carried_ranges = {{0, 1}};
         b = wire::encode(*announce);
         return true;
     }},
    {"a_plan_with_a_weight_that_nobody_announced",
     plan_method,
     false,
     "never announced",
     [](Scene& scene, Bytes& b) {
         return change_plan(scene, b, [&scene](RoundPlan& plan) {
             for (PlanMember& member : plan.members)
                 if (member.peer == scene.world->node(scene.to).id()) member.input.fresh.end += 7;
         });
     }},
    {"a_plan_with_more_samples_of_its_leader_than_its_speed_makes",
     plan_method,
     false,
     "has computed at most",
     [](Scene& scene, Bytes& b) {
         return change_plan(scene, b, [&scene](RoundPlan& plan) {
             for (PlanMember& member : plan.members)
                 if (member.peer == scene.world->node(bad).id()) member.input.fresh.end += 160;
         });
     }},
    {"a_plan_that_is_not_signed",
     plan_method,
     false,
     "not signed by its leader",
     [](Scene&, Bytes& b) { return (b.back() ^= 1, true); }},
    {"a_plan_beyond_the_run_files_bounds",
     plan_method,
     false,
     "its deadlines",
     [](Scene& scene, Bytes& b) {
         return change_plan(scene, b, [](RoundPlan& plan) { plan.round_ms = 3'600'000; });
     }},
    {"a_plan_that_leaves_out_a_piece",
     plan_method,
     false,
     "do not cover",
     [](Scene& scene, Bytes& b) {
         return change_plan(scene, b, [](RoundPlan& plan) { plan.parts.pop_back(); });
     }},
    {"a_repair_of_anothers_plan",
     parts_method,
     false,
     "not signed by the plan's leader",
     send_forged_repair},
    {"a_repair_of_its_own_plan_with_a_broken_signature",
     parts_method,
     false,
     "not signed by the plan's leader",
     send_repair_with_a_broken_signature},
    {"an_average_of_other_bytes",
     parts_method,
     true,
     "damaged",
     [](Scene& scene, Bytes& b) {
         return change_average(
             scene, b, true, [](FinishedPart& header, Bytes&) { header.digest.bytes[0] ^= 1; });
     }},
    {"an_average_that_is_not_a_number",
     parts_method,
     true,
     "not finite",
     [](Scene& scene, Bytes& b) {
         return change_average(scene, b, true, [](FinishedPart& header, Bytes& encoded) {
             encoded.assign(encoded.size(), 0xff);
             header.digest = security::hash_list(encoded);
         });
     }},
    {"an_average_of_the_wrong_length",
     parts_method,
     true,
     "wrong length",
     [](Scene& scene, Bytes& b) {
         return change_average(scene, b, true, [](FinishedPart& header, Bytes& encoded) {
             encoded.resize(encoded.size() - 4);
             header.digest = security::hash_list(encoded);
         });
     }},
    {"an_average_with_a_forged_signature",
     parts_method,
     true,
     "signature",
     [](Scene& scene, Bytes& b) {
         return change_average(
             scene, b, false, [](FinishedPart& header, Bytes&) { header.signature[0] ^= 1; });
     }},
    {"an_average_in_anothers_name",
     parts_method,
     true,
     "not asked for",
     [](Scene& scene, Bytes& b) {
         return change_average(scene, b, true, [](FinishedPart& header, Bytes&) {
             header.owner = header.owner == 0 ? 1 : 0;
         });
     }},
    {"an_average_that_includes_one_beyond_the_members",
     parts_method,
     true,
     "not asked for",
     [](Scene& scene, Bytes& b) {
         return change_average(scene, b, true, [](FinishedPart& header, Bytes&) {
             include_one_beyond_the_members(header);
         });
     }},
    {"an_average_of_an_earlier_step",
     parts_method,
     true,
     "not asked for",
     [](Scene& scene, Bytes& b) {
         const Bytes now = b;
         const auto before = scene.average_before.find(scene.to);
         const bool there = before != scene.average_before.end();
         if (there) b = before->second;
         return there && b != now;
     }},
    {"a_proposal_with_a_forged_part",
     propose_method,
     false,
     "not what its owner signed",
     [](Scene&, Bytes& b) {
         return change_decision(b, [](Decision& decision) { decision.parts[0].signature[0] ^= 1; });
     }},
    {"a_proposal_with_another_bitmap",
     propose_method,
     false,
     "not what its owner signed",
     [](Scene&, Bytes& b) {
         return change_decision(b, [](Decision& decision) { decision.parts[0].included[0] ^= 1; });
     }},
    {"a_proposal_with_three_bytes_for_anothers_average",
     propose_method,
     false,
     "does not fit its plan",
     [](Scene& scene, Bytes& b) {
         return change_part_of_decision(scene, b, false, [](FinishedPart& part) {
             part.digest = security::hash_list(Bytes{1, 2, 3});
         });
     }},
    {"a_proposal_whose_average_includes_one_beyond_the_members",
     propose_method,
     false,
     "does not fit its plan",
     [](Scene& scene, Bytes& b) {
         return change_part_of_decision(scene, b, true, include_one_beyond_the_members);
     }},
    {"a_proposal_that_counts_too_many_samples",
     propose_method,
     false,
     "count of samples",
     [](Scene&, Bytes& b) {
         return change_decision(b, [](Decision& decision) { decision.branch_samples += 1000; });
     }},
    {"a_proposal_that_takes_everybody_elses_vote",
     propose_method,
     false,
     "takes its vote",
     [](Scene& scene, Bytes& b) {
         return change_decision(b, [&scene](Decision& decision) {
             const PeerId& liar = scene.world->node(bad).id();
             std::erase_if(decision.next_voters,
                           [&liar](const Voter& voter) { return voter.peer != liar; });
         });
     }},
    {"a_proposal_with_a_stranger_for_a_voter",
     propose_method,
     false,
     "who was not there",
     [](Scene&, Bytes& b) {
         return change_decision(
             b, [](Decision& decision) { decision.next_voters.back().incarnation ^= 1; });
     }},
    {"a_proposal_whose_voters_no_ledger_takes",
     propose_method,
     false,
     "no sound set of voters",
     [](Scene&, Bytes& b) {
         return change_decision(b, [](Decision& decision) {
             std::reverse(decision.next_voters.begin(), decision.next_voters.end());
         });
     }},
    {"nonsense_for_a_proposal",
     propose_method,
     false,
     "cannot be read",
     [](Scene&, Bytes& b) { return (b.assign(40, 0xff), true); }},
    {"a_vote_of_an_earlier_step",
     propose_method,
     true,
     "vote whose signature",
     [](Scene& scene, Bytes& b) {
         auto reply = read<ConsensusReply>(b);
         if (!reply || reply->signature.empty()) return false;
         if (scene.vote_before.empty()) {  // it has not voted yet
             scene.vote_before = reply->signature;
             return false;
         }
         reply->signature = scene.vote_before;
         b = wire::encode(*reply);
         return true;
     }},
    {"a_certificate_with_a_forged_vote",
     certified_method,
     false,
     "signature does not hold",
     [](Scene&, Bytes& b) {
         auto certificate = read<Certified>(b);
         if (!certificate || certificate->votes.empty()) return false;
         certificate->votes[0].signature[0] ^= 1;
         b = wire::encode(*certificate);
         return true;
     }},
};

// Keeps what the liar needs later: its old averages, votes and samples, and the plan in force.
void remember(Scene& scene, const sim::World::Outgoing& sent) {
    if (sent.method == plan_method && !sent.is_answer) {
        scene.plan = sent.payload;
        if (const auto message = read<Signed>(sent.payload))
            if (const auto plan = read<RoundPlan>(message->payload))
                scene.round_ms_max = std::max(scene.round_ms_max, plan->round_ms);
    }
    if (!sent.is_answer) scene.newest_call[sent.method] = sent.payload;
    if (sent.method == propose_method && !sent.is_answer)
        if (const auto propose = read<Propose>(sent.payload))
            if (const auto decision =
                    read<Decision>(propose->compact_decision.empty() ? propose->decision
                                                                     : propose->compact_decision)) {
                scene.run = decision->run;
                scene.branch_samples = decision->branch_samples;
                scene.number = decision->number;
            }
    if (sent.from != bad || scene.world->now() >= from_then_on) return;
    if (sent.method == parts_method && !sent.is_answer) {
        std::vector<Bytes>& stream = scene.contribution_before[sent.to];
        if (read<PartsHeader>(sent.payload)) stream.clear();
        stream.push_back(sent.payload);
    }
    if (sent.method == parts_method && sent.is_answer) scene.average_before[sent.to] = sent.payload;
    if (sent.method == propose_method && sent.is_answer)
        if (const auto reply = read<ConsensusReply>(sent.payload);
            reply && !reply->signature.empty())
            scene.vote_before = reply->signature;
    if (sent.method == announce_method && !sent.is_answer && !scene.first_samples)
        if (const auto announce = read<Announce>(sent.payload);
            announce && announce->input.fresh.size() > 0)
            scene.first_samples = announce->input.fresh;
}

struct Outcome {
    SimulationResult result;
    std::map<std::string, int> told;     // of the bad one, by honest ones
    std::vector<std::string> slandered;  // honest ones, by honest ones
};

// Four members, of whom the bad one sends what `tamper` makes of it.
Outcome play(Scene& scene, std::size_t group_max, const sim::World::Tamper& tamper) {
    Outcome outcome;
    std::vector<PeerId> ids;
    SimulationOptions options;
    options.peers_min = options.peers_max = 4;
    options.leave_out_slow = false;  // nobody rests: as many compute with it as without it
    options.steady = true;
    options.group_max = group_max;
    options.tortures = 0;
    options.faults_for = 40s;
    options.script = sim::FaultScript{{}, options.faults_for};
    options.bad = {bad};
    options.prepare = [&](sim::World& world) {
        scene.world = &world;
        for (std::size_t i = 0; i < world.nodes_count(); ++i) ids.push_back(world.node(i).id());
        world.on_send([&](const sim::World::Outgoing& sent) {
            remember(scene, sent);
            if (sent.from != bad || world.now() < from_then_on) return;
            scene.to = sent.to;
            tamper(sent);
        });
    };
    options.events = [&](std::size_t who, const events::Event& event) {
        if (who == bad || event.peer.is_empty()) return;
        using namespace events;
        const bool accuses = event.is<InputRefused, MessageRefused, OwnerFailed>();
        if (event.peer == ids[bad] && accuses) ++outcome.told[event.text];
        if (event.peer != ids[bad] && accuses)
            outcome.slandered.push_back(fmt::format("{}: {}", event.kind(), event.text));
    };
    outcome.result = simulate(options);
    return outcome;
}

void expect_the_others_go_on(const Outcome& outcome) {
    const SimulationResult& result = outcome.result;
    for (const std::string& violation : result.violations) ADD_FAILURE() << violation;
    for (const auto& [text, count] : outcome.told) testing::Test::RecordProperty("told", text);
    for (const std::string& text : outcome.slandered) ADD_FAILURE() << "an honest member: " << text;
    testing::Test::RecordProperty("aborts", static_cast<int>(result.aborts));
    testing::Test::RecordProperty("commits", static_cast<int>(result.commits));
    testing::Test::RecordProperty("gap", std::to_string(result.step_gap_max_s));
    EXPECT_GE(result.commits, 10u);
    EXPECT_EQ(result.branches, 0u);
    // The member lies in every round from the tenth second on, a dozen at least: they complete
    // without it.
    EXPECT_LE(result.aborts, aborts_max);
    EXPECT_GT(result.averages_checked, 0u);
    // A step takes three to four seconds of computing; a round that fails, its deadline of one.
    EXPECT_LT(result.step_gap_max_s, 8);
    if (testing::Test::HasFailure())
        for (const auto& [text, count] : outcome.told)
            std::printf("told %d times: %s\n", count, text.c_str());
}

class BadMember : public testing::TestWithParam<Lie> {};

void expect_refused(const Lie& lie, std::size_t group_max) {
    Scene scene;
    int told_lies = 0;
    const Outcome outcome = play(scene, group_max, [&](const sim::World::Outgoing& sent) {
        if (sent.method != lie.method || sent.is_answer != lie.is_answer) return;
        if (lie.tell(scene, sent.payload)) ++told_lies;
    });
    EXPECT_GT(told_lies, 0);
    testing::Test::RecordProperty("lies", told_lies);
    const bool by_name = std::ranges::any_of(outcome.told, [&](const auto& line) {
        return line.first.find(lie.told) != std::string::npos;
    });
    EXPECT_TRUE(by_name) << "nobody said \"" << lie.told << "\" of it";
    expect_the_others_go_on(outcome);
}

TEST_P(BadMember, is_refused_by_name_and_the_others_go_on) { expect_refused(GetParam(), 64); }

// Two groups of two: everybody collects for its group, and owns.
TEST_P(BadMember, is_refused_by_name_in_a_grid) { expect_refused(GetParam(), 2); }

INSTANTIATE_TEST_SUITE_P(Lies, BadMember, testing::ValuesIn(lies), [](const auto& one) {
    return std::string(one.param.name);
});

// Nothing that it sends can be used, or belongs to the round at all: the others wait for it two or
// three times.
class Useless : public testing::TestWithParam<const char*> {};

std::vector<double> gaps_of(const SimulationResult& result) {
    std::vector<double> gaps;
    for (std::size_t i = 1; i < result.commit_times_s.size(); ++i)
        gaps.push_back(result.commit_times_s[i] - result.commit_times_s[i - 1]);
    return gaps;
}

void expect_few_slow_steps(const Lie& lie, std::size_t group_max, std::ptrdiff_t slow_most) {
    Scene calm;
    const Outcome usual = play(calm, group_max, [](const sim::World::Outgoing&) {});
    Scene scene;
    const Outcome outcome = play(scene, group_max, [&](const sim::World::Outgoing& sent) {
        if (sent.method == lie.method && sent.is_answer == lie.is_answer)
            lie.tell(scene, sent.payload);
    });
    expect_the_others_go_on(outcome);
    const double quick = std::ranges::max(gaps_of(usual.result));
    std::vector<double> gaps = gaps_of(outcome.result);
    ASSERT_GT(gaps.size(), 10u);
    // The three others fill more of each batch, and it begins late, without averages.
    EXPECT_LE(std::ranges::count_if(gaps, [&](double gap) { return gap > quick * 1.2; }), slow_most)
        << testing::PrintToString(gaps) << " s, without it " << quick << " s at most";
    EXPECT_LE(scene.round_ms_max, calm.round_ms_max + calm.round_ms_max / 10)
        << "deadlines have grown from rounds that waited for it";
}

const Lie& lie_of(std::string_view name) {
    return *std::ranges::find_if(lies, [&](const Lie& lie) { return lie.name == name; });
}

TEST_P(Useless, slows_two_steps_at_most) { expect_few_slow_steps(lie_of(GetParam()), 64, 2); }

// There it collects for its group, too.
TEST_P(Useless, slows_three_steps_at_most_in_a_grid) {
    expect_few_slow_steps(lie_of(GetParam()), 2, 3);
}

INSTANTIATE_TEST_SUITE_P(Lies,
                         Useless,
                         testing::Values("parts_of_another_group",
                                         "a_contribution_of_an_earlier_step",
                                         "nonsense_for_a_part",
                                         "not_a_number",
                                         "an_average_of_other_bytes",
                                         "an_average_of_the_wrong_length"),
                         [](const auto& one) { return std::string(one.param); });

// Sends again what somebody has sent before, to the last byte: to all, whenever the bad member
// announces itself for another round. It may be refused or not; it changes nothing.
struct Replay {
    const char* name;
    const char* method;
};

const Replay replays[] = {
    {"a_plan", plan_method}, {"a_repair", repair_method}, {"a_certificate", certified_method}};

class Replays : public testing::TestWithParam<Replay> {};

void expect_no_effect(const Replay& replay, std::size_t group_max) {
    Scene scene;
    int sent_again = 0;
    const Outcome outcome = play(scene, group_max, [&](const sim::World::Outgoing& sent) {
        const auto before = scene.newest_call.find(replay.method);
        if (sent.method == announce_method && !sent.is_answer &&
            before != scene.newest_call.end()) {
            ++sent_again;
            send_call(scene, replay.method, before->second);
        }
        // There is no repair but where somebody is left out of a part.
        if (replay.method == repair_method && sent.method == parts_method && !sent.is_answer)
            lie_of("one_infinite_number_in_one_part").tell(scene, sent.payload);
    });
    EXPECT_GT(sent_again, 5);
    testing::Test::RecordProperty("replays", sent_again);
    expect_the_others_go_on(outcome);
}

TEST_P(Replays, change_nothing) { expect_no_effect(GetParam(), 64); }

TEST_P(Replays, change_nothing_in_a_grid) { expect_no_effect(GetParam(), 2); }

INSTANTIATE_TEST_SUITE_P(Messages, Replays, testing::ValuesIn(replays), [](const auto& one) {
    return std::string(one.param.name);
});

// The lie may or may not be told of: the others go on as if nothing had been sent.
void expect_no_effect_of(const std::function<bool(Scene&, const sim::World::Outgoing&)>& lie,
                         int lies_least = 6) {
    Scene scene;
    int lies_told = 0;
    const Outcome outcome = play(scene, 64, [&](const sim::World::Outgoing& sent) {
        if (lie(scene, sent)) ++lies_told;
    });
    EXPECT_GE(lies_told, lies_least);
    expect_the_others_go_on(outcome);
}

std::optional<Announce> announcement_in(const sim::World::Outgoing& sent) {
    if (sent.method != announce_method || sent.is_answer) return std::nullopt;
    return read<Announce>(sent.payload);
}

TEST(Meddler, that_opens_a_branch_of_its_own_leads_nobody_away) {
    expect_no_effect_of([](Scene& scene, const sim::World::Outgoing& sent) {
        const auto announce = announcement_in(sent);
        if (!announce) return false;
        Decision lost;  // the step that is open
        lost.kind = DecisionKind::abort;
        lost.run = scene.run;
        lost.instance = announce->instance;
        lost.previous = announce->previous;
        lost.state_before = announce->state;
        lost.branch_samples = scene.branch_samples;
        lost.number = scene.number + 1;
        const Voter self{scene.world->node(bad).id(), announce->incarnation, true};
        send_call(scene, certificate_method, make_branch_before(lost, self, scene.signer()));
        return true;
    });
}

TEST(Meddler, that_neither_sends_nor_ends_its_stream_does_not_hold_a_round_for_ever) {
    int held = 0;
    bool opened = false;
    bool ended = false;
    const auto hold = [&](sim::SimNode& node, PeerId to, Bytes header) -> Task<void> {
        auto stream = co_await node.host().open_stream(to, parts_method, TimePoint::never());
        if (!stream) co_return;
        opened = (co_await (*stream)->write(std::move(header))).has_value();
        for (;;) {
            const auto message = co_await (*stream)->read();
            if (!message || !message->has_value()) break;
        }
        ended = true;
    };
    expect_no_effect_of([&](Scene& scene, const sim::World::Outgoing& sent) {
        const auto message = read<Signed>(scene.plan);
        if (!announcement_in(sent) || !message) return false;
        if (held++ > 0) return true;
        const PartsHeader header{decision_digest(message->payload), 0};
        sim::SimNode& node = scene.world->node(bad);
        scene.world->scope().spawn(
            "hold", hold(node, scene.world->node(scene.to).id(), wire::encode(header)));
        return true;
    });
    EXPECT_TRUE(opened);
    EXPECT_TRUE(ended);
}

TEST(Meddler, that_asks_for_the_highest_ballots_takes_nobodys_turn) {
    expect_no_effect_of([](Scene& scene, const sim::World::Outgoing& sent) {
        const auto announce = announcement_in(sent);
        if (!announce) return false;
        for (std::uint32_t down = 0; down < 4; ++down) {
            const Prepare prepare{announce->instance,
                                  announce->previous,
                                  std::numeric_limits<std::uint32_t>::max() - down};
            send_call(scene, prepare_method, wire::encode(prepare));
        }
        return true;
    });
}

// Others take over from it, as its plans are refused, and ask what it has accepted.
TEST(Meddler, that_promises_with_a_decision_that_cannot_be_read_stops_no_proposer) {
    const auto lie = [](Scene&, const sim::World::Outgoing& sent) {
        if (sent.method == plan_method && !sent.is_answer) sent.payload.back() ^= 1;
        if (sent.method != prepare_method || !sent.is_answer) return false;
        auto reply = read<ConsensusReply>(sent.payload);
        if (!reply) return false;
        reply->answer = consensus::Answer::yes;
        reply->has_accepted = true;
        reply->accepted_ballot = ballot_max;
        reply->accepted_decision.assign(40, 0xff);
        sent.payload = wire::encode(*reply);
        return true;
    };
    expect_no_effect_of(lie, /*lies_least=*/3);  // it leads few rounds
}

// With all ballots that are its own: as many plans as anybody keeps.
bool send_leaders_plan_as_its_own(Scene& scene) {
    constexpr std::uint32_t plans_kept = 6;
    const auto message = read<Signed>(scene.plan);
    auto plan = message ? read<RoundPlan>(message->payload) : std::nullopt;
    const PeerId& liar = scene.world->node(bad).id();
    if (!plan || plan->leader == liar) return false;
    std::vector<Voter> voters;
    for (const PlanMember& member : plan->members)
        voters.push_back({member.peer, member.incarnation, member.dialable});
    const std::vector<PeerId> order = leader_order(plan->previous, voters);
    const auto voters_count = static_cast<std::uint32_t>(order.size());
    plan->leader = liar;
    plan->ballot = static_cast<std::uint32_t>(std::ranges::find(order, liar) - order.begin());
    for (std::uint32_t i = 0; i < plans_kept; ++i, plan->ballot += voters_count) {
        Signed forged;
        forged.payload = wire::encode(*plan);
        forged.signature = scene.signer().sign(plan_domain, forged.payload);
        for (scene.to = 0; scene.to < scene.world->nodes_count(); ++scene.to)
            if (scene.to != bad) send_call(scene, plan_method, wire::encode(forged));
    }
    return true;
}

TEST(Meddler, that_makes_the_leaders_plan_its_own_does_not_push_the_round_out) {
    expect_no_effect_of([](Scene& scene, const sim::World::Outgoing& sent) {
        const bool in_round = sent.method == parts_method && !sent.is_answer;
        return in_round && send_leaders_plan_as_its_own(scene);
    });
}

TEST(Meddler, whose_line_is_said_to_be_next_to_nothing_does_not_stop_the_rounds) {
    expect_no_effect_of([](Scene&, const sim::World::Outgoing& sent) {
        auto announce = announcement_in(sent);
        if (!announce) return false;
        announce->upload_bytes_per_s = announce->download_bytes_per_s =
            std::numeric_limits<double>::denorm_min();
        sent.payload = wire::encode(*announce);
        return true;
    });
}

}  // namespace
}  // namespace dedloc::lab
