// Lengths as OpenSSL's functions take them. Ours are of records and handshakes: far below 2 GiB.

#pragma once
#include "dedloc/base/bytes.h"

namespace dedloc::security {

inline int openssl_size(ByteView bytes) { return static_cast<int>(bytes.size()); }

}  // namespace dedloc::security
