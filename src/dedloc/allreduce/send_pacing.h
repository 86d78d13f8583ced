// SendPacing: keeps a member's streams to the owners level, part by part.
//
// A part is averaged when it has come from everybody. A link that is full gives its streams uneven
// shares; where one stream of each member runs ahead and another stays behind, owners wait for
// somebody in every part, averages come back only after everything was sent, and the way back lies
// idle meanwhile. So nobody begins a part that would be `lead_max` parts ahead of another stream of
// its own, at the same share of what each has to send, counted in parts of that other stream: who
// has few small parts for an owner sends each when its time has come by the stream that carries
// most, and the latter is not held up by them.
//
// `phase`, 0..1, shifts a stream's parts by so much of one: streams with phases of their own do not
// send all at once what is to be spread over the round.
//
// Only a stream that moves is waited for: one that sent nothing for `timeout`, or that is too late
// for the reduce deadline anyway, is not, and not again (promise 3). All streams wait for others no
// longer than that.
//
// Pure: times are arguments. Cost: a look at all streams for each part.

#pragma once
#include <cstdint>
#include <map>

#include "dedloc/base/time.h"

namespace dedloc::allreduce {

class SendPacing {
  public:
    // `timeout` with a stream; `whole`: until when all should have been sent, from `now` on.
    SendPacing(Duration timeout, Duration whole) : timeout_(timeout), whole_(whole) {}

    // A stream that is open and will send `parts`.
    void begin(std::uint32_t stream, std::size_t parts, double phase, TimePoint now);
    void sent(std::uint32_t stream, TimePoint now);  // one more part
    void end(std::uint32_t stream);                  // whatever it has not sent
    // Is the stream's next part due? Gives up streams that nobody should wait for.
    bool may_send(std::uint32_t stream, TimePoint now);

  private:
    struct Stream {
        std::size_t parts = 0;
        std::size_t sent = 0;
        double phase = 0;
        TimePoint begun;
        TimePoint moved;
    };
    static double position(const Stream& stream);  // of its next part, 0..1
    bool moves(const Stream& stream, TimePoint now) const;

    Duration timeout_;
    Duration whole_;
    std::map<std::uint32_t, Stream> streams_;  // that others wait for
};
inline constexpr double lead_max = 2;  // parts of the stream that is behind

}  // namespace dedloc::allreduce
