// RemoteExperts: calls of experts that live elsewhere, with deadlines that follow each of them.
//
// A call may take deadline_factor times what the expert's calls took lately, within [deadline_min,
// deadline_max]; one that nobody has called yet may take deadline_max. What fails is an Error whose
// kind says how, and is counted for its server: late, gone, overloaded, refused, or an answer whose
// shape or numbers are wrong (its tensors are thrown away). A server that did not answer in time is
// left alone for a while that doubles with each incident, so that a dead one costs one deadline. An
// incident counts once, however many calls were on their way: only a call that began after the last
// failure was noticed tells anything new.
//
// Errors: timeout, peer_gone, overloaded, peer_broke_protocol (wrong answers), bad_input (ours do
//         not fit the schema), and the server's. Thread: the network thread.

#pragma once
#include <map>
#include <string>
#include <utility>

#include "dedloc/base/random.h"
#include "dedloc/experts/batcher.h"
#include "dedloc/experts/directory.h"
#include "dedloc/p2p/host.h"

namespace dedloc::experts {

struct RemoteLimits {
    double deadline_factor = 3;
    Duration deadline_min = std::chrono::milliseconds(200);
    Duration deadline_max = std::chrono::seconds(5);
    Duration rest_min = std::chrono::seconds(1);  // of a server that failed
    Duration rest_max = std::chrono::seconds(30);
    std::size_t rows_max = 4096;
    std::size_t schemas_max = 65536;  // remembered
};

// A server's record of what it did for us.
struct ServerRecord {
    std::uint64_t answered = 0;
    std::uint64_t late = 0;
    std::uint64_t gone = 0;
    std::uint64_t overloaded = 0;
    std::uint64_t refused = 0;      // its own errors
    std::uint64_t wrong_shape = 0;  // or what could not be read
    std::uint64_t not_finite = 0;

    std::uint64_t failed() const {
        return late + gone + overloaded + refused + wrong_shape + not_finite;
    }
};

class RemoteExperts {
  public:
    RemoteExperts(p2p::Host& host, Random random, RemoteLimits limits = {});

    Task<Result<ExpertSchema>> schema(Location expert, TimePoint deadline);
    Task<Result<std::vector<Tensor>>> forward(Location expert, std::vector<Tensor> inputs);
    // Updates the expert once, however often the network makes us ask; returns the gradients of the
    // inputs. Asked again once if the first answer is lost while there is time.
    Task<Result<std::vector<Tensor>>> backward(Location expert,
                                               std::vector<Tensor> inputs,
                                               std::vector<Tensor> output_gradients);

    // How long a call may take now.
    Duration timeout(const Location& expert, Pass pass) const;
    // The server failed a moment ago: better not to ask it.
    bool rests(const PeerId& server) const;
    const std::map<PeerId, ServerRecord>& records() const { return records_; }

  private:
    struct Rest {
        TimePoint until{};
        TimePoint noticed{};  // the last incident
        int incidents = 0;
    };
    using Key = std::pair<PeerId, std::string>;
    struct Pace {
        Duration took[2] = {Duration(0), Duration(0)};  // smoothed, forward and backward
    };

    Task<Result<std::vector<Tensor>>> call(Location expert,
                                           Pass pass,
                                           std::vector<Tensor> tensors,
                                           std::uint64_t request_id);
    Task<Result<std::vector<wire::RuntimeTensor>>> exchange(PeerId server,
                                                            Pass pass,
                                                            wire::ExpertRequest request,
                                                            TimePoint deadline);
    Task<Result<std::vector<wire::RuntimeTensor>>> stream(PeerId server,
                                                          Pass pass,
                                                          wire::ExpertRequest request,
                                                          TimePoint deadline);
    Result<std::vector<Tensor>> checked(const Location& expert,
                                        const std::vector<TensorSpec>& specs,
                                        const std::vector<wire::RuntimeTensor>& answer,
                                        std::size_t rows);
    // `begun`: when the call was made.
    void note(const Location& expert, Pass pass, TimePoint begun, const Error* error);
    void let_rest(const PeerId& server, TimePoint begun);

    p2p::Host& host_;
    Random random_;
    RemoteLimits limits_;
    std::map<Key, ExpertSchema> schemas_;
    std::map<Key, Pace> paces_;
    std::map<PeerId, Rest> rests_;
    std::map<PeerId, ServerRecord> records_;
};

}  // namespace dedloc::experts
