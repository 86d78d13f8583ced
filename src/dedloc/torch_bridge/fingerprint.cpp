#include "dedloc/torch_bridge/fingerprint.h"

#include <algorithm>

#include "dedloc/security/hash.h"
#include "dedloc/torch_bridge/flat_module.h"

namespace dedloc::torch_bridge {
namespace {

constexpr std::string_view mark = "dedloc-model-1";

void add_name(security::Sha256& hash, const std::string& name, const torch::Tensor& tensor) {
    const auto sizes = tensor.sizes();
    hash.update(fmt::format("{} [{}]\n", name, fmt::join(sizes.begin(), sizes.end(), ",")));
}

void add_values(security::Sha256& hash, const std::string& name, const torch::Tensor& tensor) {
    add_name(hash, name, tensor);
    hash.update(torch::toString(tensor.scalar_type()));
    if (tensor.layout() != torch::kStrided) return;  // its bytes do not lie in a row
    const torch::Tensor values = tensor.detach().cpu().contiguous();
    hash.update(ByteView(static_cast<const std::uint8_t*>(values.data_ptr()), values.nbytes()));
}

}  // namespace

Fingerprint Fingerprint::of(const torch::nn::Module& module,
                            const std::vector<std::string>& private_buffers) {
    security::Sha256 structure;
    security::Sha256 constants;
    for (const auto& item : module.named_parameters()) {
        if (item.value().requires_grad())
            add_name(structure, item.key(), item.value());
        else
            add_values(constants, item.key(), item.value());
    }
    structure.update("buffers\n");
    constants.update("buffers\n");
    for (const auto& item : module.named_buffers()) {
        const auto& [name, tensor] = item.pair();
        if (!tensor.defined()) continue;
        switch (kind_of_buffer(name, tensor, private_buffers)) {
            case BufferKind::averaged:
                add_name(structure, name, tensor);
                break;
            case BufferKind::constant:
                add_values(constants, name, tensor);
                break;
            case BufferKind::kept_apart:
                structure.update(fmt::format("private {}\n", name));
                break;
        }
    }
    return {.structure = structure.finish(), .constants = constants.finish()};
}

Bytes Fingerprint::to_bytes() const {
    Bytes bytes(mark.begin(), mark.end());
    base::append(bytes, structure.view());
    base::append(bytes, constants.view());
    return bytes;
}

Ok check_same_model(const Fingerprint& ours, ByteView theirs) {
    const Bytes own = ours.to_bytes();
    if (theirs.size() != own.size() || !std::equal(mark.begin(), mark.end(), theirs.begin()))
        return {};
    const auto is_equal = [&](std::size_t offset) {
        return std::ranges::equal(theirs.subspan(offset, sizeof(Digest)),
                                  ByteView(own).subspan(offset, sizeof(Digest)));
    };
    if (!is_equal(mark.size()))
        return make_error(ErrorKind::conflict,
                          "your model is built differently from the host's: it has as many "
                          "numbers, but their names, shapes or order differ; build it with the "
                          "same program on all peers");
    if (!is_equal(mark.size() + sizeof(Digest)))
        return make_error(
            ErrorKind::conflict,
            "frozen parameters or constant buffers of your model have other values than the "
            "host's; they are not downloaded: take them from the same file on all peers, or build "
            "the model after the same torch::manual_seed() (and draw samples after another one: "
            "Session::seed())");
    return {};
}

}  // namespace dedloc::torch_bridge
