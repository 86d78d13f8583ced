#include "dedloc/collab/stranger_protocols.h"

#include "dedloc/admission/admission_message.h"
#include "dedloc/data/piece_exchange.h"
#include "dedloc/dht/node.h"

namespace dedloc::collab {

std::vector<p2p::OpenProtocol> stranger_protocols(TableUse use) {
    std::vector<p2p::OpenProtocol> open{
        {admission::admission_method,
         "redeems a code or renews a token; the organiser's book is asked there"},
        {data::have_pieces_method,
         "newcomers need the run's data before they can take part; each question carries a proof "
         "for the Authorizer"},
        {data::pieces_method, "the pieces themselves, with the same proof"}};
    if (use == TableUse::none) return open;
    open.insert(open.end(),
                {{dht::ping_method, "to find runs by name one enters the table"},
                 {dht::find_method, "`dedloc find` looks names of runs up"}});
    if (use == TableUse::store)
        open.insert(open.end(),
                    {{dht::store_method, "hosts of other runs name theirs at a relay"},
                     {dht::watch_method, "as look-ups, without asking again and again"}});
    return open;
}

}  // namespace dedloc::collab
