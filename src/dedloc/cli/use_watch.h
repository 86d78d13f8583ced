// UseWatch: whether plans use who assists. They give it parts only where a round gets faster by
// that, and who lends a machine that is not needed hears so before it leaves.
//
// Thread: the owner's.

#pragma once
#include <cstdint>
#include <optional>

namespace dedloc::cli {

inline constexpr std::uint64_t unused_steps = 10;  // without a part; then it is said

class UseWatch {
  public:
    enum class News { none, unused, used };

    // `step`: of the run, as far as we know its certificates; `parts`: of ours in them so far.
    // `unused` is news once until plans use us; the next time after twice as many steps, as plans
    // may use us now and then.
    News observe(std::uint64_t step, std::uint64_t parts) {
        const bool more = parts > parts_;
        parts_ = parts;
        if (more || !since_) since_ = step;
        if (more && told_) {
            told_ = false;
            warn_after_ *= 2;
            return News::used;
        }
        if (told_ || step < *since_ + warn_after_) return News::none;
        told_ = true;
        return News::unused;
    }
    std::uint64_t steps_without(std::uint64_t step) const { return step - since_.value_or(step); }

  private:
    std::uint64_t parts_ = 0;
    std::optional<std::uint64_t> since_;  // the step of the last part, or of the first look
    std::uint64_t warn_after_ = unused_steps;
    bool told_ = false;
};

}  // namespace dedloc::cli
