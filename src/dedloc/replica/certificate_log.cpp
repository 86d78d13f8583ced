#include "dedloc/replica/certificate_log.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "dedloc/base/log.h"

namespace dedloc::replica {
namespace {

constexpr std::string_view name_begins = "certificates.";
constexpr std::string_view name_ends = ".log";

std::string file_name(std::uint64_t number) {
    if (number == 0) return certificates_file;
    return fmt::format("{}{}{}", name_begins, number, name_ends);
}

// Which file of the log has that name, if any.
std::optional<std::uint64_t> number_of(std::string_view name) {
    if (name == certificates_file) return 0;
    if (!name.starts_with(name_begins) || !name.ends_with(name_ends)) return std::nullopt;
    name.remove_prefix(name_begins.size());
    name.remove_suffix(std::min(name_ends.size(), name.size()));
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool whole = error == std::errc() && end == name.data() + name.size() && number > 0;
    return whole ? std::optional(number) : std::nullopt;
}

std::vector<std::uint64_t> numbers_of(const std::vector<std::string>& names) {
    std::vector<std::uint64_t> numbers;
    for (const std::string& name : names)
        if (const auto number = number_of(name)) numbers.push_back(*number);
    std::ranges::sort(numbers);
    return numbers;
}

// None where the folder is not there yet.
Result<std::vector<std::uint64_t>> numbers_in(runtime::Disk& disk) {
    const auto names = disk.list("");
    if (names) return numbers_of(*names);
    if (names.error().kind() == ErrorKind::not_found) return std::vector<std::uint64_t>();
    return names.error();
}

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

// Cuts off what a crash left behind an append, which would make everything after it unreadable.
// Returns the length of the file then.
Result<std::size_t> cut_torn_tail(runtime::Disk& disk, const std::string& name) {
    DEDLOC_TRY(const Bytes file, disk.read(name));
    const std::size_t whole = walk(file, [](ByteView) {});
    if (whole != file.size())
        DEDLOC_TRY_VOID(disk.write_atomically(name, ByteView(file).first(whole)));
    return whole;
}

}  // namespace

CertificateLog::CertificateLog(runtime::Node node, Limits limits)
    : node_(node), limits_(limits), wake_(node.executor), scope_(node.executor) {}

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

Result<CertificateLog::Newest> CertificateLog::find_newest(runtime::Disk& disk) {
    DEDLOC_TRY(const std::vector<std::uint64_t> numbers, numbers_in(disk));
    if (numbers.empty()) return Newest();
    DEDLOC_TRY(const std::size_t bytes, cut_torn_tail(disk, file_name(numbers.back())));
    return Newest{numbers.back(), bytes};
}

Result<CertificateLog::Newest> CertificateLog::append(runtime::Disk& disk,
                                                      std::optional<Newest> newest,
                                                      const Limits& limits,
                                                      ByteView bytes) {
    if (!newest) {
        DEDLOC_TRY(newest, find_newest(disk));
    }
    const bool is_full = newest->bytes > 0 && newest->bytes + bytes.size() > limits.file_bytes;
    if (is_full) newest = Newest{newest->number + 1, 0};
    DEDLOC_TRY_VOID(disk.append_durably(file_name(newest->number), bytes));
    newest->bytes += bytes.size();
    if (!is_full) return *newest;
    DEDLOC_TRY(const std::vector<std::uint64_t> numbers, numbers_in(disk));
    for (std::size_t i = 0; i + limits.files < numbers.size(); ++i)
        (void)disk.remove(file_name(numbers[i]));  // one that stays takes its place and no more
    return *newest;
}

Task<void> CertificateLog::write_queued() {
    if (queue_.empty()) co_return;
    Bytes bytes;
    for (const Bytes& certificate : queue_) {
        base::put_u32_le(bytes, static_cast<std::uint32_t>(certificate.size()));
        base::append(bytes, certificate);
    }
    queue_.clear();
    auto work = [disk = &node_.disk, bytes = std::move(bytes), newest = newest_, limits = limits_] {
        return append(*disk, newest, limits, bytes);
    };
    const Result<Newest> written = co_await node_.workers.run(std::move(work));
    newest_ = written ? std::optional(*written) : std::nullopt;
    if (!written)
        log(LogLevel::warning, "collab", "certificates.log: {}", written.error().message());
}

std::vector<std::string> certificate_files(const std::vector<std::string>& names) {
    std::vector<std::string> files;
    for (const std::uint64_t number : numbers_of(names)) files.push_back(file_name(number));
    return files;
}

std::vector<Bytes> read_certificate_log(ByteView file) {
    std::vector<Bytes> certificates;
    walk(file, [&certificates](ByteView one) { certificates.push_back(to_bytes(one)); });
    return certificates;
}

}  // namespace dedloc::replica
