#include "dedloc/validation/evidence_log.h"

#include "dedloc/base/log.h"

namespace dedloc::validation {

void EvidenceLog::begin(std::string run_file) {
    scope_.spawn("write evidence", write("run.toml", to_bytes(run_file)));
}

void EvidenceLog::add(const robust::Order& order, const Bytes& evidence) {
    if (order.kind == robust::OrderKind::vouch || kept_.size() >= evidence_files_max) return;
    if (!kept_.insert(order.evidence).second) return;
    scope_.spawn("write evidence", write(order.evidence.hex(), evidence));
}

Task<void> EvidenceLog::write(std::string name, Bytes bytes) {
    auto work = [disk = &node_.disk,
                 path = fmt::format("{}/{}", evidence_folder, name),
                 bytes = std::move(bytes)] { return disk->write_atomically(path, bytes); };
    const Result<void> written = co_await node_.workers.run(std::move(work));
    if (!written)
        log(LogLevel::warning, "collab", "evidence is not kept: {}", written.error().message());
}

}  // namespace dedloc::validation
