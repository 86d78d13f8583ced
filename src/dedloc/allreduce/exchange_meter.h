// ExchangeMeter: what this member's link gave while one plan was exchanged.
//
// Thread: the network thread. Cost: a look at the link every 50 ms.

#pragma once
#include <map>
#include <memory>
#include <vector>

#include "dedloc/allreduce/transfer.h"
#include "dedloc/links/link_meter.h"
#include "dedloc/links/rates.h"

namespace dedloc::allreduce {

// A member sends us this on one stream.
struct Inflow : links::Flow {
    TimePoint begun;
    std::size_t parts = 0;
};

class ExchangeMeter {
  public:
    explicit ExchangeMeter(const Transfer& transfer)
        : transfer_(transfer), link_(transfer.environment.host, links::link_busiest_share) {}

    // Looks at the link until the round's deadline, or until no more is measured.
    Task<void> watch() {
        constexpr Duration link_look = 50ms;
        while (measures_ && transfer_.now() < transfer_.round_deadline()) {
            link_.observe(transfer_.now());
            co_await transfer_.environment.node.clock.sleep_for(link_look);
        }
    }
    void came(std::size_t bytes) { received_.add(bytes, transfer_.now()); }
    void flows_in(std::uint32_t member, std::shared_ptr<Inflow> inflow) {
        inflows_[member] = std::move(inflow);
    }
    // To owners, as they say; of an aggregator: to all.
    void flowed_out(std::uint32_t member, const links::Flow& flow) { outflows_[member] = flow; }

    // Returns what the link gave until now; no more is measured.
    links::LinkRates end() {
        measures_ = false;
        std::vector<links::Flow> out;
        for (const auto& [owner, flow] : outflows_) out.push_back(flow);
        std::vector<links::Flow> in;
        for (const auto& [member, flow] : inflows_) in.push_back(*flow);
        const double up = link_.up().bytes_per_s();
        const double down = link_.down().bytes_per_s();
        return {.upload = up > 0 ? up : links::link_rate(std::move(out)),
                .download =
                    down > 0 ? down
                             : std::max(links::link_rate(std::move(in)), received_.bytes_per_s()),
                .upload_bytes = link_.up().bytes(),
                .download_bytes = std::max(link_.down().bytes(), received_.bytes())};
    }

  private:
    const Transfer& transfer_;
    std::map<std::uint32_t, links::Flow> outflows_;
    std::map<std::uint32_t, std::shared_ptr<Inflow>> inflows_;  // from members
    links::Throughput received_;
    links::LinkMeter link_;  // with all that goes over it beside this exchange
    bool measures_ = true;
};

}  // namespace dedloc::allreduce
