// Batcher: calls of many clients wait in two queues an expert, forward and backward; one device
// thread takes the queue whose first call has waited longest, and computes what fits in one batch.
//
// Bounded: all tensors that wait or are being computed, with what readers have announced (hold),
// have at most queued_bytes_max bytes; what is beyond is refused at once as overloaded, and so is a
// call that would wait longer than its caller's timeout. A call whose caller has gone before its
// batch began is not computed. Backward calls of one member share a batch, those of two do not: an
// update is somebody's, and no member moves an expert further than update_guard.h lets it.
//
// Errors: not_found (no such expert), overloaded, timeout (it ran out in the queue), and
// the backend's. A batch that the backend refuses is tried call by call, so that one client's
// numbers do not fail another's.
// Thread: the network thread; backends run on `device`, one job at a time.

#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "dedloc/experts/backend.h"
#include "dedloc/experts/update_guard.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/runtime/workers.h"

namespace dedloc::experts {

enum class Pass : std::uint8_t { forward, backward };

struct BatcherLimits {
    std::size_t batch_rows_max = 4096;                   // hivemind's max_batch_size
    std::uint64_t queued_bytes_max = 256u << 20;         // whatever clients do
    std::size_t calls_max = 4096;                        // that wait
    Duration timeout_unsaid = std::chrono::seconds(60);  // of callers that do not say theirs
    UpdateLimits updates{};
    // Asked before each batch; where it refuses (memory), the batch's calls are. Null: never.
    std::function<Ok()> may_compute{};
    std::size_t members_told_max = 1024;  // whose doings are counted one by one
};

// One member's gradients here.
struct MemberUpdates {
    std::uint64_t calls = 0;
    std::uint64_t rows = 0;
    std::uint64_t shortened = 0;  // longer than others'
    std::uint64_t withheld = 0;   // more than its share, or of who does not train: not applied
};

struct BatcherCounts {
    std::uint64_t calls = 0;  // computed
    std::uint64_t rows = 0;
    std::uint64_t batches = 0;
    std::uint64_t overloaded = 0;
    std::uint64_t abandoned = 0;  // the caller was gone, or out of timeout, before its turn
    std::uint64_t failed = 0;     // by the backend
    std::uint64_t updates = 0;    // backward calls that changed an expert
};

class UpdatePool;

class Batcher {
  public:
    Batcher(runtime::Executor executor,
            runtime::Clock& clock,
            runtime::Workers& device,
            BatcherLimits limits = {});
    Batcher(const Batcher&) = delete;
    Batcher& operator=(const Batcher&) = delete;

    void add(const std::string& uid, std::shared_ptr<ExpertBackend> backend);
    // Calls that wait for it fail with not_found.
    void remove(const std::string& uid);
    std::shared_ptr<ExpertBackend> find(const std::string& uid) const;
    std::vector<std::string> uids() const;

    // Counts bytes that are arriving against the same bound, as long as it lives.
    class Hold {
      public:
        Hold() = default;
        Hold(Hold&&) = default;
        Hold& operator=(Hold&&) = default;

      private:
        friend class Batcher;
        std::shared_ptr<void> released_;
    };
    Result<Hold> hold(std::uint64_t bytes);

    // inputs, for a backward call with the outputs' gradients after them; they fit the schema.
    // `from`: who is answerable for the gradients.
    Task<Result<std::vector<Tensor>>> submit(
        Pass pass, PeerId from, std::string uid, std::vector<Tensor> tensors, Duration timeout);
    // Something else in the device thread, between two batches: a snapshot.
    Task<void> run_on_device(std::function<void()> work);

    // How long a call that came now would wait.
    Duration expected_wait() const;
    std::uint64_t queued_bytes() const { return *bytes_; }
    const BatcherCounts& counts() const { return counts_; }
    const std::map<PeerId, MemberUpdates>& members() const { return members_; }
    Task<void> stop();

  private:
    struct Call;
    struct Queue {
        std::deque<std::shared_ptr<Call>> calls;
        std::size_t rows = 0;
        double seconds_per_row = 0;  // measured; 0: not yet
    };
    struct Expert {
        std::shared_ptr<ExpertBackend> backend;
        std::shared_ptr<UpdatePool> pool;  // touched in the device thread
        UpdateGuard guard;
        Queue queues[2];
    };
    using Batch = std::vector<std::shared_ptr<Call>>;
    struct Update;    // how a backward batch changes its expert
    struct Computed;  // and what came of a batch

    Task<void> work();
    Queue* next_queue(std::string* uid, Pass* pass);
    Batch take_batch(Queue& queue, Pass pass);
    Task<void> compute(std::string uid, Pass pass, Batch batch);
    static std::size_t rows_of(const Batch& batch);
    Update allowed(const Expert& expert, const Batch& batch) const;
    void note_update(Expert& expert,
                     const Batch& batch,
                     const Update& update,
                     const UpdateGuard::Applied& applied);
    static Result<std::vector<Tensor>> run_backend(ExpertBackend& backend,
                                                   Pass pass,
                                                   std::vector<Tensor> tensors,
                                                   const Update& update,
                                                   UpdateGuard::Applied& applied);
    static Computed compute_calls(ExpertBackend& backend,
                                  Pass pass,
                                  const std::vector<std::vector<Tensor>*>& calls,
                                  const std::vector<std::size_t>& rows,
                                  const Update& update);

    runtime::Executor executor_;
    runtime::Clock& clock_;
    runtime::Workers& device_;
    BatcherLimits limits_;
    std::map<std::string, Expert> experts_;
    std::vector<std::shared_ptr<Call>> computing_;
    std::shared_ptr<std::uint64_t> bytes_;  // shared: a Hold may outlive us
    std::deque<std::pair<std::function<void()>, std::shared_ptr<runtime::Event>>> other_work_;
    std::size_t waiting_ = 0;
    bool working_ = false;
    BatcherCounts counts_;
    std::map<PeerId, MemberUpdates> members_;
    runtime::Scope scope_;
};

}  // namespace dedloc::experts
