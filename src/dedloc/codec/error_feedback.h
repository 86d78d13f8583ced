// Error feedback: what a lossy codec did not send is kept and added to the next vector, so that
// everything is sent in the end. Wraps any codec over one tensor.
//
//   pending  = residual + input                one rounding to fp32
//   sent     = decode(encode(pending))
//   residual = decay × (pending - sent)        two roundings (one with decay = 1)
//
// Conservation: with decay 1, sent + residual' = pending within half a unit in the last place of
// residual', and pending = residual + input within half a unit of pending. A vector that the round
// did not take stays pending whole, whatever the decay (settle(false)): nothing is lost (promise
// 2).
//
// Source: Karimireddy et al. 2019 (EF-SGD); decay 0.95 in SparseLoCo.
// Cost:   one fp32 vector of memory (three while encoding), and the encoded bytes until settle.
// Thread: any, one at a time.

#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"
#include "dedloc/codec/codec.h"
#include "dedloc/codec/topk.h"

namespace dedloc::codec {

// A codec without state, as error feedback and measurements see it.
struct StatelessCodec {
    std::string name;
    std::function<Result<Bytes>(std::span<const float>)> encode;
    std::function<Ok(ByteView, std::span<float>)> decode;
    std::function<Ok(ByteView, float, std::span<float>)> decode_accumulate;
};

StatelessCodec stateless_codec(CodecId id);
StatelessCodec stateless_codec(TopK topk);  // "topk64"

class ErrorFeedback {
  public:
    ErrorFeedback(StatelessCodec codec, std::size_t elements_count, float decay = 1.0f);

    // Adds `input` to what is pending and encodes that. Then settle() before the next.
    // Errors: bad_input: numbers that are not finite, or overflow with what was pending; then
    //         nothing has changed.
    Result<Bytes> encode(std::span<const float> input);
    // Did the round take the encoded vector? If not, all of it is pending again.
    void settle(bool taken);

    std::span<const float> residual() const { return residual_; }
    // Fresh start, as after loading another state.
    void forget();

  private:
    StatelessCodec codec_;
    float decay_;
    std::vector<float> residual_;  // between encode and settle: pending
    Bytes sent_;
    bool unsettled_ = false;
};

}  // namespace dedloc::codec
