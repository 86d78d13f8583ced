// TextJob: a text that is being written, from the queue's thread to a connection's, which takes
// what there is as it comes. PictureJob: pictures that are being drawn.
//
// Limits: what waits to be taken is at most the text that a context holds. Thread: run() the
// queue's, the rest any.

#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "dedloc/api/queue.h"
#include "dedloc/api/request.h"

namespace dedloc::api {

// A state of the model; jobs that began with it keep it when a newer one is served.
struct ServedState {
    std::shared_ptr<tasks::Generator> generator{};
    std::uint64_t step = 0;
    std::string fingerprint{};  // "step-12-0fe1…"
};

// A job with the model. Whoever takes its results hears that it was cancelled, too.
class ModelJob : public Job {
  public:
    void cancel() final;
    bool is_cancelled() const;

  protected:
    explicit ModelJob(std::shared_ptr<const ServedState> state) : state_(std::move(state)) {}
    tasks::Generator& generator() const { return *state_->generator; }

    mutable std::mutex mutex_;
    std::condition_variable news_;
    bool cancelled_ = false;

  private:
    const std::shared_ptr<const ServedState> state_;
};

class TextJob final : public ModelJob {
  public:
    struct Taken {
        std::string text{};
        bool is_over = false;
        // When it is over:
        std::optional<Error> failure{};
        std::string finish_reason{};
        std::uint64_t tokens = 0;
    };

    TextJob(std::shared_ptr<const ServedState> state, TextRequest request)
        : ModelJob(std::move(state)), request_(std::move(request)) {}

    void run() override;
    // Waits until there is text, or the job is over or cancelled, for `timeout` at most. Returns
    // what was written since the last call. A job that was cancelled may never be over.
    Taken take(std::chrono::milliseconds timeout);

  private:
    bool add(const std::string& text);
    void end(const Result<tasks::Writing>& writing, bool stopped, const std::string& rest);

    const TextRequest request_;
    Taken waiting_;  // what no take() has returned yet
};

class PictureJob final : public ModelJob {
  public:
    PictureJob(std::shared_ptr<const ServedState> state, tasks::DrawRequest request)
        : ModelJob(std::move(state)), request_(std::move(request)) {}

    void run() override;
    // Null: the pictures are not there yet. They can be taken once.
    std::optional<Result<tasks::Drawing>> take(std::chrono::milliseconds timeout);

  private:
    const tasks::DrawRequest request_;
    std::optional<Result<tasks::Drawing>> drawn_;
};

}  // namespace dedloc::api
