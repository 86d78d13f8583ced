// Where SwAV's pictures come from: a folder, or Fashion-MNIST. Training pictures and held-out ones
// are different pictures. No libtorch.
//
// A folder's held-out pictures are a share of each run's choosing (swav.held_out), drawn by the
// run's seed; with captions.jsonl, those that are marked there. Fashion-MNIST's are its 10,000 test
// pictures.
//
// With TaskOptions::unprepared and no folder they are made up.
//
// A training picture that cannot be decoded is replaced by the one behind it, counted, and named
// in a warning (the first ones), so that a sample stays the same whoever computes it.
//
// Thread: any. Errors: as open_pictures() and load_fashion_mnist(); bad_input when pictures cannot
// be decoded any more.

#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/images/picture.h"
#include "dedloc/tasks/swav/swav_section.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

class SwavPictures {
  public:
    virtual ~SwavPictures() = default;
    virtual std::uint32_t training_count() const = 0;
    virtual std::uint32_t held_out_count() const = 0;
    virtual Result<images::Picture> training(std::uint32_t index) const = 0;
    virtual Result<images::Picture> held_out(std::uint32_t index) const = 0;
    virtual std::uint32_t held_out_label(std::uint32_t index) const = 0;
    virtual std::uint32_t classes_count() const = 0;  // 1: they have none
    // The value for the run file (pictures_key.h); empty where the pictures are no folder.
    virtual std::string pictures_key() const { return {}; }
    virtual std::string description() const = 0;
};

Result<std::shared_ptr<const SwavPictures>> open_swav_pictures(const run::TaskConfig& task,
                                                               const TaskOptions& options);

// The indices [0, count) parted by the seed: held-out ones first. The same everywhere.
struct HeldOutSplit {
    std::vector<std::uint32_t> held_out;
    std::vector<std::uint32_t> training;
};
HeldOutSplit split_held_out(std::uint32_t count,
                            double share,
                            std::uint64_t held_out_max,
                            std::uint64_t seed);

}  // namespace dedloc::tasks
