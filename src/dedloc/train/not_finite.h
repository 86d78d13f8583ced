// NotFiniteInARow: one gradient that is not finite, or beyond all that the run takes, is an
// accident; when every one is, this machine cannot help.
//
// Thread: one. Errors: cannot_compute, for people, once so many came one after the other.

#pragma once
#include "dedloc/base/result.h"

namespace dedloc::train {

inline constexpr int not_finite_in_a_row_max = 64;  // some in a row may still be a few bad samples
inline constexpr int refused_in_a_row_max = 4;      // of whole contributions

class NotFiniteInARow {
  public:
    explicit NotFiniteInARow(int most = not_finite_in_a_row_max) : most_(most) {}

    Result<void> next(bool sound) {
        if (!sound) return one_more();
        end_row();
        return {};
    }
    void end_row() { count_ = 0; }
    Result<void> one_more() {
        if (++count_ < most_) return {};
        return make_error(ErrorKind::cannot_compute,
                          "the last {} gradients computed here were not finite, or beyond the "
                          "run's averaging.norm_max: either the run has diverged (begin it again "
                          "from an earlier checkpoint with a lower learning rate: dedloc host "
                          "RUNFILE --from CHECKPOINT), or this machine computes wrongly",
                          count_);
    }

  private:
    int most_;
    int count_ = 0;
};

}  // namespace dedloc::train
