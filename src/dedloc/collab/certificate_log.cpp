#include "dedloc/collab/certificate_log.h"

#include "dedloc/base/log.h"

namespace dedloc::collab {
namespace {

// Gives `take` every whole certificate; how many bytes of the file they are.
template <typename Take>
std::size_t walk(ByteView file, Take take) {
    std::size_t whole = 0;
    base::ByteReader reader(file);
    for (;;) {
        const auto size = reader.u32_le();
        if (!size) return whole;
        const auto certificate = reader.take(*size);
        if (!certificate) return whole;
        take(*certificate);
        whole += 4 + certificate->size();
    }
}

// What a crash left behind an append would make everything after it unreadable.
Ok cut_torn_tail(runtime::Disk& disk) {
    const auto file = disk.read(certificates_file);
    if (!file) {
        if (file.error().kind() == ErrorKind::not_found) return {};
        return file.error();
    }
    const std::size_t whole = walk(*file, [](ByteView) {});
    if (whole == file->size()) return {};
    return disk.write_atomically(certificates_file, ByteView(*file).first(whole));
}

}  // namespace

CertificateLog::CertificateLog(runtime::Node node)
    : node_(node), wake_(node.executor), scope_(node.executor) {}

void CertificateLog::start() { scope_.spawn("write certificates", write_loop()); }

Task<void> CertificateLog::stop() {
    co_await scope_.stop();
    co_await write_queued();
}

void CertificateLog::add(const Bytes& certificate) {
    queue_.push_back(certificate);
    wake_.pulse();
}

Task<void> CertificateLog::write_loop() {
    for (;;) {
        if (queue_.empty()) co_await wake_.wait();
        co_await write_queued();
    }
}

Task<void> CertificateLog::write_queued() {
    if (queue_.empty()) co_return;
    Bytes bytes;
    for (const Bytes& certificate : queue_) {
        base::put_u32_le(bytes, static_cast<std::uint32_t>(certificate.size()));
        base::append(bytes, certificate);
    }
    queue_.clear();
    auto work = [disk = &node_.disk, bytes = std::move(bytes), cut = !tail_is_whole_]() -> Ok {
        if (cut) DEDLOC_TRY_VOID(cut_torn_tail(*disk));
        return disk->append_durably(certificates_file, bytes);
    };
    const Result<void> written = co_await node_.workers.run(std::move(work));
    tail_is_whole_ = written.has_value();
    if (!written)
        log(LogLevel::warning, "collab", "certificates.log: {}", written.error().message());
}

std::vector<Bytes> read_certificate_log(ByteView file) {
    std::vector<Bytes> certificates;
    walk(file, [&certificates](ByteView one) { certificates.push_back(to_bytes(one)); });
    return certificates;
}

}  // namespace dedloc::collab
