#include "dedloc/allreduce/exchange.h"

namespace dedloc::allreduce {

Exchange::Exchange(const TransferEnvironment& environment,
                   TransferState& state,
                   consensus::RoundPlan plan,
                   const Digest& plan_digest,
                   std::shared_ptr<const RoundInput> input)
    : transfer_(environment, state, std::move(plan), plan_digest, std::move(input)),
      pacing_(transfer_),
      collector_(transfer_,
                 pacing_,
                 [this](const consensus::FinishedPart& header, const SharedBytes& encoded) {
                     owner_.pass_on(header, encoded);
                 }),
      meter_(transfer_),
      owner_(transfer_, kept_, pacing_, collector_, meter_, scope_),
      sender_(transfer_, pacing_, owner_, collector_, meter_),
      scope_(environment.node.executor) {}

Exchange::~Exchange() = default;

Task<void> Exchange::stop() { return scope_.stop(); }

void Exchange::start() {
    if (transfer_.commits()) scope_.spawn("commit to the contribution", commit());
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_next;
    std::vector<std::uint32_t> collected;
    for (std::uint32_t part = 0; part < transfer_.plan.parts.size(); ++part) {
        by_next[transfer_.me ? transfer_.routes.next(*transfer_.me, part)
                             : transfer_.plan.parts[part].owner]
            .push_back(part);
        if (transfer_.me && transfer_.routes.collects(*transfer_.me, part))
            collected.push_back(part);
    }
    for (const std::uint32_t part : collected) owner_.open_reduction(part, /*repair=*/0);
    for (auto& [next, parts] : by_next) assign(next, std::move(parts), /*repair=*/0);
    if (!collected.empty())
        scope_.spawn("collected contribution",
                     owner_.contribute_own(std::move(collected), /*repair=*/0));
    scope_.spawn("reduce deadline", owner_.close_at(transfer_.reduce_deadline(), /*repair=*/0));
    if (pacing_.doubts_somebody())
        scope_.spawn("doubtful members", owner_.close_without_doubtful());
    scope_.spawn("watch the link", meter_.watch());
}

void Exchange::add_repair(const Repair& repair) {
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_owner;
    for (std::size_t i = 0; i < repair.parts.size() && i < repair.owners.size(); ++i) {
        const std::uint32_t part = repair.parts[i];
        if (part >= transfer_.plan.parts.size() ||
            repair.owners[i] >= transfer_.plan.members.size())
            continue;
        if (collector_.newest_repair(part) >= repair.number) continue;  // repeated
        by_owner[repair.owners[i]].push_back(part);
    }
    for (auto& [owner, parts] : by_owner) assign(owner, std::move(parts), repair.number);
    // A repair gets half of what is left of the round, but never less than a live peer needs.
    const TimePoint now = transfer_.now();
    const Duration left = std::max<Duration>((transfer_.round_deadline() - now) / 2, 150ms);
    scope_.spawn("repair deadline", owner_.close_at(now + left, repair.number));
}

void Exchange::assign(std::uint32_t owner, std::vector<std::uint32_t> parts, std::uint32_t repair) {
    for (const std::uint32_t part : parts) collector_.expect(part, owner, repair);
    if (transfer_.me && owner == *transfer_.me) {
        for (const std::uint32_t part : parts) owner_.open_reduction(part, repair);
        scope_.spawn("own contribution", owner_.contribute_own(std::move(parts), repair));
    } else if (transfer_.me &&
               (!transfer_.only_reduces() ||
                (repair == 0 && transfer_.routes.sends_sums(*transfer_.me, owner)))) {
        scope_.spawn("talk to owner", sender_.talk_to_owner(owner, std::move(parts), repair));
    }
}

Task<void> Exchange::commit() {
    std::shared_ptr<const OwnCommitment> own = co_await commit_own(transfer_);
    if (own && transfer_.input) {
        (void)kept_.commit(*transfer_.me, own->commitment);
        transfer_.committed = std::move(own);
    }
    transfer_.committed_event.set();
    collector_.changed().pulse();
}

void Exchange::close_to_latecomers() {
    if (transfer_.open_to) return;
    std::set<std::uint32_t>& committed = transfer_.open_to.emplace();
    for (const auto& [member, commitment] : kept_.commitments()) committed.insert(member);
    for (const auto& [part, header] : collector_.finished())
        for (std::uint32_t member = 0; member < transfer_.plan.members.size(); ++member)
            if (header.includes(member)) committed.insert(member);
    owner_.close_to_latecomers();
}

void Exchange::forget_input() {
    transfer_.input.reset();
    transfer_.committed.reset();
    transfer_.encoded_own.clear();
    kept_.forget();
}

std::optional<CommittedInput> Exchange::input_of(std::uint32_t part, std::uint32_t member) const {
    const std::shared_ptr<const OwnCommitment>& own = transfer_.committed;
    if (own && member == *transfer_.me && part < own->encoded.size())
        return CommittedInput{own->encoded[part], own->tree.path(part)};
    return kept_.find(part, member);
}

Task<void> Exchange::serve(std::shared_ptr<p2p::MessageStream> stream,
                           PartsHeader header,
                           TimePoint begun) {
    return owner_.serve(std::move(stream), std::move(header), begun);
}

void Exchange::peer_gone(const PeerId& peer) {
    const auto member = transfer_.index_of(peer);
    if (!member) return;
    pacing_.lose(*member);
    owner_.lose(*member);
}

}  // namespace dedloc::allreduce
