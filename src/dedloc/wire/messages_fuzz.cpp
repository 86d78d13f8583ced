// Every protobuf message that strangers may send us. The first byte chooses the message. What is
// decoded must encode to bytes that decode and encode alike (our encoding is canonical).

#include <cstdlib>

#include "dedloc/wire/dht_messages.h"
#include "dedloc/wire/expert_messages.h"
#include "dedloc/wire/identify.h"
#include "dedloc/wire/kad_messages.h"
#include "dedloc/wire/noise_payload.h"
#include "dedloc/wire/relay_messages.h"
#include "dedloc/wire/rpc_frames.h"

namespace {

using namespace dedloc::wire;

template <typename Message>
void check(dedloc::ByteView bytes) {
    const auto message = decode<Message>(bytes);
    if (!message) return;
    const auto canonical = encode(*message);
    const auto again = decode<Message>(canonical);
    if (!again || encode(*again) != canonical) std::abort();
}

void check_unary(dedloc::ByteView bytes) {
    if (const auto request = decode_unary_request(bytes)) {
        const auto again = encode_unary_request(request->id, request->method, request->data);
        LengthPrefixReader reader(2 * bytes.size() + unary_overhead_bytes_max);
        if (!reader.feed(again) || !decode_unary_request(*reader.take())) std::abort();
    }
    if (const auto response = decode_unary_response(bytes); response && response->error)
        (void)error_from_text(dedloc::as_text(*response->error));
    (void)decode_stream_error(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const dedloc::ByteView bytes(data + 1, size - 1);
    constexpr void (*checks[])(dedloc::ByteView) = {
        check<PingRequest>, check<PingResponse>,   check<StoreRequest>,   check<StoreResponse>,
        check<FindRequest>, check<FindResponse>,   check<Identify>,       check<Envelope>,
        check<PeerRecord>,  check<HopMessage>,     check<StopMessage>,    check<RelayVoucher>,
        check<HolePunch>,   check<AutonatMessage>, check_unary,           check<NoisePayload>,
        check<KadMessage>,  check<ExpertRequest>,  check<ExpertResponse>, check<ExpertInfoMessage>};
    checks[data[0] % std::size(checks)](bytes);
    return 0;
}
