#include "dedloc/robust/draw.h"

namespace dedloc::robust {

Digest nonce_hash(HashFunction hash,
                  const Digest& round,
                  std::uint32_t member,
                  const Digest& nonce) {
    Bytes bytes = to_bytes("dedloc-nonce");
    base::append(bytes, round.view());
    base::put_u32_be(bytes, member);
    base::append(bytes, nonce.view());
    return hash(bytes);
}

Ok Draw::commit(std::uint32_t member, const Digest& nonce_hash) {
    const auto found = committed_.find(member);
    if (found != committed_.end()) {
        if (found->second == nonce_hash) return {};
        return make_error(ErrorKind::peer_broke_protocol, "two commitments to different nonces");
    }
    if (!revealed_.empty())
        return make_error(ErrorKind::conflict, "nonces are revealed: nobody commits any more");
    committed_[member] = nonce_hash;
    return {};
}

Ok Draw::reveal(std::uint32_t member, const Digest& nonce) {
    const auto found = committed_.find(member);
    if (found == committed_.end() || nonce_hash(hash_, round_, member, nonce) != found->second)
        return make_error(ErrorKind::peer_broke_protocol,
                          "a nonce that its member has not committed to");
    revealed_[member] = nonce;
    return {};
}

std::vector<std::uint32_t> Draw::withheld() const {
    std::vector<std::uint32_t> members;
    for (const auto& [member, nonce_hash] : committed_)
        if (!revealed_.contains(member)) members.push_back(member);
    return members;
}

Digest Draw::seed() const {
    Bytes bytes = to_bytes("dedloc-draw");
    base::append(bytes, round_.view());
    for (const auto& [member, nonce] : revealed_) {
        base::put_u32_be(bytes, member);
        base::append(bytes, nonce.view());
    }
    return hash_(bytes);
}

}  // namespace dedloc::robust
