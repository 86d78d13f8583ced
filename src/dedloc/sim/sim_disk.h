// A disk in memory that survives kills and can fail on demand.
//
// The content belongs to the machine; every process that is started on it gets its own SimDisk,
// which refuses everything once that process was killed.
//
// Thread: the world's.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "dedloc/base/random.h"
#include "dedloc/runtime/disk.h"

namespace dedloc::sim {

struct DiskContent {
    std::map<std::string, Bytes> files;
    bool full = false;
    // The next write that must be durable kills its process half-way.
    bool crash_next_write = false;
};

class SimDisk final : public runtime::Disk {
  public:
    // `crash` kills the process that owns this disk.
    SimDisk(std::shared_ptr<DiskContent> content, Random random, std::function<void()> crash);

    Result<Bytes> read(const std::string& path) override;
    Result<void> write_atomically(const std::string& path, ByteView bytes) override;
    Result<void> append_durably(const std::string& path, ByteView bytes) override;
    Result<void> remove(const std::string& path) override;
    Result<std::vector<std::string>> list(const std::string& folder) override;

    // Writes fail with "no space left" while set.
    void set_full(bool full) { content_->full = full; }
    // The next append leaves a random prefix of its bytes, or the next atomic write happens or
    // not, and the process is killed there; the caller never learns which.
    void crash_at_next_write(bool crash = true) { content_->crash_next_write = crash; }
    void disconnect() { dead_ = true; }  // the process is gone: nothing reaches the disk any more
    const std::map<std::string, Bytes>& files() const { return content_->files; }

  private:
    Ok before_write(const std::string& path);
    bool crashes();

    std::shared_ptr<DiskContent> content_;
    Random random_;
    std::function<void()> crash_;
    bool dead_ = false;
};

}  // namespace dedloc::sim
