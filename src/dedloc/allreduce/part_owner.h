// PartOwner: a member as the owner of parts, and as the collector of its group's: it takes their
// contributions, reduces them (Reducer), and sends everybody the same bytes.
//
// An owner waits for a part's contributions until all are there, their senders are gone, or the
// reduce deadline; then it hands them to the reducer in member order, which encodes the average
// once, signs it, and sends it back. What waits here for slower members is bounded by
// TransferOptions::reduce_bytes_max (and one part a member). Then the member that keeps all others
// waiting and sends nothing for an eighth of the reduce deadline is left out of the part that they
// wait for, so that one sleeper does not keep the others' parts out of memory.
//
// In a grid (routes.h) a collector is to its group what an owner is: it takes its group's parts,
// for two thirds of the reduce deadline, adds them, hands the sum on to the owner (Sender), and
// passes the average back. The owner of a repair is spoken to directly.
//
// Thread: the network thread; arithmetic on workers. The scope is the exchange's.

#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dedloc/allreduce/collector.h"
#include "dedloc/allreduce/exchange_meter.h"
#include "dedloc/allreduce/kept_inputs.h"
#include "dedloc/allreduce/messages.h"
#include "dedloc/allreduce/pacing.h"
#include "dedloc/allreduce/transfer.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::allreduce {

struct Reduction {
    std::uint32_t part = 0;
    std::uint32_t repair = 0;
    bool collects = false;  // the sum goes to the owner, the average comes from there
    TimePoint opened;
    std::map<std::uint32_t, PartInput> inputs;
    std::vector<std::uint32_t> arrival;
    std::set<std::uint32_t> waiting;         // members whose contribution may still come
    std::optional<TimePoint> grace_ends;     // only such as weigh nothing are missing
    std::size_t bytes = 0;                   // held by this reduction
    bool closed = false;                     // reducing or done
    std::unique_ptr<runtime::Event> summed;  // of one that collects: `sum` is there
    ReducedPart sum;
    std::unique_ptr<runtime::Event> done;  // with `encoded`, or it failed
    consensus::FinishedPart header;
    SharedBytes encoded;
};

class PartOwner {
  public:
    PartOwner(Transfer& transfer,
              KeptInputs& kept,
              Pacing& pacing,
              Collector& collector,
              ExchangeMeter& meter,
              runtime::Scope& scope);
    ~PartOwner();

    // Parts that this member owns, or collects for its group.
    Reduction& open_reduction(std::uint32_t part, std::uint32_t repair);
    const std::shared_ptr<Reduction>& reduction(std::uint32_t part, std::uint32_t repair) const {
        return reductions_.at({repair, part});
    }
    Task<void> contribute_own(std::vector<std::uint32_t> parts, std::uint32_t repair);
    // One member's stream, after its header, which came at `begun`.
    Task<void> serve(std::shared_ptr<p2p::MessageStream> stream,
                     PartsHeader header,
                     TimePoint begun);
    void lose(std::uint32_t member);
    // Waits no more for who is not in Transfer::open_to.
    void close_to_latecomers();
    Task<void> close_at(TimePoint deadline, std::uint32_t repair);
    Task<void> close_without_doubtful();

    // Our group waits for the average of what was collected here.
    void pass_on(const consensus::FinishedPart& header, const SharedBytes& encoded);
    void fail_to_pass_on(const std::vector<std::uint32_t>& parts);
    // Forgets what was collected once it has left for the owner.
    void sum_has_left(Reduction& reduction) {
        if (!reduction.encoded) hold(reduction, 0);
    }

  private:
    bool is_too_late(std::uint32_t member) const {
        return transfer_.open_to && !transfer_.open_to->contains(member);
    }
    void close_if_ready(Reduction& reduction);
    bool waits_only_a_moment(Reduction& reduction);
    Task<void> close_after_grace(std::shared_ptr<Reduction> reduction);
    void close_all(std::uint32_t repair, bool collected_only);
    Reduction* oldest_open(std::uint32_t repair);
    Task<void> wait_for_room(std::uint32_t member,
                             std::uint32_t repair,
                             std::shared_ptr<Inflow> inflow);
    void refuse_input(std::uint32_t member, std::uint32_t repair, std::string why);
    Ok receive_commitment(std::uint32_t member, const PartsHeader& header);
    Task<Result<void>> check_path(SharedBytes message, std::uint32_t member);
    void keep_input(const SharedBytes& message, std::uint32_t member);
    Task<void> reduce(std::shared_ptr<Reduction> reduction);
    void finish(Reduction& reduction, ReducedPart reduced);
    void hold(Reduction& reduction, std::size_t bytes);
    Result<void> receive_contribution(SharedBytes message,
                                      std::uint32_t member,
                                      std::uint32_t repair);
    Result<PartInput> check_contribution(const SharedBytes& message,
                                         const PartData& data,
                                         std::uint32_t member,
                                         std::uint32_t repair) const;
    Task<void> read_contributions(std::shared_ptr<p2p::MessageStream> stream,
                                  std::uint32_t member,
                                  std::uint32_t repair,
                                  std::shared_ptr<Inflow> inflow);
    Task<void> write_finished(std::shared_ptr<p2p::MessageStream> stream,
                              std::uint32_t member,
                              std::vector<std::uint32_t> parts,
                              std::uint32_t repair,
                              std::shared_ptr<Inflow> inflow);
    std::vector<std::uint32_t> parts_for(std::uint32_t member, std::uint32_t repair) const;

    Transfer& transfer_;
    KeptInputs& kept_;
    const TransferEnvironment& environment_;
    Pacing& pacing_;
    Collector& collector_;
    ExchangeMeter& meter_;
    runtime::Scope& scope_;
    std::shared_ptr<const Reducer> reducer_;
    std::map<ReductionKey, std::shared_ptr<Reduction>> reductions_;
    runtime::Event room_;  // something that was held is gone
};

}  // namespace dedloc::allreduce
