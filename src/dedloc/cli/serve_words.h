// Words of `dedloc serve`: how it goes, why it serves nothing, whose gradients it bounded.
//
// Pure. Thread: one.

#pragma once
#include <map>
#include <string>

#include "dedloc/collab/expert_service.h"

namespace dedloc::cli {

std::string words_of_report(const collab::ExpertReport& report,
                            double calls_per_s,
                            std::uint64_t taken,
                            std::uint64_t lent);
// Why a server has no experts.
std::string why_idle(const collab::ExpertReport& report, std::uint64_t experts_max);
// Empty: nothing worth a word.
std::string words_of_clock(double difference_s);

// Remembers what was said of members whose gradients were bounded: as they grow tenfold it is said
// again. Bounded by who calls: experts::BatcherLimits::members_told_max.
class MembersTold {
  public:
    // Empty: nothing new.
    std::string observe(const PeerId& peer,
                        const std::string& name,
                        const experts::MemberUpdates& updates);

  private:
    std::map<PeerId, std::uint64_t> told_;  // calls
};

}  // namespace dedloc::cli
