#include "dedloc/tasks/swav/swav_pictures.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "dedloc/base/log.h"
#include "dedloc/base/random.h"
#include "dedloc/tasks/fashion_mnist.h"
#include "dedloc/tasks/picture_folder.h"

namespace dedloc::tasks {
namespace {

constexpr std::uint32_t held_out_least = 2;               // one to be a neighbour, one to ask
constexpr std::uint32_t undecodable_in_a_row_max = 1000;  // then the folder is gone, or damaged
constexpr std::uint64_t undecodable_named_max = 20;       // in lines of the log

class IdxPictures final : public SwavPictures {
  public:
    explicit IdxPictures(FashionMnist data) : data_(std::move(data)) {}

    std::uint32_t training_count() const override { return data_.train.count; }
    std::uint32_t held_out_count() const override { return data_.test.count; }
    Result<images::Picture> training(std::uint32_t index) const override {
        return picture(data_.train, index);
    }
    Result<images::Picture> held_out(std::uint32_t index) const override {
        return picture(data_.test, index);
    }
    std::uint32_t held_out_label(std::uint32_t index) const override {
        return data_.test.labels[index];
    }
    std::uint32_t classes_count() const override { return tasks::classes_count; }
    std::string description() const override {
        return fmt::format(
            "fashion-mnist ({} pictures, {} held out)", training_count(), held_out_count());
    }

  private:
    static images::Picture picture(const LabelledImages& from, std::uint32_t index) {
        images::Picture picture = images::Picture::of_size(image_side, image_side);
        const std::uint8_t* grey = from.pixels.data() + std::size_t{index} * image_pixels;
        for (std::size_t i = 0; i < image_pixels; ++i)
            std::fill_n(picture.rgb.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, grey[i]);
        return picture;
    }

    FashionMnist data_;
};

class FolderPictures final : public SwavPictures {
  public:
    FolderPictures(std::shared_ptr<const images::ImageFolder> folder,
                   HeldOutSplit split,
                   std::string path)
        : folder_(std::move(folder)), split_(std::move(split)), path_(std::move(path)) {}

    std::uint32_t training_count() const override {
        return static_cast<std::uint32_t>(split_.training.size());
    }
    std::uint32_t held_out_count() const override {
        return static_cast<std::uint32_t>(split_.held_out.size());
    }
    Result<images::Picture> training(std::uint32_t index) const override {
        return readable(split_.training, index);
    }
    Result<images::Picture> held_out(std::uint32_t index) const override {
        return readable(split_.held_out, index);
    }
    std::uint32_t held_out_label(std::uint32_t index) const override {
        return folder_->entries()[split_.held_out[index]].label;
    }
    std::uint32_t classes_count() const override {
        return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(folder_->classes().size()));
    }
    std::string pictures_key() const override { return pictures_key_of(*folder_); }
    std::string description() const override {
        return fmt::format("the pictures of {} ({} in {} {}, {} held out{})",
                           path_,
                           training_count(),
                           classes_count(),
                           classes_count() == 1 ? "class" : "classes",
                           held_out_count(),
                           folder_->unreadable_count() > 0
                               ? fmt::format(", {} unreadable", folder_->unreadable_count())
                               : "");
    }

  private:
    Result<images::Picture> readable(const std::vector<std::uint32_t>& among,
                                     std::uint32_t index) const {
        const auto count = static_cast<std::uint32_t>(among.size());
        const std::uint32_t tries = std::min(count, undecodable_in_a_row_max);
        for (std::uint32_t i = 0; i < tries; ++i) {
            auto picture = folder_->picture(among[(index + i) % count]);
            if (picture) return picture;
            tell(picture.error());
        }
        return make_error(ErrorKind::bad_input,
                          "{} pictures of {} in a row cannot be read any more",
                          tries,
                          path_);
    }

    void tell(const Error& error) const {
        const std::uint64_t number = ++undecodable_;
        if (number > undecodable_named_max) return;
        log(LogLevel::warning,
            "tasks",
            "{} in {}; another picture is taken in its place ({} so far{})",
            error.message(),
            path_,
            number,
            number == undecodable_named_max ? "; no more are named" : "");
    }

    std::shared_ptr<const images::ImageFolder> folder_;
    HeldOutSplit split_;
    std::string path_;
    mutable std::atomic<std::uint64_t> undecodable_ = 0;
};

// Where there is no folder, to look at a model: shades and discs in two classes.
class MadeUpPictures final : public SwavPictures {
  public:
    std::uint32_t training_count() const override { return made_up_count; }
    std::uint32_t held_out_count() const override { return made_up_count; }
    Result<images::Picture> training(std::uint32_t index) const override {
        return picture(2 * index);
    }
    Result<images::Picture> held_out(std::uint32_t index) const override {
        return picture(2 * index + 1);
    }
    std::uint32_t held_out_label(std::uint32_t index) const override { return index % 2; }
    std::uint32_t classes_count() const override { return 2; }
    std::string description() const override { return "made-up pictures, as --data is not given"; }

  private:
    static constexpr std::uint32_t made_up_count = 64;
    static constexpr std::uint32_t made_up_side = 256;

    static images::Picture picture(std::uint32_t number) {
        Random random(number);
        images::Picture picture = images::Picture::of_size(made_up_side, made_up_side);
        const auto shade = static_cast<std::uint8_t>(random.below(256));
        for (std::uint32_t y = 0; y < made_up_side; ++y)
            for (std::uint32_t x = 0; x < made_up_side; ++x) {
                std::uint8_t* pixel = picture.at(x, y);
                pixel[0] = static_cast<std::uint8_t>(x);
                pixel[1] = static_cast<std::uint8_t>(y);
                pixel[2] = shade;
            }
        const std::uint64_t discs = random.between(5, 40);
        for (std::uint64_t i = 0; i < discs; ++i) add_disc(picture, random);
        return picture;
    }
    static void add_disc(images::Picture& picture, Random& random) {
        const std::int64_t radius = random.between(4, 40);
        const std::int64_t left = random.between(0, made_up_side);
        const std::int64_t top = random.between(0, made_up_side);
        const Bytes colour = random.bytes(3);
        for (std::int64_t y = top - radius; y < top + radius; ++y)
            for (std::int64_t x = left - radius; x < left + radius; ++x) {
                const bool inside = x >= 0 && y >= 0 && x < made_up_side && y < made_up_side;
                const std::int64_t far = (x - left) * (x - left) + (y - top) * (y - top);
                if (!inside || far > radius * radius) continue;
                std::ranges::copy(
                    colour,
                    picture.at(static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y)));
            }
    }
};

HeldOutSplit split_of(const images::ImageFolder& folder, const SwavKeys& keys, std::uint64_t seed) {
    const auto& entries = folder.entries();
    HeldOutSplit split;
    for (std::uint32_t i = 0; i < entries.size(); ++i)
        (entries[i].held_out ? split.held_out : split.training).push_back(i);
    if (!split.held_out.empty()) return split;
    return split_held_out(
        static_cast<std::uint32_t>(entries.size()), keys.held_out, keys.held_out_max, seed);
}

}  // namespace

HeldOutSplit split_held_out(std::uint32_t count,
                            double share,
                            std::uint64_t held_out_max,
                            std::uint64_t seed) {
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    Random random = Random(seed).fork("held-out pictures");
    random.shuffle(order);
    const auto wanted = static_cast<std::uint64_t>(std::ceil(share * count));
    const auto taken = static_cast<std::ptrdiff_t>(
        std::min<std::uint64_t>({std::max<std::uint64_t>(wanted, held_out_least),
                                 std::max<std::uint64_t>(held_out_max, held_out_least),
                                 count}));
    HeldOutSplit split;
    split.held_out.assign(order.begin(), order.begin() + taken);
    split.training.assign(order.begin() + taken, order.end());
    std::ranges::sort(split.training);
    return split;
}

Result<std::shared_ptr<const SwavPictures>> open_swav_pictures(const run::TaskConfig& task,
                                                               const TaskOptions& options) {
    if (task.data == swav_idx_data) {
        const std::string directory =
            options.data_directory.empty() ? fashion_mnist_directory : options.data_directory;
        DEDLOC_TRY(FashionMnist data, load_fashion_mnist(directory));
        return std::shared_ptr<const SwavPictures>(std::make_shared<IdxPictures>(std::move(data)));
    }
    if (options.unprepared && options.data_directory.empty())
        return std::shared_ptr<const SwavPictures>(std::make_shared<MadeUpPictures>());
    const SwavKeys keys = swav_keys(task);
    DEDLOC_TRY(auto folder, open_pictures(options, "swav.pictures", keys.pictures));
    HeldOutSplit split = split_of(*folder, keys, task.seed);
    if (split.training.empty())
        return make_error(ErrorKind::bad_input,
                          "{} pictures in {} are too few: at least {} are held out, and none is "
                          "left to train on",
                          folder->entries().size(),
                          options.data_directory,
                          split.held_out.size());
    return std::shared_ptr<const SwavPictures>(std::make_shared<FolderPictures>(
        std::move(folder), std::move(split), options.data_directory));
}

}  // namespace dedloc::tasks
