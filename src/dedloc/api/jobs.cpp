#include "dedloc/api/jobs.h"

#include "dedloc/api/stop_words.h"

namespace dedloc::api {

void ModelJob::cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    news_.notify_all();
}

bool ModelJob::is_cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
}

void TextJob::run() {
    if (is_cancelled()) return;
    StopWords stop(request_.stop);
    tasks::WriteRequest write = request_.write;
    write.told = [&](std::string_view added) { return add(stop.add(added)) && !stop.found(); };
    const Result<tasks::Writing> writing = generator().write(write);
    const bool stopped = stop.found();
    end(writing, stopped, stopped ? std::string() : stop.finish());
}

bool TextJob::add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    waiting_.text += text;
    if (!text.empty()) news_.notify_all();
    return !cancelled_;
}

void TextJob::end(const Result<tasks::Writing>& writing, bool stopped, const std::string& rest) {
    const std::lock_guard lock(mutex_);
    waiting_.text += rest;
    waiting_.is_over = true;
    if (!writing) waiting_.failure = writing.error();
    if (writing) {
        waiting_.finish_reason = stopped || writing->ended ? "stop" : "length";
        waiting_.tokens = writing->tokens;
    }
    news_.notify_all();
}

TextJob::Taken TextJob::take(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    news_.wait_for(
        lock, timeout, [this] { return cancelled_ || waiting_.is_over || !waiting_.text.empty(); });
    Taken taken = waiting_;
    waiting_.text.clear();
    return taken;
}

void PictureJob::run() {
    if (is_cancelled()) return;
    tasks::DrawRequest request = request_;
    request.goes_on = [this] { return !is_cancelled(); };
    auto drawn = generator().draw(request);
    const std::lock_guard lock(mutex_);
    drawn_ = std::move(drawn);
    news_.notify_all();
}

std::optional<Result<tasks::Drawing>> PictureJob::take(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    news_.wait_for(lock, timeout, [this] { return cancelled_ || drawn_; });
    return std::exchange(drawn_, std::nullopt);
}

}  // namespace dedloc::api
