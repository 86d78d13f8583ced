#include "dedloc/torch_bridge/collaborative_optimizer.h"

#include <stdexcept>

#include "dedloc/torch_bridge/flat_module.h"
#include "dedloc/torch_bridge/module_model.h"

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

void add_constant(train::FingerprintMaker& maker,
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

train::Fingerprint fingerprint_of(const torch::nn::Module& module,
                                  const std::vector<std::string>& private_buffers) {
    train::FingerprintMaker maker;
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

}  // namespace

Session::Session(std::unique_ptr<train::LoopSession> session) : session_(std::move(session)) {}
Session::Session(Session&&) noexcept = default;
Session::~Session() = default;

std::string Session::join_string() const { return session_->join_string(); }
std::string Session::peer_id() const { return session_->peer_id().text(); }
std::uint64_t Session::seed() const { return session_->seed(); }
std::uint64_t Session::global_step() const { return session_->global_step(); }
std::string Session::state_hash() const { return session_->state_hash(); }
bool Session::finished() const { return session_->finished(); }
void Session::leave(Duration grace_period) { or_throw(session_->leave(grace_period)); }

Session join(std::shared_ptr<torch::nn::Module> model, JoinOptions options) {
    const train::Fingerprint fingerprint = fingerprint_of(*model, options.private_buffers);
    FlatModule flat = or_throw(FlatModule::make(
        std::move(model), {.private_buffers = options.private_buffers, .unread_counters = true}));
    return Session(or_throw(train::LoopSession::join(
        std::make_unique<ModuleModel>(std::move(flat)), fingerprint, std::move(options))));
}

void CollaborativeOptimizer::zero_grad() { session_.zero_grad(); }
bool CollaborativeOptimizer::step(std::int64_t samples, double mean_loss) {
    return or_throw(session_.step(samples, mean_loss));
}
bool CollaborativeOptimizer::finished() const { return session_.finished(); }

}  // namespace dedloc::torch_bridge
