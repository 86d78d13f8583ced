// A dedloc peer does this with experts when it is told to: serve, call, search, mix
// (tests/interop/README.md).

#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "dedloc/experts/directory.h"
#include "dedloc/experts/remote_experts.h"
#include "dedloc/experts/server.h"
#include "dedloc/runtime/workers.h"

namespace dedloc::interop {

class ExpertRequests {
  public:
    ExpertRequests(p2p::Host& host, dht::DhtNode& table);

    // nullopt: no request of this kind.
    Task<std::optional<Result<nlohmann::json>>> serve(nlohmann::json request);
    Task<void> stop();

  private:
    using Json = nlohmann::json;
    TimePoint deadline() const;
    Task<Result<Json>> host_experts(Json request);
    Task<Result<Json>> parameters(Json request);
    Task<Result<Json>> call(Json request);
    Task<Result<Json>> search(Json request);
    Task<Result<Json>> mix(Json request);

    p2p::Host& host_;
    dht::DhtNode& table_;
    std::unique_ptr<runtime::Workers> device_;
    experts::Directory directory_;
    experts::RemoteExperts remote_;
    std::unique_ptr<experts::ExpertServer> server_;
};

}  // namespace dedloc::interop
