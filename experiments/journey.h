// dedloc-lab journey: a public run of eight days in virtual time, from admission to the report.
//
// 40 people with 91 devices come and go in 600 sessions (journey_plan.h), each device with a token
// that it redeemed a code for; tokens of six hours; clocks that differ by up to a minute; the
// organiser is away for two days, in which two co-organisers renew tokens; 16 helpers are preempted
// again and again. The run must go on without a restart, no sample may be in it twice or be lost,
// and the report, which is made from the folder of a co-organiser's peer, must say what the
// certificates say.
//
// `scale` hours of the run pass in one virtual hour: sessions, tokens and absences are shorter by
// it, and the report's times longer; clocks differ by seconds that are not scaled.
//
// Cost: docs/public-run.md. Errors: exit code 9 where something does not hold.

#pragma once
#include <cstdint>

namespace dedloc::lab {

struct JourneyCommand {
    std::uint64_t seed = 1;
    double scale = 24;
    bool json = false;
};

int run_journey(const JourneyCommand& command);

}  // namespace dedloc::lab
