// OrderNews: what orders of certificates mean to people: who is kept out and why, in words. Each
// new order is told once, and a peer that it bars leaves the membership.
//
// Thread: the network thread.

#pragma once
#include <string>

#include "dedloc/consensus/ledger.h"
#include "dedloc/events/teller.h"
#include "dedloc/membership/membership.h"

namespace dedloc::collab {

class OrderNews {
  public:
    OrderNews(const PeerId& us,
              const consensus::Ledger& ledger,
              membership::Membership& membership,
              events::Teller& teller)
        : us_(us), ledger_(ledger), membership_(membership), teller_(teller) {}

    // The changes are in a decision that was accepted just now.
    void tell(const robust::OrderChanges& changes);
    // Why an order keeps a peer out; empty: none does.
    std::string why_kept_out(const PeerId& peer) const;
    // As the log replaces it by the name of the peer's person, or device.
    std::string name_of(const PeerId& peer) const { return peer.short_text(); }

  private:
    std::string own_word_of(const PeerId& peer) const;
    void tell_of_new(const robust::Order& order);
    void tell_of_ended(const robust::Order& order);
    std::string in_words(const robust::Order& order) const;

    const PeerId us_;
    const consensus::Ledger& ledger_;
    membership::Membership& membership_;
    events::Teller& teller_;
};

}  // namespace dedloc::collab
