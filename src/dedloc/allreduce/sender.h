// Sender: a member towards the owners of its parts, and the collectors: what is sent, and the
// averages that come back on the same stream.
//
// One stream per (member, owner, repair number): parts go one way in the plan's order, averages
// come back as they are ready. Aggregators send no contribution and ask nobody for averages (but,
// in a grid, for those of their group).
//
// Thread: the network thread; arithmetic on workers.

#pragma once
#include <memory>
#include <vector>

#include "dedloc/allreduce/collector.h"
#include "dedloc/allreduce/exchange_meter.h"
#include "dedloc/allreduce/part_owner.h"
#include "dedloc/allreduce/send_pacing.h"
#include "dedloc/allreduce/transfer.h"
#include "dedloc/runtime/event.h"

namespace dedloc::allreduce {

class Sender {
  public:
    Sender(Transfer& transfer,
           const Pacing& pacing,
           PartOwner& owner,
           Collector& collector,
           ExchangeMeter& meter);

    // Sends what this owner is to have of ours, and takes its averages; its failure is told.
    Task<void> talk_to_owner(std::uint32_t owner,
                             std::vector<std::uint32_t> parts,
                             std::uint32_t repair);

  private:
    Task<Result<void>> exchange_with(std::uint32_t owner,
                                     std::vector<std::uint32_t> parts,
                                     std::uint32_t repair);
    Task<void> send_parts(std::shared_ptr<p2p::MessageStream> stream,
                          std::uint32_t owner,
                          std::vector<std::uint32_t> parts,
                          std::uint32_t repair,
                          std::shared_ptr<Result<void>> outcome);
    Task<void> send_sums(std::shared_ptr<p2p::MessageStream> stream,
                         std::vector<std::uint32_t> parts,
                         std::shared_ptr<Result<void>> outcome);
    Task<void> receive_parts(std::shared_ptr<p2p::MessageStream> stream,
                             std::uint32_t owner,
                             std::uint32_t repair,
                             std::size_t count,
                             std::shared_ptr<Result<void>> outcome);
    Task<void> read_average(std::shared_ptr<p2p::MessageStream> stream,
                            std::uint32_t owner,
                            std::shared_ptr<SharedBytes> into,
                            std::shared_ptr<Result<void>> outcome);
    Task<void> check_average(std::shared_ptr<p2p::MessageStream> stream,
                             SharedBytes message,
                             std::uint32_t owner,
                             std::uint32_t repair,
                             std::shared_ptr<Result<void>> outcome);
    Task<Result<void>> receive_finished(SharedBytes message,
                                        std::uint32_t owner,
                                        std::uint32_t repair);
    double phase_towards(std::uint32_t owner) const;
    Task<void> wait_for_turn(std::uint32_t owner);

    Transfer& transfer_;
    const TransferEnvironment& environment_;
    PartOwner& owner_;
    Collector& collector_;
    ExchangeMeter& meter_;
    SendPacing send_pacing_;  // the streams to the plan's owners; repairs do not wait
    runtime::Event sent_;     // another part, or a stream has ended
};

}  // namespace dedloc::allreduce
