// certificates.log: every certificate a peer accepted, for `dedloc audit`.
//
// Records of u32 LE length ‖ certificate; a torn tail is ignored by readers, and cut off by the
// next process before it appends. Appended by the network thread's task through the workers.
//
// A certificate is some 50 kB with 24 peers, and runs have ten thousands of steps: when a file is
// full the log goes on in the next, certificates.1.log, certificates.2.log, …, so that a process
// that begins reads one of them and never the whole, and when there are too many the oldest goes.

#pragma once
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/node.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::replica {

inline constexpr const char* certificates_file = "certificates.log";
inline constexpr std::size_t certificate_file_bytes_max = std::size_t{64} << 20;
inline constexpr std::size_t certificate_files_max = 16;

class CertificateLog {
  public:
    struct Limits {
        std::size_t file_bytes = certificate_file_bytes_max;
        std::size_t files = certificate_files_max;
    };

    explicit CertificateLog(runtime::Node node) : CertificateLog(node, Limits()) {}
    CertificateLog(runtime::Node node, Limits limits);
    void start();
    Task<void> stop();  // writes what is queued, then ends
    void add(const Bytes& certificate);

  private:
    // The file that is appended to.
    struct Newest {
        std::uint64_t number = 0;
        std::size_t bytes = 0;
    };
    static Result<Newest> find_newest(runtime::Disk& disk);
    static Result<Newest> append(runtime::Disk& disk,
                                 std::optional<Newest> newest,
                                 const Limits& limits,
                                 ByteView bytes);
    Task<void> write_loop();
    Task<void> write_queued();

    runtime::Node node_;
    Limits limits_;
    std::deque<Bytes> queue_;
    std::optional<Newest> newest_;  // none: to be looked for, its tail may be torn
    runtime::Event wake_;
    runtime::Scope scope_;
};

// The names in a folder that are its log's, oldest first.
std::vector<std::string> certificate_files(const std::vector<std::string>& names);

// The certificates of a log file's bytes.
std::vector<Bytes> read_certificate_log(ByteView file);

}  // namespace dedloc::replica
