// [swav]: crops, loss and evaluation of a run that trains SwAV. Defaults are those of DeDLOC's run
// on ImageNet, but for two declared differences: prototypes are frozen until a *global* step (there
// until each trainer's own 5,005th iteration), and no queue is kept (there it began at a step that
// the run did not have). No libtorch.
//
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "dedloc/images/crops.h"
#include "dedloc/run/run_file.h"
#include "dedloc/run/task_section.h"
#include "dedloc/tasks/pictures_key.h"

namespace dedloc::tasks {

inline constexpr const char* swav_section_name = "swav";
inline constexpr const char* swav_folder_data = "folder";
inline constexpr const char* swav_idx_data = "fashion-mnist";

struct SwavKeys {
    std::uint64_t large_crops = 2;  // these assign
    std::uint64_t large_side = 224;
    double large_scale_min = 0.14;
    double large_scale_max = 1;
    std::uint64_t small_crops = 6;
    std::uint64_t small_side = 96;
    double small_scale_min = 0.05;
    double small_scale_max = 0.14;
    double colour = 0.8;
    double grey = 0.2;
    double blur = 0.5;
    double strength = 1;
    double temperature = 0.1;
    double epsilon = 0.03;
    std::uint64_t iterations = 3;
    std::uint64_t prototypes_frozen_until = 39;  // an epoch of ImageNet at 32,768 a step
    std::uint64_t queue = 0;
    std::uint64_t queue_from = 0;
    double held_out = 0.02;
    std::uint64_t held_out_max = 10'000;
    std::uint64_t neighbours = 20;
    std::string pictures = undecided_pictures;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        using run::Integers;
        using run::Numbers;
        const Integers sides{4, images::crop_side_max};
        visit("large_crops", self.large_crops, Integers{2, 8}, "of each picture; these assign");
        visit("large_side", self.large_side, sides, "pixels");
        visit("large_scale_min", self.large_scale_min, Numbers{0.001, 1}, "of the picture's area");
        visit("large_scale_max", self.large_scale_max, Numbers{0.001, 1});
        visit("small_crops", self.small_crops, Integers{0, 32}, "these only predict");
        visit("small_side", self.small_side, sides);
        visit("small_scale_min", self.small_scale_min, Numbers{0.001, 1});
        visit("small_scale_max", self.small_scale_max, Numbers{0.001, 1});
        visit("colour", self.colour, Numbers{0, 1}, "probability that colours are distorted");
        visit("grey", self.grey, Numbers{0, 1});
        visit("blur", self.blur, Numbers{0, 1});
        visit("strength", self.strength, Numbers{0, 2}, "of the colours' distortion");
        visit("temperature", self.temperature, Numbers{0.001, 10});
        visit("epsilon", self.epsilon, Numbers{0.001, 10}, "how soft assignments are");
        visit("iterations", self.iterations, Integers{1, 100}, "of Sinkhorn");
        visit("prototypes_frozen_until",
              self.prototypes_frozen_until,
              Integers{0, 1u << 30},
              "global step");
        visit("queue",
              self.queue,
              Integers{0, 1u << 20},
              "embeddings that each trainer keeps to itself; 0: none");
        visit("queue_from", self.queue_from, Integers{0, 1u << 30}, "global step");
        visit("held_out",
              self.held_out,
              Numbers{0.0001, 0.5},
              "of the folder's pictures: never trained on; neighbours and probe are theirs");
        visit("held_out_max", self.held_out_max, Integers{4, 1u << 20});
        visit("neighbours", self.neighbours, Integers{1, 1000}, "that vote on a picture's class");
        visit("pictures",
              self.pictures,
              run::Text{.bytes_max = pictures_key_bytes_max},
              "fingerprint of the folder; none: of the host's; any: peers' may differ");
    }

    std::uint64_t crops() const { return large_crops + small_crops; }
};

SwavKeys swav_keys(const run::TaskConfig& task);

// [samples, channels, side, side].
std::uint32_t swav_channels(const run::TaskConfig& task);

// bad_input: a model or data that is not known, scales out of order.
Ok check_swav(const run::TaskConfig& task);
// bad_input: batch.micro is "auto", or robust rounds with a queue.
Ok check_swav_run(const run::RunFile& run);

// Sizes of the models, known without libtorch.
struct SwavSizes {
    const char* name;
    std::uint64_t features;  // of the trunk
    std::uint64_t hidden;    // of the head
    std::uint64_t width;     // of an embedding
    std::uint64_t prototypes;
    std::uint64_t trunk_parameters;  // with so many channels …
    std::uint64_t first_filters;     // … of 9 or 49 weights each are added
    std::uint64_t filter_elements;
    std::uint64_t norm_channels;  // of the trunk's BatchNorm layers

    std::uint64_t parameters_count(std::uint64_t channels) const;
    std::uint64_t buffers_count() const { return 2 * (norm_channels + hidden); }
};

// Null: no such model.
const SwavSizes* find_swav_sizes(std::string_view model);

}  // namespace dedloc::tasks
