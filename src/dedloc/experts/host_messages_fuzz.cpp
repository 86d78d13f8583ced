// Strangers say this to an expert server beside hivemind's calls, and a keeper or an onlooker
// reads this of others' records. The first byte chooses; whatever is read is written the same way
// again.

#include <cstdlib>

#include "dedloc/experts/host_messages.h"

namespace {

using namespace dedloc;
using namespace dedloc::experts;

template <typename Message>
void round_trip(ByteView bytes) {
    const auto message = wire::decode<Message>(bytes);
    if (!message) return;
    const Bytes written = wire::encode(*message);
    const auto again = wire::decode<Message>(written);
    if (!again || wire::encode(*again) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const ByteView bytes(data + 1, size - 1);
    switch (data[0] % 6) {
        case 0:
            round_trip<AliveRequest>(bytes);
            break;
        case 1:
            round_trip<AliveResponse>(bytes);
            break;
        case 2:
            round_trip<KeepRequest>(bytes);
            break;
        case 3:
            round_trip<OfferRequest>(bytes);
            break;
        case 4:
            round_trip<OfferResponse>(bytes);
            break;
        default:
            round_trip<ServerRecordPayload>(bytes);
            break;
    }
    return 0;
}
