// CodeBook: 256 values between -1 and 1 that stand for the moments of an optimizer in 8 bits each.
//
// The dynamic maps of bitsandbytes: seven decades from 1e-6 to 1, the upper ones cut finer, so that
// small numbers keep their leading digits and large ones are exact to a percent. A block of
// numbers is divided by its largest magnitude first.
//
// Source: Dettmers et al. 2110.02861; bitsandbytes' create_dynamic_map(signed, 7, 8).
// Thread: any (immutable).

#pragma once
#include <array>
#include <cstdint>

namespace dedloc::optim {

inline constexpr std::size_t codes_count = 256;

class CodeBook {
  public:
    static const CodeBook& with_sign();  // -0.993 … 1: first moments
    static const CodeBook& from_zero();  // 0 … 1: second moments

    const std::array<float, codes_count>& values() const { return values_; }  // ascending
    // The nearest value's code, of two equally near ones the lower. |x| <= 1; of other numbers and
    // NaN it is some code.
    std::uint8_t nearest(float x) const;

    // nearest(x) is first[bucket(x)], or one more if x is above that code's threshold. Bucket: the
    // exponent and seven bits of the mantissa; what is below 2^-23 shares the first one, and
    // numbers below zero have buckets_count further ones.
    static constexpr std::int32_t lowest_bits = (127 - 23) << 7;
    static constexpr std::int32_t buckets_count = (23 << 7) + 1;
    const std::int32_t* first() const { return first_.data(); }
    const float* thresholds() const { return thresholds_.data(); }

  private:
    explicit CodeBook(bool has_sign);

    std::array<float, codes_count> values_;
    std::array<float, codes_count> thresholds_;  // x above [k]: nearer to k + 1 than to k
    std::array<std::int32_t, 2 * buckets_count> first_;
};

}  // namespace dedloc::optim
