// certificates.log: every certificate a peer accepted, for `dedloc lab audit`.
//
// Records of u32 LE length ‖ certificate; a torn tail is ignored by readers, and cut off by the
// next process before it appends. Appended by the network thread's task through the workers; bytes
// on disk grow by one certificate a decision.

#pragma once
#include <deque>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/node.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::collab {

inline constexpr const char* certificates_file = "certificates.log";

class CertificateLog {
  public:
    explicit CertificateLog(runtime::Node node);
    void start();
    Task<void> stop();  // writes what is queued, then ends
    void add(const Bytes& certificate);

  private:
    Task<void> write_loop();
    Task<void> write_queued();

    runtime::Node node_;
    std::deque<Bytes> queue_;
    bool tail_is_whole_ = false;
    runtime::Event wake_;
    runtime::Scope scope_;
};

// The certificates of a log file's bytes.
std::vector<Bytes> read_certificate_log(ByteView file);

}  // namespace dedloc::collab
