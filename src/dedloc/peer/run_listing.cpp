#include "dedloc/peer/run_listing.h"

#include "dedloc/collab/run_names.h"

namespace dedloc::peer {

void list_run(collab::Node& node,
              const collab::CollaborationService& service,
              const collab::Invitation& invitation) {
    node.join_table();
    collab::NamedRun always;
    always.run = run::run_hash(invitation.run);
    always.open = invitation.secret.empty();
    const TimePoint begun = node.clock().now();
    always.task = invitation.run.task.kind;
    node.add<collab::RunNameService>(node, invitation.run.name, [&node, &service, always, begun] {
        collab::NamedRun now = always;
        now.begun = node.dht()->wall_now() - to_seconds(node.clock().now() - begun);
        now.addresses = node.host().addresses();
        if (now.addresses.size() > collab::named_addresses_max)
            now.addresses.resize(collab::named_addresses_max);
        for (std::string& address : now.addresses) address += "/p2p/" + node.id().text();
        now.step = service.collaboration().status().step;
        now.peers = service.collaboration().peers().size();
        return now;
    });
}

}  // namespace dedloc::peer
