// AdmissionService: what a peer of an invited run does for admission beside taking part.
//
//   its own token   renewed at half of its time, from any organiser that answers, and kept on disk
//   revocations     passed on to all members, each once; a signed one from anybody counts
//   an organiser    answers newcomers and those who renew (Issuer); a co-organiser begins to do so
//                   when its token comes with a delegation
//
// Thread: the network thread. Limits: those of Issuer and TokenAuthorizer.

#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/admission/admission_message.h"
#include "dedloc/admission/issuer.h"
#include "dedloc/admission/token_authorizer.h"
#include "dedloc/events/teller.h"
#include "dedloc/p2p/handlers.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/node.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::admission {

inline constexpr Duration admission_look_interval = std::chrono::seconds(1);
inline constexpr Duration renewal_pause =
    std::chrono::seconds(20);  // until organisers are asked again

class AdmissionService {
  public:
    struct Callbacks {
        std::function<std::vector<PeerId>()> members;     // live ones
        std::function<std::vector<PeerId>()> organisers;  // those of them that let people in
        std::function<void()> part_from_revoked;          // from members, at once
        // A delegation came: the issuer that this peer is now. Null: it cannot be one.
        std::function<std::shared_ptr<Issuer>(const admission::Delegation&, const std::string&)>
            make_issuer;
    };

    // `issuer`: null for a peer that lets nobody in.
    AdmissionService(runtime::Node node,
                     p2p::Host& host,
                     std::shared_ptr<TokenAuthorizer> authorizer,
                     std::shared_ptr<Issuer> issuer,
                     events::Teller& teller,
                     Callbacks callbacks);

    // Takes the own token, or makes one where this peer is an organiser. Errors: as Issuer.
    Ok start(Admitted own);
    Task<void> stop();
    bool lets_in() const { return issuer_ != nullptr; }
    // A member came: it may not have heard of everything.
    void greet(const PeerId& member);
    // A certificate orders that this person is out.
    void obey(const std::string& person);

  private:
    Task<Result<Bytes>> on_question(PeerId from, Bytes request);
    Task<Result<Bytes>> on_revoked(PeerId from, Bytes request);
    Task<void> poll_loop();
    Task<void> renew();
    Task<void> exchange_revocations(PeerId to);
    bool receive_revocations(const std::vector<Bytes>& revocations);
    void receive_token(const Admitted& admitted);
    void receive_own_token();
    void receive_delegation(const admission::Delegation& delegation, const std::string& name);
    void spread();
    std::vector<Bytes> known_revocations() const;
    void tell_revoked(const std::string& person);

    runtime::Node node_;
    p2p::Host& host_;
    std::shared_ptr<TokenAuthorizer> authorizer_;
    std::shared_ptr<Issuer> issuer_;
    events::Teller& teller_;
    Callbacks callbacks_;
    TimePoint next_renewal_;
    bool renewal_failed_ = false;  // which was told
    p2p::Handlers handlers_;
    runtime::Scope scope_;
};

}  // namespace dedloc::admission
