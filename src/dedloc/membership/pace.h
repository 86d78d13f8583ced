// Pace: how fast a peer computes, measured over its last seconds: samples by the time that they
// took. A mean of the micro-batches' rates would tell more than is made: on a busy machine most
// short ones end within the time that the processor gives at once, and the few that wait for their
// turn take all the time.
//
// Thread: any one.

#pragma once

namespace dedloc::membership {

// Short micro-batches are measured together over about so long, long ones over about five of them.
inline constexpr double pace_window_s = 2;

class Pace {
  public:
    // Both values are positive.
    void add(double samples, double seconds);
    // 0: nothing is measured.
    double samples_per_s() const { return seconds_ > 0 ? samples_ / seconds_ : 0; }
    double samples_of_micro_batch() const { return count_ > 0 ? samples_ / count_ : 0; }
    // Seconds of a sample in the quickest micro-batch of this process.
    double quickest_s() const { return quickest_s_; }

  private:
    static constexpr int gaps_apart = 32;  // micro-batches, so that each is a single one

    bool is_single_gap(double expected_s, double seconds);

    // Weighed by how long ago they were.
    double samples_ = 0;
    double seconds_ = 0;
    double count_ = 0;  // of micro-batches
    double quickest_s_ = 0;
    bool is_first_ = true;
    int micro_batches_since_gap_ = gaps_apart;
};

}  // namespace dedloc::membership
