// [averaging]. The threshold of adaptive codecs is there only with them.

#pragma once
#include "dedloc/run/field_rules.h"

namespace dedloc::run {

inline constexpr std::uint64_t codec_threshold_min =
    4096;  // shorter ranges of one codec are not made

template <typename Visitor, typename Averaging>
void visit_averaging(Visitor& visit, Averaging& averaging) {
    visit("averaging.codec", averaging.codec, Enumeration{});
    if (!averaging.codec)
        visit("averaging.codec_threshold",
              averaging.codec_threshold,
              Integers{.min = codec_threshold_min});
    visit("averaging.part_elements_max", averaging.part_elements_max, Integers{256, 1u << 20});
    visit("averaging.group_max", averaging.group_max, Integers{2, 256});
    visit("averaging.gather_max", averaging.gather_max, Integers{1, 256});
    visit("averaging.round_deadline_min", averaging.round_deadline_min, Durations{100ms, 1h});
    visit("averaging.round_deadline_max", averaging.round_deadline_max, Durations{100ms, 1h});
    visit("averaging.quorum_timeout", averaging.quorum_timeout, Durations{1s, 24h});
    visit("averaging.voter_after_contributions",
          averaging.voter_after_contributions,
          Integers{1, 1000});
    visit("averaging.norm_max", averaging.norm_max, Numbers{0, 1e30});
    visit("averaging.delayed", averaging.delayed);
    visit("averaging.leave_out_slow", averaging.leave_out_slow);
}

}  // namespace dedloc::run
