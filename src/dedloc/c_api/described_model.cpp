#include "dedloc/c_api/described_model.h"

#include <optional>
#include <string>
#include <utility>

namespace dedloc::c_api {
namespace {

Result<train::ElementType> type_of(const dedloc_tensor& tensor) {
    const std::string type = text_of(tensor.type);
    if (type == "Float") return train::ElementType::fp32;
    if (type == "Long") return train::ElementType::int64;
    if (type == "Int") return train::ElementType::int32;
    if (type == "Byte" || type == "Bool") return train::ElementType::uint8;
    return make_error(ErrorKind::unsupported,
                      "'{}' of the model is not fp32 ({}); convert the model before joining",
                      tensor.name,
                      type);
}

bool is_grouped(const dedloc_tensor& tensor) {
    return tensor.kind == DEDLOC_TRAINED && (tensor.has_group != 0 || tensor.is_no_matrix != 0);
}

double factor_of(const dedloc_tensor& tensor) {
    return tensor.has_group != 0 ? tensor.rate_factor : 1.0;
}

std::optional<double> decay_of(const dedloc_tensor& tensor) {
    if (tensor.has_group == 0 || tensor.weight_decay < 0) return std::nullopt;
    return tensor.weight_decay;
}

std::size_t columns_of(const dedloc_tensor& tensor) {
    const bool is_matrix = tensor.rank == 2 && tensor.is_no_matrix == 0;
    return is_matrix ? static_cast<std::size_t>(tensor.shape[1]) : 0;
}

}  // namespace

Result<DescribedModel> read_model(std::span<const dedloc_tensor> tensors, bool in_memory) {
    DescribedModel model;
    train::FingerprintMaker maker;
    bool in_buffers = false;
    for (const dedloc_tensor& tensor : tensors) {
        const std::span<const std::int64_t> shape(tensor.shape, tensor.rank);
        if (tensor.kind >= DEDLOC_BUFFER && !std::exchange(in_buffers, true)) maker.begin_buffers();
        const bool averaged = tensor.kind == DEDLOC_TRAINED || tensor.kind == DEDLOC_BUFFER;
        if (tensor.kind == DEDLOC_TRAINED) maker.trained(tensor.name, shape);
        if (is_grouped(tensor))
            maker.grouped(tensor.name, factor_of(tensor), decay_of(tensor), columns_of(tensor));
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
        train::ElementType type = train::ElementType::fp32;
        if (in_memory) {
            DEDLOC_TRY(type, type_of(tensor));
        }
        model.tensors.push_back({.name = tensor.name,
                                 .count = count,
                                 .trained = tensor.kind == DEDLOC_TRAINED,
                                 .decays = tensor.rank >= 2,
                                 .columns = columns_of(tensor),
                                 .rate_factor = factor_of(tensor),
                                 .weight_decay = decay_of(tensor),
                                 .type = type,
                                 .values = tensor.values});
    }
    if (!in_buffers) maker.begin_buffers();
    model.fingerprint = maker.finish();
    return model;
}

}  // namespace dedloc::c_api
