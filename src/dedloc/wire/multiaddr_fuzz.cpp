// Any bytes as a binary and as a text multiaddr. What is read must be written and read alike.

#include <cstdlib>

#include "dedloc/wire/multiaddr.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using dedloc::wire::Multiaddr;
    const dedloc::ByteView bytes(data, size);
    for (const auto& address :
         {Multiaddr::from_bytes(bytes), Multiaddr::from_text(dedloc::as_text(bytes))}) {
        if (!address) continue;
        const auto from_bytes = Multiaddr::from_bytes(address->bytes());
        // A text of 16 long names may exceed the binary limit; nothing else may differ.
        if (address->bytes().size() <= dedloc::wire::multiaddr_bytes_max &&
            (!from_bytes || *from_bytes != *address))
            std::abort();
        (void)address->host();
        (void)address->tcp_port();
        (void)address->peer();
        (void)address->relay();
        (void)address->text();
    }
    return 0;
}
