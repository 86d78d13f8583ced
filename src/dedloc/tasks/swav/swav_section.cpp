#include "dedloc/tasks/swav/swav_section.h"

namespace dedloc::tasks {
namespace {

constexpr SwavSizes all_sizes[] = {
    {.name = "resnet50",
     .features = 2048,
     .hidden = 2048,
     .width = 128,
     .prototypes = 3000,
     .trunk_parameters = 23'508'032 - 3 * 49 * 64,
     .first_filters = 64,
     .filter_elements = 49,
     .norm_channels = 26'560},
    {.name = "small",
     .features = 128,
     .hidden = 128,
     .width = 128,
     .prototypes = 60,
     .trunk_parameters = 32 * 64 * 9 + 64 * 128 * 9 + 2 * (32 + 64 + 128),
     .first_filters = 32,
     .filter_elements = 9,
     .norm_channels = 32 + 64 + 128}};

Ok check_scales(const char* which, double low, double high) {
    if (low <= high) return {};
    return make_error(ErrorKind::bad_input,
                      "swav.{}_scale_min ({}) must not exceed swav.{}_scale_max ({})",
                      which,
                      low,
                      which,
                      high);
}

}  // namespace

SwavKeys swav_keys(const run::TaskConfig& task) {
    return run::keys_of<SwavKeys>(task, swav_section_name);
}

std::uint32_t swav_channels(const run::TaskConfig& task) {
    return task.data == swav_idx_data && task.model == "small" ? 1 : 3;
}

Ok check_swav(const run::TaskConfig& task) {
    if (!find_swav_sizes(task.model))
        return make_error(ErrorKind::bad_input,
                          "task.model: SwAV has no '{}'; it knows resnet50, small",
                          task.model);
    if (task.data != swav_folder_data && task.data != swav_idx_data)
        return make_error(ErrorKind::bad_input,
                          "task.data: SwAV has no '{}'; it knows \"{}\" (of pictures, given with "
                          "--data) and \"{}\"",
                          task.data,
                          swav_folder_data,
                          swav_idx_data);
    const SwavKeys keys = swav_keys(task);
    DEDLOC_TRY_VOID(check_scales("large", keys.large_scale_min, keys.large_scale_max));
    DEDLOC_TRY_VOID(check_scales("small", keys.small_scale_min, keys.small_scale_max));
    return check_pictures_key("swav.pictures", keys.pictures);
}

Ok check_swav_run(const run::RunFile& run) {
    if (run.batch.micro == run::micro_auto)
        return make_error(ErrorKind::bad_input,
                          "SwAV's loss spreads the samples of a micro-batch over the prototypes, "
                          "so its size is part of the run: write a number for batch.micro, such "
                          "as 64");
    if (run.robust && swav_keys(run.task).queue > 0)
        return make_error(ErrorKind::bad_input,
                          "[robust] and swav.queue exclude each other: nobody can compute again "
                          "what depends on a queue that a trainer keeps to itself; write queue = "
                          "0");
    return {};
}

const SwavSizes* find_swav_sizes(std::string_view model) {
    for (const SwavSizes& sizes : all_sizes)
        if (model == sizes.name) return &sizes;
    return nullptr;
}

std::uint64_t SwavSizes::parameters_count(std::uint64_t channels) const {
    const std::uint64_t head = features * hidden + hidden + 2 * hidden + hidden * width + width;
    return trunk_parameters + channels * first_filters * filter_elements + head +
           prototypes * width;
}

}  // namespace dedloc::tasks
