#include "dedloc/membership/secret_authorizer.h"

#include "dedloc/security/hash.h"

namespace dedloc::membership {

Bytes SecretAuthorizer::credential(const Meeting& meeting, Side own) const {
    const bool calls = own == Side::caller;
    const PeerId& prover = calls ? meeting.caller : meeting.callee;
    const PeerId& to = calls ? meeting.callee : meeting.caller;
    Bytes message = to_bytes("dedloc-hello");
    for (const ByteView piece : {prover.bytes(),
                                 to.bytes(),
                                 ByteView(meeting.nonce_caller),
                                 ByteView(meeting.nonce_callee)}) {
        base::put_u32_be(message, static_cast<std::uint32_t>(piece.size()));
        base::append(message, piece);
    }
    return to_bytes(security::hmac_sha256(secret_, message).view());
}

Ok SecretAuthorizer::check(const Meeting& meeting, Side shown_by, ByteView shown) {
    if (security::equal_in_constant_time(shown, credential(meeting, shown_by))) return {};
    if (shown_by == Side::callee)
        return make_error(ErrorKind::denied,
                          "peer {} could not prove that it knows the run's secret in your join "
                          "string, which may be from before the run was hosted anew or resumed; "
                          "ask for a fresh join string (`dedloc invite` prints one)",
                          meeting.callee.short_text());
    return make_error(ErrorKind::denied,
                      "the run's secret in your join string is not this run's: the string may be "
                      "from before the run was hosted anew or resumed; ask for a fresh join string "
                      "(`dedloc invite` prints one)");
}

}  // namespace dedloc::membership
