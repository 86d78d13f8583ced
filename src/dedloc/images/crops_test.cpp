#include "dedloc/images/crops.h"

#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/images/colours.h"
#include "dedloc/images/images_testing.h"
#include "dedloc/security/hash.h"

namespace dedloc::images {
namespace {

std::string hash_of(const Picture& picture) { return security::sha256(picture.rgb).short_hex(); }

TEST(Crops, are_a_pure_function_of_seed_peer_and_number) {
    const Picture picture = sample_picture(200, 150, 30);
    const PeerId peer;
    const CropOptions options{.side = 32};
    const auto crop = [&](std::uint64_t seed, std::uint64_t number) {
        Random random = random_of_sample(seed, peer, number);
        return hash_of(random_crop(picture, options, random));
    };
    EXPECT_EQ(crop(1, 7), crop(1, 7));
    EXPECT_NE(crop(1, 7), crop(1, 8));
    EXPECT_NE(crop(1, 7), crop(2, 7));
}

// A peer that recomputes a sample on another machine must find these bytes.
TEST(Crops, have_bytes_that_never_change) {
    const Picture picture = sample_picture(200, 150, 30);
    security::Sha256 hash;
    for (std::uint64_t number = 0; number < 16; ++number) {
        Random random = random_of_sample(3, PeerId(), number);
        const CropOptions options{.side = 24, .scale_min = 0.05, .scale_max = 0.6};
        hash.update(random_crop(picture, options, random).rgb);
    }
    EXPECT_EQ(hash.finish().short_hex(), "081b3335");
}

TEST(Crops, of_the_whole_picture_at_its_size_are_the_picture) {
    const Picture picture = sample_picture(32, 32, 9);
    const Cut whole{.left = 0, .top = 0, .width = 32, .height = 32};
    EXPECT_EQ(resized(picture, whole, 32).rgb, picture.rgb);
    const Picture flat = Picture::of_size(31, 17, 77);
    const Cut part{.left = 3.3, .top = 2.2, .width = 20.5, .height = 11.1};
    EXPECT_EQ(resized(flat, part, 8).rgb, Picture::of_size(8, 8, 77).rgb);
    EXPECT_EQ(resized(flat, part, 64).rgb, Picture::of_size(64, 64, 77).rgb);
}

TEST(Crops, that_shrink_keep_the_mean) {
    const Picture picture = sample_picture(256, 256);
    const Picture small = centre_crop(picture, 16, 1);
    double large_sum = 0;
    double small_sum = 0;
    for (const std::uint8_t value : picture.rgb) large_sum += value;
    for (const std::uint8_t value : small.rgb) small_sum += value;
    EXPECT_NEAR(large_sum / static_cast<double>(picture.rgb.size()),
                small_sum / static_cast<double>(small.rgb.size()),
                1);
}

TEST(Crops, flipped_twice_and_blurred_when_flat_are_what_they_were) {
    const Picture picture = sample_picture(15, 8, 9);
    EXPECT_EQ(flipped(flipped(picture)).rgb, picture.rgb);
    EXPECT_NE(flipped(picture).rgb, picture.rgb);
    const Picture flat = Picture::of_size(9, 9, 130);
    EXPECT_EQ(blurred(flat, 1.7).rgb, flat.rgb);
    Picture dot = Picture::of_size(21, 21);
    dot.at(10, 10)[0] = 255;
    const Picture soft = blurred(dot, 1);
    const double weight = std::exp(-0.5) / 2.5066282746;  // one pixel away, along one axis
    EXPECT_NEAR(soft.at(11, 10)[0], 255 * weight / 2.5066282746, 1);
}

TEST(Crops, exponentials_need_no_libm) {
    double worst = 0;
    for (double x = -50; x <= 10; x += 0.37)
        worst = std::max(worst, std::abs(exponential_of(x) / std::exp(x) - 1));
    EXPECT_LT(worst, 1e-12);
}

TEST(Colours, turn_around_the_circle) {
    Picture red = Picture::of_size(1, 1);
    red.at(0, 0)[0] = 200;
    turn_hue(red, 1.0 / 3);
    EXPECT_EQ(red.rgb, (Bytes{0, 200, 0}));
    turn_hue(red, -2.0 / 3);
    EXPECT_EQ(red.rgb, (Bytes{0, 0, 200}));
    make_grey(red);
    EXPECT_EQ(red.rgb, (Bytes{23, 23, 23}));
}

TEST(Crops, are_normalized_in_planes) {
    const Picture white = Picture::of_size(2, 1, 255);
    std::vector<float> planes(6);
    normalize(white, planes);
    EXPECT_FLOAT_EQ(planes[0], (1.0f - 0.485f) / 0.229f);
    EXPECT_FLOAT_EQ(planes[5], (1.0f - 0.406f) / 0.225f);
}

}  // namespace
}  // namespace dedloc::images
