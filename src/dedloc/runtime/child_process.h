// Child processes (of the demo, of the lab): started, watched, signalled, and never left behind.
//
// A child is in a process group of its own, so that the terminal's Ctrl-C reaches only the parent,
// which then ends its children in order; the kernel kills it if the parent dies (PR_SET_PDEATHSIG).
// It inherits no descriptor but the three standard ones, and does not ignore SIGPIPE.
// Children are known by their pid alone. The program's name is a path; PATH is not searched. A
// child that cannot become it says so on standard error and exits with 127. Thread: one (the one
// that started them must live on). Errors: local_fault.

#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::runtime {

struct ChildOptions {
    std::vector<std::string> command;  // program and arguments
    std::string output_file;           // standard output; truncated first
    std::string error_file;
    int niceness = 0;
    // Bytes that the child may allocate (RLIMIT_DATA); 0: as many as we may.
    std::uint64_t data_bytes_max = 0;
};

struct ChildEnd {
    int exit_code = 0;  // of exit()
    int signal = 0;     // that ended it, else 0
};

class ChildProcess {
  public:
    static Result<ChildProcess> start(const ChildOptions& options);
    ~ChildProcess();  // kill_group() and wait, if it still runs
    ChildProcess(ChildProcess&& other) noexcept;
    ChildProcess& operator=(ChildProcess&&) = delete;

    pid_t pid() const { return pid_; }
    bool running();         // reaps it if it has ended
    void send(int signal);  // nothing if it has ended
    void kill_group();      // SIGKILL, also to what it started; nothing if it has ended
    std::optional<ChildEnd> end() const { return end_; }
    // Waits for its end, at most so long; true if it has ended.
    bool wait_for(double seconds);

  private:
    explicit ChildProcess(pid_t pid) : pid_(pid) {}
    pid_t pid_;
    std::optional<ChildEnd> end_;
};

}  // namespace dedloc::runtime
