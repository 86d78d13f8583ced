// EvidenceLog: what bans, eliminations and probation rest on, one file each in the peer's folder,
// named by the digest that the order has, beside the run file whose rules they follow: for
// `dedloc audit`.
//
//   evidence/run.toml
//   evidence/<digest in hex>
//
// Bounds: evidence_files_max files; then no more are written. Thread: the network thread; files are
// written by workers. Lifetime: stop() before destruction.

#pragma once
#include <set>
#include <string>

#include "dedloc/base/bytes.h"
#include "dedloc/robust/orders.h"
#include "dedloc/runtime/node.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::validation {

inline constexpr const char* evidence_folder = "evidence";
inline constexpr std::size_t evidence_files_max = 2 * robust::orders_max;

class EvidenceLog {
  public:
    explicit EvidenceLog(runtime::Node node) : node_(node), scope_(node_.executor) {}

    void begin(std::string run_file);
    void add(const robust::Order& order, const Bytes& evidence);
    Task<void> stop() { return scope_.stop(); }

  private:
    Task<void> write(std::string name, Bytes bytes);

    runtime::Node node_;
    std::set<Digest> kept_;
    runtime::Scope scope_;
};

}  // namespace dedloc::validation
