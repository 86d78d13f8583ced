// Keeps a connection to a peer whose address a person gave (a relay), for as long as it is not
// cancelled: dials again keeper_pause after each failure and each loss.
//
// Thread: the network thread. Cost: one look every keeper_pause.

#pragma once
#include <string>

#include "dedloc/p2p/host.h"

namespace dedloc::p2p {

inline constexpr Duration keeper_pause = 2s;

// `address` ends in /p2p/<id>, or nothing is kept.
Task<void> keep_connected(Host& host, std::string address);

}  // namespace dedloc::p2p
