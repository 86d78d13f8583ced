#include "dedloc/c_api/dedloc.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/c_api/described_model.h"
#include "dedloc/c_api/handle.h"

namespace dedloc::c_api {
namespace {

std::vector<std::string> lines_of(const char* text) {
    std::vector<std::string> lines;
    std::istringstream all(text_of(text));
    for (std::string line; std::getline(all, line);)
        if (!line.empty()) lines.push_back(line);
    return lines;
}

// A model that is reached by its owner's functions.
class CalledModel final : public train::Model {
  public:
    CalledModel(const dedloc_model_calls& calls, run::Layout layout)
        : calls_(calls), layout_(std::move(layout)) {}
    run::Layout layout() const override { return layout_; }
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
    void take_sum(std::span<float> sum) override { calls_.take_sum(calls_.self, sum.data()); }
    void take_buffers(std::span<float> changes, double scale) override {
        calls_.take_buffers(calls_.self, changes.data(), scale);
    }
    void forget_sum() override { calls_.forget_sum(calls_.self); }

  private:
    dedloc_model_calls calls_;
    run::Layout layout_;
};

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

using namespace dedloc;
using namespace dedloc::c_api;

namespace {

train::LoopCalls calls_of(const dedloc_loop_calls& given) {
    train::LoopCalls calls;
    if (given.compute != nullptr)
        calls.compute = [given](const PeerId& author,
                                collab::CounterRange samples) -> Result<double> {
            double mean_loss = 0;
            if (given.compute(
                    given.self, author.text().c_str(), samples.begin, samples.end, &mean_loss) != 0)
                return mean_loss;
            return make_error(ErrorKind::cannot_compute,
                              "the function that computes samples failed");
        };
    if (given.evaluate != nullptr)
        calls.evaluate = [given]() -> Result<collab::Evaluation> {
            collab::Evaluation evaluation;
            if (given.evaluate(
                    given.self, &evaluation.loss, &evaluation.accuracy, &evaluation.samples) != 0)
                return evaluation;
            return make_error(ErrorKind::cannot_compute, "the function that evaluates failed");
        };
    return calls;
}

train::SessionOptions options_of(const dedloc_options& given) {
    train::SessionOptions options{.run_file = text_of(given.run_file),
                                  .run_text = text_of(given.run_text),
                                  .join = text_of(given.join),
                                  .resume = text_of(given.resume),
                                  .admit = text_of(given.admit),
                                  .name = text_of(given.name),
                                  .announce = lines_of(given.announce),
                                  .relays = lines_of(given.relays),
                                  .tensorboard = text_of(given.tensorboard)};
    if (given.directory != nullptr) options.directory = given.directory;
    if (given.listen != nullptr) options.listen = lines_of(given.listen);
    if (given.patience_s > 0) options.timeout = from_seconds(given.patience_s);
    if (given.calls != nullptr) {
        options.calls = calls_of(*given.calls);
        if (given.calls->evaluate_every > 0) options.evaluate_every = given.calls->evaluate_every;
    }
    options.wait_max = from_seconds(std::max(0.0, given.wait_s));
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
    DEDLOC_TRY(DescribedModel model, read_model(tensors, calls == nullptr));
    loop.tensors_count = model.tensors.size();
    loop.trained_count = static_cast<std::size_t>(
        std::ranges::count_if(model.tensors, &train::PlacedTensor::trained));
    std::unique_ptr<train::Model> memory;
    if (calls == nullptr) {
        DEDLOC_TRY(auto in_memory, train::SpanModel::make(std::move(model.tensors)));
        loop.in_memory = in_memory.get();
        memory = std::move(in_memory);
    } else {
        if (loop.trained_count == 0)
            return make_error(ErrorKind::bad_input, "the model has no parameters to train");
        memory = std::make_unique<CalledModel>(*calls, train::layout_of(model.tensors));
    }
    const run::Layout layout = memory->layout();
    DEDLOC_TRY_VOID(optim::check(layout.parameters, layout.parameters_count));
    train::SessionOptions options = options_of(given);
    options.events = &loop.told;
    loop.directory = options.directory;
    DEDLOC_TRY(loop.session,
               train::LoopSession::join(std::move(memory), model.fingerprint, std::move(options)));
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
        const Result<bool> stepped = loop->session->step(samples, mean_loss);
        if (!stepped) return report(stepped.error(), error) - 1;
        return *stepped ? 1 : 0;
    });
}

void dedloc_drop(dedloc_loop* loop) { loop->session->drop(); }
void dedloc_reload(dedloc_loop* loop) { loop->session->reload(); }

int dedloc_leave(dedloc_loop* loop, double patience_s, dedloc_error* error) {
    return guarded(error, 0, [&] {
        const Result<void> left = loop->session->leave(from_seconds(std::max(0.0, patience_s)));
        if (!left) return report(left.error(), error);
        if (loop->page) loop->page->end("this peer has left");
        return 1;
    });
}

void dedloc_close(dedloc_loop* loop) { delete loop; }
int dedloc_finished(const dedloc_loop* loop) { return loop->session->finished() ? 1 : 0; }
uint64_t dedloc_global_step(const dedloc_loop* loop) { return loop->session->global_step(); }
uint64_t dedloc_seed(const dedloc_loop* loop) { return loop->session->seed(); }
uint64_t dedloc_next_sample(const dedloc_loop* loop) { return loop->session->next_sample(); }
uint64_t dedloc_target_batch(const dedloc_loop* loop) { return loop->session->target_batch(); }

double dedloc_learning_rate(const dedloc_loop* loop) { return loop->session->learning_rate(); }

size_t dedloc_join_string(const dedloc_loop* loop, char* out, size_t size) {
    return write_text(loop->session->join_string(), out, size);
}

size_t dedloc_peer_id(const dedloc_loop* loop, char* out, size_t size) {
    return write_text(loop->session->peer_id().text(), out, size);
}

size_t dedloc_run_file(const dedloc_loop* loop, char* out, size_t size) {
    return write_text(run::to_toml(loop->session->run()), out, size);
}

size_t dedloc_state_hash(const dedloc_loop* loop, char* out, size_t size) {
    return write_text(loop->session->state_hash(), out, size);
}

size_t dedloc_status_json(const dedloc_loop* loop, char* out, size_t size) {
    nlohmann::json peers = nlohmann::json::array();
    for (const membership::Status& status : loop->session->peers())
        peers.push_back(json_of(status));
    const nlohmann::json all{{"self", loop->session->peer_id().text()},
                             {"peers", std::move(peers)}};
    return write_text(
        all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), out, size);
}

size_t dedloc_next_event(dedloc_loop* loop, char* out, size_t size) {
    return loop->events.next(out, size);
}

int dedloc_web(dedloc_loop* loop, const char* where, dedloc_error* error) {
    return guarded(error, 0, [&] {
        if (loop->page) return 1;
        auto page = LoopPage::open(
            *loop->session, loop->page_events, where != nullptr ? where : "auto", loop->directory);
        if (!page) return report(page.error(), error);
        loop->page = *std::move(page);
        return 1;
    });
}

size_t dedloc_web_address(const dedloc_loop* loop, char* out, size_t size) {
    return write_text(loop->page ? loop->page->address() : std::string(), out, size);
}

const char* dedloc_version(void) { return DEDLOC_VERSION; }
