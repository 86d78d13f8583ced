// Feeds a yamux session arbitrary bytes, in pieces, while its streams are used; checks what must
// hold whatever a peer sends.
#include <algorithm>

#include "dedloc/base/check.h"
#include "dedloc/transport/yamux.h"

using namespace dedloc;
using namespace dedloc::transport;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ByteView input(data, size);
    TimePoint now{1s};
    auto memory = std::make_shared<StreamMemory>();
    std::vector<std::shared_ptr<YamuxStream>> streams;
    {
        YamuxOptions options{.is_client = false, .now = [&] { return now; }, .memory = memory};
        YamuxSession session(std::move(options));
        session.on_inbound = [&](auto stream) { streams.push_back(std::move(stream)); };
        for (int i = 0; i < 3; ++i)
            if (auto stream = session.open()) {
                (*stream)->write(Bytes(1000));
                streams.push_back(*stream);
            }
        while (!input.empty() && !session.failure()) {
            // One byte of every piece decides its size and what the streams' owners do then.
            const std::size_t choice = input[0];
            input = input.subspan(1);
            const std::size_t count = std::min(input.size(), 1 + 3 * (choice & 31));
            (void)session.feed(input.first(count));
            input = input.subspan(count);
            now = now + Duration((choice & 7) * 1s);
            if ((choice & 32) != 0) (void)session.tick();
            if (!streams.empty()) {
                const auto& stream = streams[choice % streams.size()];
                Bytes piece(300);
                stream->read_some(piece);
                if ((choice & 64) != 0 && !stream->finished()) stream->write(Bytes(choice));
                if ((choice & 192) == 192) stream->finish();
                if (choice == 255) stream->release();
            }
            session.pull(4096, [](ByteView, ByteView) {});
            DEDLOC_CHECK(memory->received <= connection_unread_bytes_max);
            DEDLOC_CHECK(session.streams_count() <= streams_inbound_max + streams_outbound_max);
        }
    }
    DEDLOC_CHECK(memory->received == 0 && memory->queued == 0);
    return 0;
}
