#include "dedloc/torch_bridge/collaborative_optimizer.h"

#include <stdexcept>

#include "dedloc/torch_bridge/flat_module.h"

namespace dedloc::torch_bridge {

namespace {

// Errors leave this module as exceptions, as libtorch's own do.
template <typename T>
T or_throw(Result<T> result) {
    if (!result) throw std::runtime_error("dedloc: " + result.error().message());
    if constexpr (!std::is_void_v<T>) return *std::move(result);
}

std::span<const std::int64_t> shape_of(const torch::Tensor& tensor) {
    return {tensor.sizes().data(), tensor.sizes().size()};
}

void add_constant(trainer::FingerprintMaker& maker,
                  const std::string& name,
                  const torch::Tensor& tensor) {
    const std::string type = torch::toString(tensor.scalar_type());
    // The bytes of others do not lie in a row.
    if (tensor.layout() != torch::kStrided) return maker.constant(name, shape_of(tensor), type, {});
    const torch::Tensor values = tensor.detach().cpu().contiguous();
    maker.constant(name,
                   shape_of(tensor),
                   type,
                   {static_cast<const std::uint8_t*>(values.data_ptr()), values.nbytes()});
}

trainer::Fingerprint fingerprint_of(const torch::nn::Module& module,
                                    const std::vector<std::string>& private_buffers) {
    trainer::FingerprintMaker maker;
    for (const auto& item : module.named_parameters()) {
        if (item.value().requires_grad())
            maker.trained(item.key(), shape_of(item.value()));
        else
            add_constant(maker, item.key(), item.value());
    }
    maker.begin_buffers();
    for (const auto& item : module.named_buffers()) {
        const auto& [name, tensor] = item.pair();
        if (!tensor.defined()) continue;
        switch (kind_of_buffer(name, tensor, private_buffers)) {
            case BufferKind::averaged:
                maker.averaged_buffer(name, shape_of(tensor));
                break;
            case BufferKind::constant:
                add_constant(maker, name, tensor);
                break;
            case BufferKind::kept_apart:
                maker.private_buffer(name);
                break;
        }
    }
    return maker.finish();
}

// A libtorch module, as own loops want it.
class ModuleGradients final : public trainer::Gradients {
  public:
    explicit ModuleGradients(FlatModule flat) : flat_(std::move(flat)) { flat_.remember_buffers(); }

    const run::Layout& layout() const override { return flat_.layout(); }
    void load(std::span<const float> parameters, std::span<const float> buffers) override {
        flat_.load(parameters, buffers);
        flat_.forget_gradients();
        flat_.remember_buffers();
    }
    void store(std::span<float> parameters, std::span<float> buffers) const override {
        flat_.store(parameters, buffers);
    }
    bool has_gradient() const override { return flat_.has_gradients(); }
    bool is_sound(double norm_max) override { return flat_.gradients_are_sound(norm_max); }
    void add(double scale) override {
        flat_.add_gradients(scale);
        flat_.remember_buffers();
    }
    void leave_out() override {
        flat_.forget_gradients();
        flat_.restore_buffers();
    }
    void forget_gradient() override { flat_.forget_gradients(); }
    void take(std::span<float> gradient_sum,
              std::span<float> buffers_sum,
              std::uint64_t samples) override {
        flat_.take_sums(gradient_sum);
        flat_.take_buffer_changes(buffers_sum, static_cast<double>(samples));
    }
    void forget_sum() override { flat_.forget_sums(); }

  private:
    FlatModule flat_;
};

}  // namespace

Session::Session(std::unique_ptr<trainer::OwnLoop> loop) : loop_(std::move(loop)) {}
Session::Session(Session&&) noexcept = default;
Session::~Session() = default;

std::string Session::join_string() const { return loop_->join_string(); }
std::string Session::peer_id() const { return loop_->peer_id().text(); }
std::uint64_t Session::seed() const { return loop_->seed(); }
std::uint64_t Session::global_step() const { return loop_->global_step(); }
std::string Session::state_hash() const { return loop_->state_hash(); }
bool Session::finished() const { return loop_->finished(); }
void Session::leave(Duration patience) { or_throw(loop_->leave(patience)); }

Session join(std::shared_ptr<torch::nn::Module> model, JoinOptions options) {
    const trainer::Fingerprint fingerprint = fingerprint_of(*model, options.private_buffers);
    FlatModule flat = or_throw(FlatModule::make(
        std::move(model), {.private_buffers = options.private_buffers, .unread_counters = true}));
    return Session(or_throw(trainer::OwnLoop::join(
        std::make_unique<ModuleGradients>(std::move(flat)), fingerprint, std::move(options))));
}

void CollaborativeOptimizer::zero_grad() { loop_.zero_grad(); }
bool CollaborativeOptimizer::step(std::int64_t samples, double mean_loss) {
    return or_throw(loop_.step(samples, mean_loss));
}
bool CollaborativeOptimizer::finished() const { return loop_.finished(); }

}  // namespace dedloc::torch_bridge
