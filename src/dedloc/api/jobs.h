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

// A state of the model, for as long as somebody writes with it.
struct ServedState {
    std::shared_ptr<tasks::Generator> generator{};
    std::uint64_t step = 0;
    std::string fingerprint{};  // "step-12-0fe1…"
};

class TextJob final : public Job {
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
        : state_(std::move(state)), request_(std::move(request)) {}

    void run() override;
    void cancel() override;
    // Waits for more than nothing, not longer than `timeout`.
    Taken take(std::chrono::milliseconds timeout);
    // Without `is_over` where there is nothing more to come: it was cancelled.
    bool is_cancelled() const;

  private:
    bool add(const std::string& text);
    void end(const Result<tasks::Writing>& writing, bool stopped, const std::string& rest);

    const std::shared_ptr<const ServedState> state_;
    const TextRequest request_;
    mutable std::mutex mutex_;
    std::condition_variable news_;
    Taken waiting_;
    bool cancelled_ = false;
};

class PictureJob final : public Job {
  public:
    PictureJob(std::shared_ptr<const ServedState> state, tasks::DrawRequest request)
        : state_(std::move(state)), request_(std::move(request)) {}

    void run() override;
    void cancel() override;
    // Null: not yet. The pictures are taken once.
    std::optional<Result<tasks::Drawing>> take(std::chrono::milliseconds timeout);
    bool is_cancelled() const;

  private:
    const std::shared_ptr<const ServedState> state_;
    tasks::DrawRequest request_;
    mutable std::mutex mutex_;
    std::condition_variable news_;
    std::optional<Result<tasks::Drawing>> drawn_;
    bool cancelled_ = false;
};

}  // namespace dedloc::api
