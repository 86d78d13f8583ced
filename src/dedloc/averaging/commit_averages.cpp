#include "dedloc/averaging/commit_averages.h"

#include "dedloc/allreduce/messages.h"
#include "dedloc/allreduce/plan_check.h"
#include "dedloc/base/log.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// The averaged bytes a voter vouches for outlive its process, of this step and the one before.
std::string parts_file(std::uint64_t step) { return fmt::format("parts.{}", step % 2); }

}  // namespace

CommitAverages::CommitAverages(const RoundEnvironment& environment, allreduce::PartFetcher& fetcher)
    : environment_(environment), fetcher_(fetcher), scope_(environment.node.executor) {}

void CommitAverages::read_kept() {
    for (const std::uint64_t step : {0, 1}) {
        auto file = environment_.node.disk.read(parts_file(step));
        if (!file) continue;
        const SharedBytes whole(*std::move(file));
        base::ByteReader reader(*whole);
        for (;;) {
            const auto size = reader.u32_le();
            if (!size) break;
            const auto payload = reader.take(*size);
            if (!payload) break;
            auto data = wire::decode<allreduce::FinishedPartData>(*payload);
            if (!data || security::hash_list(data->encoded) != data->header.digest) break;
            environment_.parts.put(data->header, whole.part(data->encoded));
        }
    }
}

Ok CommitAverages::check_plan(const consensus::RoundPlan& plan) const {
    return allreduce::check_plan(plan, environment_.options);
}

Task<Result<void>> CommitAverages::hold(std::shared_ptr<const consensus::RoundPlan> plan,
                                        std::vector<consensus::FinishedPart> parts,
                                        PeerId proposer) {
    std::vector<PeerId> candidates{proposer};
    for (const consensus::PlanMember& member : plan->members)
        if (member.peer != proposer) candidates.push_back(member.peer);
    const TimePoint deadline = environment_.now() + std::chrono::milliseconds(plan->round_ms);
    allreduce::PartSources sources{allreduce::peers_of(plan->members), std::move(candidates)};
    const Result<void> fetched = co_await fetcher_.fetch(parts, std::move(sources), deadline);
    // Averages that nobody gave are not the proposer's lie.
    if (!fetched) co_return Error(ErrorKind::not_found, fetched.error().message());
    co_return co_await check(std::move(plan), std::move(parts));
}

// An owner may sign something that nobody can decode: certified, it would stop everybody.
// Our exchange has looked at what it took; what was fetched, now or for a proposal that we refused,
// nobody has.
Task<Result<void>> CommitAverages::check(std::shared_ptr<const consensus::RoundPlan> plan,
                                         std::vector<consensus::FinishedPart> parts) {
    for (const consensus::FinishedPart& part : parts) {
        if (was_checked_ && was_checked_(part)) continue;
        SharedBytes encoded = environment_.parts.find(part.digest);
        if (!encoded)
            co_return make_error(ErrorKind::not_found, "the averages have no room here together");
        const bool sound = co_await allreduce::is_sound(
            environment_.node.workers, *plan, part, std::move(encoded));
        if (!sound)
            co_return make_error(ErrorKind::peer_broke_protocol,
                                 "a proposal is refused: an average is damaged or not finite");
    }
    co_return Result<void>();
}

Task<Result<void>> CommitAverages::prove(std::shared_ptr<const consensus::RoundPlan> plan,
                                         consensus::Decision decision,
                                         PeerId proposer) {
    if (!vouch_) co_return Result<void>();
    co_return co_await vouch_(std::move(plan), std::move(decision), proposer);
}

void CommitAverages::keep(const consensus::RoundPlan& plan, const consensus::Decision& decision) {
    const std::vector<consensus::Voter>& voters = environment_.ledger.base().voters;
    if (voters.size() < 2) return;  // a lone voter's state dies with it anyway
    if (keeping_) return;           // a disk slower than the rounds gets fewer of them
    std::vector<KeptPart> kept;
    for (const consensus::FinishedPart& part : decision.parts) {
        const PeerId& owner = plan.members[part.owner].peer;
        const auto at =
            std::find_if(voters.begin(), voters.end(), [&](const consensus::Voter& voter) {
                return !(voter.peer < owner);
            });
        const consensus::Voter& keeper = at == voters.end() ? voters.front() : *at;
        if (keeper.peer == environment_.me())
            kept.push_back({part, environment_.parts.find(part.digest)});
    }
    keeping_ = true;
    scope_.spawn("keep averages", write(decision.instance.step, std::move(kept)));
}

Task<void> CommitAverages::write(std::uint64_t step, std::vector<KeptPart> kept) {
    auto work = [disk = &environment_.node.disk, step, kept = std::move(kept)]() -> Result<void> {
        std::vector<Bytes> heads;
        heads.reserve(kept.size());
        std::vector<ByteView> pieces;
        for (const auto& [header, encoded] : kept) {
            if (!encoded) continue;  // bounded store: it was forgotten already
            allreduce::FinishedPartData data;
            data.header = header;
            const Bytes head =
                wire::encode_before_body(data, allreduce::body_field, encoded->size());
            Bytes& framed = heads.emplace_back();
            base::put_u32_le(framed, static_cast<std::uint32_t>(head.size() + encoded->size()));
            base::append(framed, head);
            pieces.push_back(framed);
            pieces.push_back(*encoded);
        }
        return disk->write_over(parts_file(step), pieces);
    };
    // A full disk costs this safety, not the training.
    const Result<void> written = co_await environment_.node.workers.run(std::move(work));
    keeping_ = false;
    if (!written) log(LogLevel::warning, "averaging", "{}", written.error().message());
}

}  // namespace dedloc::averaging
