// Strangers send these to an expert server, and it may answer these: requests against a schema,
// pieces of streams, descriptions of experts, entries of a grid. The first byte chooses.

#include <cstdlib>

#include "dedloc/experts/directory.h"
#include "dedloc/experts/schema.h"

namespace {

using namespace dedloc;
using namespace dedloc::experts;

ExpertSchema small_schema() {
    ExpertSchema schema;
    schema.inputs.push_back({.sample = {4}});
    schema.inputs.push_back({.sample = {2, 2}, .requires_grad = false});
    schema.outputs.push_back({.sample = {4}});
    return schema;
}

void check_request(ByteView bytes) {
    const auto request = wire::decode<wire::ExpertRequest>(bytes);
    if (!request) return;
    (void)ExpertUid::parse(request->uid);
    const auto specs = small_schema().backward_inputs();
    const auto tensors = read_tensors(specs, request->tensors, 64);
    if (!tensors) return;
    const auto rows = check_tensors(specs, *tensors, 64);
    if (!rows || *rows == 0 || *rows > 64) std::abort();
    for (const Tensor& tensor : *tensors)
        if (tensor.values.size() != *rows * 4) std::abort();
}

// Messages of one length each, as a stream would bring them.
void check_stream(ByteView bytes) {
    constexpr std::size_t bytes_max = 4096;
    TensorJoiner joiner(bytes_max);
    while (bytes.size() > 1) {
        const std::size_t size = std::min<std::size_t>(bytes[0], bytes.size() - 1);
        const auto part = wire::decode<wire::ExpertResponse>(bytes.subspan(1, size));
        bytes = bytes.subspan(1 + size);
        if (!part) continue;
        for (const auto& piece : part->tensors) (void)joiner.add(piece);
    }
    const auto tensors = std::move(joiner).finish();
    if (tensors.size() > wire::expert_tensors_max) std::abort();
    for (const auto& tensor : tensors)
        if (const auto read = from_wire(tensor)) (void)all_finite({*read});
}

void check_info(ByteView bytes) {
    const auto schema = decode_info(bytes);
    if (!schema) return;
    const auto again = decode_info(encode_info(*schema));
    if (!again || *again != *schema) std::abort();
}

void check_entries(ByteView bytes) {
    dht::Stored stored;
    stored.dictionary[Bytes{0x01}] = {.value = to_bytes(bytes), .expiration = 1};
    for (const auto& [coordinate, location] : successors_from("ffn.3.", stored))
        if (!location.uid.text().starts_with("ffn.3.1")) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    constexpr void (*checks[])(dedloc::ByteView) = {
        check_request, check_stream, check_info, check_entries};
    checks[data[0] % std::size(checks)](dedloc::ByteView(data + 1, size - 1));
    return 0;
}
