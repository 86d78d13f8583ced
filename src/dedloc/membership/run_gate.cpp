#include "dedloc/membership/run_gate.h"

#include <algorithm>
#include <array>

#include "dedloc/membership/attachments.h"
#include "dedloc/membership/hello_message.h"

namespace dedloc::membership {
namespace {

bool has(std::span<const p2p::OpenProtocol> protocols, std::string_view method) {
    return std::ranges::find(protocols, method, &p2p::OpenProtocol::name) != protocols.end();
}

}  // namespace

std::span<const p2p::OpenProtocol> stranger_protocols() {
    static constexpr std::array protocols{
        p2p::OpenProtocol{hello_method, "the first half of proving that one may take part"},
        p2p::OpenProtocol{prove_method, "the second half; the Authorizer is asked there"},
        p2p::OpenProtocol{attachment_method,
                          "newcomers need the tokenizer before they can take part; each question "
                          "carries a proof for the Authorizer"},
    };
    return protocols;
}

Ok RunGate::admits(const PeerId& from, std::string_view method) const {
    if (has(stranger_protocols(), method) || has(also_open_, method)) return {};
    if (is_closed_)
        return make_error(ErrorKind::denied, "this peer takes part in the run no longer");
    if (table_.is_member(from)) {
        if (const auto objection = authorizer_.objection(from)) return *objection;
        return {};
    }
    if (!authorizer_.lets_everybody_in()) return not_greeted();
    const std::string why = why_kept_out_(from);
    if (!why.empty()) return make_error(ErrorKind::denied, "{}", why);
    return {};
}

}  // namespace dedloc::membership
