#include "dedloc/images/colours.h"

#include <algorithm>
#include <cmath>

namespace dedloc::images {
namespace {

constexpr double brightness_share = 0.8;
constexpr double hue_share = 0.2;

double grey_of(const std::uint8_t* pixel) {
    return 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
}

std::uint8_t as_byte(double value) {
    return static_cast<std::uint8_t>(std::clamp(value + 0.5, 0.0, 255.0));
}

template <typename Change>
void for_pixels(Picture& picture, Change change) {
    for (std::size_t i = 0; i + 2 < picture.rgb.size(); i += 3) change(picture.rgb.data() + i);
}

// Between `middle` and the pixel, or beyond it.
void blend(std::uint8_t* pixel, double middle, double factor) {
    for (std::size_t c = 0; c < 3; ++c)
        pixel[c] = as_byte(middle + factor * (static_cast<double>(pixel[c]) - middle));
}

void change_contrast(Picture& picture, double factor) {
    double sum = 0;
    for_pixels(picture, [&](const std::uint8_t* pixel) { sum += grey_of(pixel); });
    const double mean = sum / std::max(1.0, static_cast<double>(picture.rgb.size()) / 3);
    for_pixels(picture, [&](std::uint8_t* pixel) { blend(pixel, mean, factor); });
}

}  // namespace

void make_grey(Picture& picture) {
    for_pixels(picture,
               [](std::uint8_t* pixel) { std::fill_n(pixel, 3, as_byte(grey_of(pixel))); });
}

void turn_hue(Picture& picture, double turn) {
    for_pixels(picture, [&](std::uint8_t* pixel) {
        const double high = std::max({pixel[0], pixel[1], pixel[2]});
        const double spread = high - std::min({pixel[0], pixel[1], pixel[2]});
        if (spread <= 0) return;
        double hue = 0;  // in sixths of the circle
        if (pixel[0] == high)
            hue = (static_cast<double>(pixel[1]) - pixel[2]) / spread;
        else if (pixel[1] == high)
            hue = 2 + (static_cast<double>(pixel[2]) - pixel[0]) / spread;
        else
            hue = 4 + (static_cast<double>(pixel[0]) - pixel[1]) / spread;
        hue += 6 * turn + 12;
        // Back to red, green and blue: each falls by `spread` over two of the sixths.
        const double shifts[] = {5, 3, 1};
        for (std::size_t c = 0; c < 3; ++c) {
            double k = hue + shifts[c];
            k -= 6 * std::floor(k / 6);
            const double fall = std::clamp(std::min(k, 4 - k), 0.0, 1.0);
            pixel[c] = as_byte(high - spread * fall);
        }
    });
}

void distort_colours(Picture& picture, double strength, Random& random) {
    std::vector<int> order = {0, 1, 2, 3};
    random.shuffle(order);
    const double most = brightness_share * strength;
    for (const int kind : order) {
        const double factor = random.uniform(std::max(0.0, 1 - most), 1 + most);
        if (kind == 0) for_pixels(picture, [&](std::uint8_t* pixel) { blend(pixel, 0, factor); });
        if (kind == 1) change_contrast(picture, factor);
        if (kind == 2)
            for_pixels(picture, [&](std::uint8_t* pixel) { blend(pixel, grey_of(pixel), factor); });
        if (kind == 3)
            turn_hue(picture, random.uniform(-hue_share * strength, hue_share * strength));
    }
}

}  // namespace dedloc::images
