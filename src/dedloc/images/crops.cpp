#include "dedloc/images/crops.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dedloc/base/float_environment.h"
#include "dedloc/images/colours.h"
#include "dedloc/security/hash.h"

namespace dedloc::images {
namespace {

constexpr int crop_tries = 10;
constexpr double log_of_aspect = 0.28768207245178090;  // log(4/3)
constexpr double blur_least = 0.1;
constexpr double blur_most = 2;

std::uint8_t rounded(double value) {
    return static_cast<std::uint8_t>(std::clamp(value + 0.5, 0.0, 255.0));
}

// Source pixels that a target pixel is made of, along one axis.
struct Taps {
    std::uint32_t first = 0;
    std::vector<float> weights{};
};

std::vector<Taps> taps_of(double begin, double length, std::uint32_t source, std::uint32_t side) {
    std::vector<Taps> all(side);
    const double scale = length / side;
    const double reach = std::max(scale, 1.0);
    for (std::uint32_t i = 0; i < side; ++i) {
        const double centre = begin + (i + 0.5) * scale;
        const double low = std::clamp(centre - reach, begin, begin + length);
        const double high = std::clamp(centre + reach, begin, begin + length);
        const auto first = std::min(static_cast<std::uint32_t>(std::max(low, 0.0)), source - 1);
        const auto last = std::min(static_cast<std::uint32_t>(std::max(high, 0.0)), source - 1);
        Taps& taps = all[i];
        taps.first = first;
        double sum = 0;
        for (std::uint32_t at = first; at <= last; ++at) {
            const double distance = std::abs(at + 0.5 - centre) / reach;
            const double weight = std::max(0.0, 1 - distance);
            taps.weights.push_back(static_cast<float>(weight));
            sum += weight;
        }
        if (!(sum > 0)) {
            taps.weights.front() = 1;
            sum = 1;
        }
        for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
    }
    return all;
}

// Rows [first, last] of the picture, squeezed to `across.size()` pixels: floats.
std::vector<float> squeezed(const Picture& picture,
                            const std::vector<Taps>& across,
                            std::uint32_t first,
                            std::uint32_t last) {
    const std::size_t side = across.size();
    std::vector<float> out(side * 3 * (last - first + 1));
    for (std::uint32_t y = first; y <= last; ++y) {
        float* row = out.data() + side * 3 * (y - first);
        for (const Taps& taps : across) {
            const std::uint8_t* from = picture.at(taps.first, y);
            float sum[3] = {};
            for (const float weight : taps.weights)
                for (float& channel : sum) channel += weight * static_cast<float>(*from++);
            row = std::copy_n(sum, 3, row);
        }
    }
    return out;
}

Cut random_cut(const Picture& picture, const CropOptions& options, Random& random) {
    const double width = picture.width;
    const double height = picture.height;
    for (int i = 0; i < crop_tries; ++i) {
        const double area = width * height * random.uniform(options.scale_min, options.scale_max);
        const double aspect = exponential_of(random.uniform(-log_of_aspect, log_of_aspect));
        const double across = std::sqrt(area * aspect);
        const double down = std::sqrt(area / aspect);
        if (across > width || down > height || across < 1 || down < 1) continue;
        return {.left = random.uniform() * (width - across),
                .top = random.uniform() * (height - down),
                .width = across,
                .height = down};
    }
    const double side = std::min(width, height);
    return {.left = (width - side) / 2, .top = (height - side) / 2, .width = side, .height = side};
}

}  // namespace

double exponential_of(double x) {
    // e^x = (e^(x / 256))^256; the series of the small one to its twelfth term.
    const double y = x / 256;
    double sum = 1;
    for (int term = 12; term >= 1; --term) sum = 1 + sum * y / term;
    for (int i = 0; i < 8; ++i) sum = sum * sum;
    return sum;
}

Random random_of_sample(std::uint64_t seed, const PeerId& peer, std::uint64_t number) {
    Bytes text = to_bytes("dedloc/crops/1");
    base::put_u64_be(text, seed);
    base::put_u64_be(text, number);
    base::append(text, peer.bytes());
    const Digest digest = security::sha256(text);
    std::uint64_t state = 0;
    for (std::size_t i = 0; i < 8; ++i) state = state << 8 | digest.bytes[i];
    return Random(state);
}

Picture resized(const Picture& picture, const Cut& cut, std::uint32_t side) {
    DEDLOC_CHECK(picture.width > 0 && picture.height > 0 && side > 0);
    const FloatEnvironmentGuard guard;
    const auto across = taps_of(cut.left, cut.width, picture.width, side);
    const auto down = taps_of(cut.top, cut.height, picture.height, side);
    const std::uint32_t first = down.front().first;
    std::uint32_t last = first;
    for (const Taps& taps : down)
        last = std::max<std::uint32_t>(
            last, taps.first + static_cast<std::uint32_t>(taps.weights.size()) - 1);
    const std::vector<float> rows = squeezed(picture, across, first, last);
    Picture out = Picture::of_size(side, side);
    for (std::uint32_t y = 0; y < side; ++y) {
        std::uint8_t* to = out.at(0, y);
        for (std::size_t i = 0; i < std::size_t{3} * side; ++i) {
            float sum = 0;
            for (std::size_t k = 0; k < down[y].weights.size(); ++k)
                sum += down[y].weights[k] *
                       rows[std::size_t{3} * side * (down[y].first - first + k) + i];
            to[i] = rounded(sum);
        }
    }
    return out;
}

Picture flipped(const Picture& picture) {
    Picture out = Picture::of_size(picture.width, picture.height);
    for (std::uint32_t y = 0; y < picture.height; ++y)
        for (std::uint32_t x = 0; x < picture.width; ++x)
            std::copy_n(picture.at(picture.width - 1 - x, y), 3, out.at(x, y));
    return out;
}

Picture blurred(const Picture& picture, double radius) {
    const FloatEnvironmentGuard guard;
    const auto reach = static_cast<std::int64_t>(radius * 3) + 1;
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t k = -reach; k <= reach; ++k) {
        const auto distance = static_cast<double>(k);
        const double exponent = -distance * distance / (2 * radius * radius);
        weights.push_back(exponent < -50 ? 0 : exponential_of(exponent));
        sum += weights.back();
    }
    const auto along = [&](const Picture& from, bool across) {
        Picture out = Picture::of_size(from.width, from.height);
        const std::int64_t last = (across ? from.width : from.height) - 1;
        for (std::uint32_t y = 0; y < from.height; ++y)
            for (std::uint32_t x = 0; x < from.width; ++x) {
                double total[3] = {};
                for (std::int64_t k = -reach; k <= reach; ++k) {
                    const std::int64_t at = (across ? x : y) + k;
                    const auto place =
                        static_cast<std::uint32_t>(std::clamp<std::int64_t>(at, 0, last));
                    const std::uint8_t* pixel = across ? from.at(place, y) : from.at(x, place);
                    for (std::size_t c = 0; c < 3; ++c)
                        total[c] += weights[static_cast<std::size_t>(k + reach)] * pixel[c];
                }
                for (std::size_t c = 0; c < 3; ++c) out.at(x, y)[c] = rounded(total[c] / sum);
            }
        return out;
    };
    return along(along(picture, true), false);
}

Picture random_crop(const Picture& picture, const CropOptions& options, Random& random) {
    const FloatEnvironmentGuard guard;
    Picture crop = resized(picture, random_cut(picture, options, random), options.side);
    if (random.chance(options.flip)) crop = flipped(crop);
    if (random.chance(options.colour)) distort_colours(crop, options.strength, random);
    if (random.chance(options.grey)) make_grey(crop);
    if (random.chance(options.blur)) crop = blurred(crop, random.uniform(blur_least, blur_most));
    return crop;
}

Picture centre_crop(const Picture& picture, std::uint32_t side, double share) {
    const double kept = share * std::min(picture.width, picture.height);
    return resized(picture,
                   {.left = (picture.width - kept) / 2,
                    .top = (picture.height - kept) / 2,
                    .width = kept,
                    .height = kept},
                   side);
}

void normalize(const Picture& picture, std::span<float> out) {
    constexpr std::array<float, 3> means = {0.485f, 0.456f, 0.406f};
    constexpr std::array<float, 3> deviations = {0.229f, 0.224f, 0.225f};
    const std::size_t pixels = std::size_t{picture.width} * picture.height;
    DEDLOC_CHECK(out.size() == 3 * pixels);
    for (std::size_t c = 0; c < 3; ++c)
        for (std::size_t i = 0; i < pixels; ++i)
            out[c * pixels + i] =
                (static_cast<float>(picture.rgb[3 * i + c]) / 255.0f - means[c]) / deviations[c];
}

}  // namespace dedloc::images
