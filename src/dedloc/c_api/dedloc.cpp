#include "dedloc/c_api/dedloc.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/monitor/event_log.h"
#include "dedloc/trainer/own_loop.h"
#include "dedloc/trainer/span_model.h"

namespace dedloc::c_api {
namespace {

constexpr std::size_t kept_events_max = 1024;  // a notebook that is not looked at reads none

int report(const Error& error, dedloc_error* out) {
    if (out == nullptr) return 0;
    out->kind = static_cast<std::int32_t>(error.kind()) + 1;
    const std::string& message = error.message();
    const std::size_t count = std::min(message.size(), sizeof(out->message) - 1);
    std::memcpy(out->message, message.data(), count);
    out->message[count] = 0;
    return 0;
}

// Nothing is thrown across the C interface.
template <typename Work>
int guarded(dedloc_error* error, int failed, Work&& work) {
    try {
        return work();
    } catch (const std::exception& failure) {
        report(Error(ErrorKind::cannot_compute, failure.what()), error);
        return failed;
    }
}

std::size_t write_text(const std::string& text, char* out, std::size_t size) {
    if (size > 0) {
        const std::size_t count = std::min(text.size(), size - 1);
        std::memcpy(out, text.data(), count);
        out[count] = 0;
    }
    return text.size();
}

std::string text_of(const char* text) { return text != nullptr ? text : ""; }

std::vector<std::string> lines_of(const char* text) {
    std::vector<std::string> lines;
    std::istringstream all(text_of(text));
    for (std::string line; std::getline(all, line);)
        if (!line.empty()) lines.push_back(line);
    return lines;
}

// The newest events, for whoever asks.
class EventQueue final : public events::EventSink {
  public:
    void record(const events::Event& event) override {
        std::string line = monitor::to_json_line(event);
        const std::lock_guard lock(mutex_);
        if (lines_.size() >= kept_events_max) lines_.pop_front();
        lines_.push_back(std::move(line));
    }
    std::size_t next(char* out, std::size_t size) {
        const std::lock_guard lock(mutex_);
        if (lines_.empty()) return 0;
        const std::size_t count = write_text(lines_.front(), out, size);
        if (count < size) lines_.pop_front();
        return count;
    }

  private:
    std::mutex mutex_;
    std::deque<std::string> lines_;
};

// A model that is reached by its owner's functions.
class CalledModel final : public trainer::Gradients {
  public:
    CalledModel(const dedloc_model_calls& calls, run::Layout layout)
        : calls_(calls), layout_(std::move(layout)) {}
    const run::Layout& layout() const override { return layout_; }
    void load(std::span<const float> parameters, std::span<const float> buffers) override {
        calls_.load(calls_.self, parameters.data(), buffers.data());
    }
    void store(std::span<float> parameters, std::span<float> buffers) const override {
        calls_.store(calls_.self, parameters.data(), buffers.data());
    }
    bool has_gradient() const override { return calls_.has_gradient(calls_.self) != 0; }
    bool is_sound(double norm_max) override { return calls_.is_sound(calls_.self, norm_max) != 0; }
    void add(double scale) override { calls_.add(calls_.self, scale); }
    void leave_out() override { calls_.leave_out(calls_.self); }
    void forget_gradient() override { calls_.forget_gradient(calls_.self); }
    void take(std::span<float> sum, std::span<float> buffers, std::uint64_t samples) override {
        calls_.take(calls_.self, sum.data(), buffers.data(), samples);
    }
    void forget_sum() override { calls_.forget_sum(calls_.self); }

  private:
    dedloc_model_calls calls_;
    run::Layout layout_;
};

Result<trainer::ElementType> type_of(const dedloc_tensor& tensor) {
    const std::string type = text_of(tensor.type);
    if (type == "Float") return trainer::ElementType::fp32;
    if (type == "Long") return trainer::ElementType::int64;
    if (type == "Int") return trainer::ElementType::int32;
    if (type == "Byte" || type == "Bool") return trainer::ElementType::uint8;
    return make_error(ErrorKind::unsupported,
                      "'{}' of the model is not fp32 ({}); convert the model before joining",
                      tensor.name,
                      type);
}

// The tensors that are trained or averaged.
struct Model {
    trainer::Fingerprint fingerprint;
    std::vector<trainer::PlacedTensor> tensors;
};

Result<Model> read_model(std::span<const dedloc_tensor> tensors, bool in_memory) {
    Model model;
    trainer::FingerprintMaker maker;
    bool in_buffers = false;
    for (const dedloc_tensor& tensor : tensors) {
        const std::span<const std::int64_t> shape(tensor.shape, tensor.rank);
        if (tensor.kind >= DEDLOC_BUFFER && !std::exchange(in_buffers, true)) maker.begin_buffers();
        const bool averaged = tensor.kind == DEDLOC_TRAINED || tensor.kind == DEDLOC_BUFFER;
        if (tensor.kind == DEDLOC_TRAINED) maker.trained(tensor.name, shape);
        if (tensor.kind == DEDLOC_BUFFER) maker.averaged_buffer(tensor.name, shape);
        if (tensor.kind == DEDLOC_PRIVATE_BUFFER) maker.private_buffer(tensor.name);
        if (tensor.kind == DEDLOC_CONSTANT || tensor.kind == DEDLOC_CONSTANT_BUFFER)
            maker.constant(tensor.name,
                           shape,
                           text_of(tensor.type),
                           {static_cast<const std::uint8_t*>(tensor.values), tensor.bytes});
        std::uint64_t count = 1;
        for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
        if (!averaged || tensor.is_repeated != 0 || count == 0) continue;
        trainer::ElementType type = trainer::ElementType::fp32;
        if (in_memory) {
            DEDLOC_TRY(type, type_of(tensor));
        }
        model.tensors.push_back({.name = tensor.name,
                                 .count = count,
                                 .trained = tensor.kind == DEDLOC_TRAINED,
                                 .decays = tensor.rank >= 2,
                                 .type = type,
                                 .values = tensor.values});
    }
    if (!in_buffers) maker.begin_buffers();
    model.fingerprint = maker.finish();
    return model;
}

run::Layout layout_of(const std::vector<trainer::PlacedTensor>& tensors) {
    run::Layout layout;
    for (const trainer::PlacedTensor& tensor : tensors) {
        if (!tensor.trained) {
            layout.buffers_count += tensor.count;
            continue;
        }
        layout.parameters.push_back({.name = tensor.name,
                                     .offset = layout.parameters_count,
                                     .count = static_cast<std::size_t>(tensor.count),
                                     .decay = tensor.decays});
        layout.parameters_count += tensor.count;
    }
    return layout;
}

nlohmann::json json_of(const membership::Status& status) {
    return {{"id", status.peer.text()},
            {"name", status.name},
            {"role", std::string(membership::to_string(status.role))},
            {"phase", std::string(membership::to_string(status.phase))},
            {"step", status.step},
            {"samples", status.samples},
            {"samples_per_s", status.samples_per_s},
            {"loss", status.loss},
            {"accuracy", status.accuracy},
            {"state_hash", status.state_hash.hex()},
            {"committed_samples", status.committed_samples},
            {"upload_bytes_per_s", status.upload_bytes_per_s},
            {"download_bytes_per_s", status.download_bytes_per_s},
            {"dialable", status.dialable},
            {"version", status.version}};
}

}  // namespace
}  // namespace dedloc::c_api

struct dedloc_loop {
    dedloc::c_api::EventQueue events;  // outlives the loop, which tells it
    dedloc::trainer::SpanModel* in_memory = nullptr;
    std::size_t tensors_count = 0;
    std::size_t trained_count = 0;
    std::unique_ptr<dedloc::trainer::OwnLoop> loop;
};

using namespace dedloc;
using namespace dedloc::c_api;

namespace {

trainer::OwnLoopOptions options_of(const dedloc_options& given) {
    trainer::OwnLoopOptions options{.run_file = text_of(given.run_file),
                                    .join = text_of(given.join),
                                    .resume = text_of(given.resume),
                                    .name = text_of(given.name),
                                    .announce = lines_of(given.announce),
                                    .relays = lines_of(given.relays)};
    if (given.directory != nullptr) options.directory = given.directory;
    if (given.listen != nullptr) options.listen = lines_of(given.listen);
    if (given.patience_s > 0) options.patience = from_seconds(given.patience_s);
    if (given.goes_on != nullptr)
        options.goes_on = [goes_on = given.goes_on, self = given.self] {
            return goes_on(self) != 0;
        };
    return options;
}

Result<void> open_loop(dedloc_loop& loop,
                       const dedloc_options& given,
                       std::span<const dedloc_tensor> tensors,
                       const dedloc_model_calls* calls) {
    DEDLOC_TRY(Model model, read_model(tensors, calls == nullptr));
    loop.tensors_count = model.tensors.size();
    loop.trained_count = static_cast<std::size_t>(
        std::ranges::count_if(model.tensors, &trainer::PlacedTensor::trained));
    std::unique_ptr<trainer::Gradients> gradients;
    if (calls == nullptr) {
        DEDLOC_TRY(auto in_memory, trainer::SpanModel::make(std::move(model.tensors)));
        loop.in_memory = in_memory.get();
        gradients = std::move(in_memory);
    } else {
        if (loop.trained_count == 0)
            return make_error(ErrorKind::bad_input, "the model has no parameters to train");
        gradients = std::make_unique<CalledModel>(*calls, layout_of(model.tensors));
    }
    trainer::OwnLoopOptions options = options_of(given);
    options.events = &loop.events;
    DEDLOC_TRY(loop.loop,
               trainer::OwnLoop::join(std::move(gradients), model.fingerprint, std::move(options)));
    return {};
}

}  // namespace

int dedloc_join(const dedloc_options* options,
                const dedloc_tensor* tensors,
                size_t count,
                const dedloc_model_calls* calls,
                dedloc_loop** loop,
                dedloc_error* error) {
    return guarded(error, 0, [&] {
        auto made = std::make_unique<dedloc_loop>();
        const Result<void> opened = open_loop(*made, *options, {tensors, count}, calls);
        if (!opened) return report(opened.error(), error);
        *loop = made.release();
        return 1;
    });
}

void dedloc_place(dedloc_loop* loop, void* const* values, const float* const* gradients) {
    if (loop->in_memory == nullptr) return;
    loop->in_memory->place({values, loop->tensors_count}, {gradients, loop->trained_count});
}

int dedloc_step(dedloc_loop* loop, int64_t samples, double mean_loss, dedloc_error* error) {
    return guarded(error, -1, [&] {
        const Result<bool> stepped = loop->loop->step(samples, mean_loss);
        if (!stepped) return report(stepped.error(), error) - 1;
        return *stepped ? 1 : 0;
    });
}

void dedloc_drop(dedloc_loop* loop) { loop->loop->drop(); }

int dedloc_leave(dedloc_loop* loop, double patience_s, dedloc_error* error) {
    return guarded(error, 0, [&] {
        const Result<void> left = loop->loop->leave(from_seconds(std::max(0.0, patience_s)));
        return left ? 1 : report(left.error(), error);
    });
}

void dedloc_close(dedloc_loop* loop) { delete loop; }
int dedloc_finished(const dedloc_loop* loop) { return loop->loop->finished() ? 1 : 0; }
uint64_t dedloc_global_step(const dedloc_loop* loop) { return loop->loop->global_step(); }
uint64_t dedloc_seed(const dedloc_loop* loop) { return loop->loop->seed(); }
uint64_t dedloc_target_batch(const dedloc_loop* loop) { return loop->loop->target_batch(); }

size_t dedloc_join_string(const dedloc_loop* loop, char* out, size_t size) {
    return write_text(loop->loop->join_string(), out, size);
}

size_t dedloc_peer_id(const dedloc_loop* loop, char* out, size_t size) {
    return write_text(loop->loop->peer_id().text(), out, size);
}

size_t dedloc_state_hash(const dedloc_loop* loop, char* out, size_t size) {
    return write_text(loop->loop->state_hash(), out, size);
}

size_t dedloc_status_json(const dedloc_loop* loop, char* out, size_t size) {
    nlohmann::json peers = nlohmann::json::array();
    for (const membership::Status& status : loop->loop->peers()) peers.push_back(json_of(status));
    const nlohmann::json all{{"self", loop->loop->peer_id().text()}, {"peers", std::move(peers)}};
    return write_text(
        all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), out, size);
}

size_t dedloc_next_event(dedloc_loop* loop, char* out, size_t size) {
    return loop->events.next(out, size);
}

const char* dedloc_version(void) { return DEDLOC_VERSION; }
