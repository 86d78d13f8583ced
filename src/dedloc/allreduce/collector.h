// Collector: the finished averages of one plan as they come to this member, from owners or from
// whoever holds them; what is there, what is missing and why, and until when it may be waited for.
//
// Thread: the network thread. Cost: questions are passes over the plan's parts.

#pragma once
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "dedloc/allreduce/pacing.h"
#include "dedloc/allreduce/transfer.h"
#include "dedloc/runtime/event.h"

namespace dedloc::allreduce {

class Collector {
  public:
    // Is told of each average that comes, before it is stored.
    using OnKept = std::function<void(const consensus::FinishedPart&, const SharedBytes&)>;
    Collector(const Transfer& transfer, const Pacing& pacing, OnKept on_kept);

    // From whom parts come, by the plan or a repair.
    void expect(std::uint32_t part, std::uint32_t owner, std::uint32_t repair) {
        owners_[part] = {owner, repair, false};
    }
    std::uint32_t newest_repair(std::uint32_t part) { return owners_[part].repair; }
    // An average has come from this owner, whatever it is.
    void is_heard_of(std::uint32_t owner);
    // The stream that was to bring these parts has failed.
    void fail(const std::vector<std::uint32_t>& parts, std::uint32_t repair);
    // A checked average. Of two of a part, the one that includes more is proposed.
    void keep(consensus::FinishedPart header, SharedBytes encoded);

    const std::map<std::uint32_t, consensus::FinishedPart>& finished() const { return finished_; }
    bool complete() const { return finished_.size() == transfer_.plan.parts.size(); }
    // Parts not finished here whose owner's stream has failed.
    std::vector<std::uint32_t> failed_parts() const;
    // Parts not finished here whose owner has failed, or has stopped sending averages.
    std::vector<std::uint32_t> silent_parts() const;
    // Finished parts without somebody who is there and whose contribution other parts include:
    // their owner, or the way to it, was slow. Worth another owner while there is time.
    std::vector<std::uint32_t> lacking_parts() const;
    // Until when a part may be waited for that has not come: its owner's stream lives, and averages
    // come about as regularly as they did. The past: it does not come by itself.
    TimePoint awaited_until(std::uint32_t part) const;
    // The earliest such time of the parts that are missing.
    TimePoint missing_awaited_until() const;
    // Has this repair of the part ended here, whoever is in it?
    bool repaired(std::uint32_t part, std::uint32_t repair) const {
        return ended_.contains({repair, part});
    }
    // On whom the newest reduction of a part hangs: its owner, and from whom it comes to us.
    std::set<std::uint32_t> way_of(std::uint32_t part) const;
    // Somebody found a finished part elsewhere: checks and keeps it.
    Task<bool> adopt(consensus::FinishedPart header, SharedBytes encoded);
    // Is this one of finished()? Then it was looked at here.
    bool has(const consensus::FinishedPart& part) const;
    runtime::Event& changed() { return changed_; }

  private:
    struct Owner {
        std::uint32_t owner = 0;  // of a grid: from whom the average comes to us
        std::uint32_t repair = 0;
        bool failed = false;
    };

    const Transfer& transfer_;
    const Pacing& pacing_;
    OnKept on_kept_;
    std::map<std::uint32_t, Owner> owners_;  // by part: the newest
    std::map<std::uint32_t, consensus::FinishedPart> finished_;
    std::set<ReductionKey> ended_;
    Rhythm arrivals_;                           // of averages, from everybody
    std::map<std::uint32_t, Rhythm> averages_;  // from each owner
    runtime::Event changed_;
};

}  // namespace dedloc::allreduce
