#include "dedloc/tasks/swav/swav_crops.h"

#include <mutex>

#include "dedloc/tasks/sample_order.h"

namespace dedloc::tasks {
namespace {

constexpr std::size_t samples_ahead = 128;  // 60 MB where they are ImageNet's

// An order for several threads: it remembers the epoch that was asked for last.
class SharedOrder {
  public:
    SharedOrder(std::uint64_t seed, const PeerId& peer, std::uint32_t count)
        : order_(seed, peer, count) {}
    std::uint32_t index(std::uint64_t number) {
        const std::lock_guard lock(mutex_);
        return order_.index(number);
    }

  private:
    std::mutex mutex_;
    SampleOrder order_;
};

void add_crops(const images::Picture& picture,
               const images::CropOptions& options,
               std::uint64_t count,
               std::uint32_t channels,
               Random& random,
               Bytes& out) {
    out.reserve(out.size() + count * channels * options.side * options.side);
    for (std::uint64_t i = 0; i < count; ++i)
        append_planes(images::random_crop(picture, options, random), channels, out);
}

}  // namespace

void append_planes(const images::Picture& picture, std::uint32_t channels, Bytes& out) {
    const std::size_t pixels = std::size_t{picture.width} * picture.height;
    for (std::size_t channel = 0; channel < channels; ++channel)
        for (std::size_t i = 0; i < pixels; ++i) out.push_back(picture.rgb[3 * i + channel]);
}

SwavSample crops_of(const images::Picture& picture,
                    const SwavKeys& keys,
                    std::uint32_t channels,
                    Random& random) {
    images::CropOptions large{.side = static_cast<std::uint32_t>(keys.large_side),
                              .scale_min = keys.large_scale_min,
                              .scale_max = keys.large_scale_max,
                              .colour = keys.colour,
                              .grey = channels == 1 ? 0 : keys.grey,
                              .blur = keys.blur,
                              .strength = keys.strength};
    images::CropOptions small = large;
    small.side = static_cast<std::uint32_t>(keys.small_side);
    small.scale_min = keys.small_scale_min;
    small.scale_max = keys.small_scale_max;
    SwavSample sample;
    add_crops(picture, large, keys.large_crops, channels, random, sample.large);
    add_crops(picture, small, keys.small_crops, channels, random, sample.small);
    return sample;
}

SwavCrops::SwavCrops(std::shared_ptr<const SwavPictures> pictures,
                     const SwavKeys& keys,
                     std::uint32_t channels,
                     std::uint64_t seed,
                     const PeerId& peer,
                     std::size_t threads) {
    const auto order = std::make_shared<SharedOrder>(seed, peer, pictures->training_count());
    samples_ = std::make_unique<Samples>(
        [=](std::uint64_t number) -> Result<SwavSample> {
            DEDLOC_TRY(const images::Picture picture, pictures->training(order->index(number)));
            Random random = images::random_of_sample(seed, peer, number);
            return crops_of(picture, keys, channels, random);
        },
        threads,
        samples_ahead);
}

Result<SwavSample> SwavCrops::take(std::uint64_t number) { return samples_->take(number); }

}  // namespace dedloc::tasks
