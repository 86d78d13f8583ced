// Crops of a picture for training: cut, resized, flipped, colours moved, blurred. A pure function
// of (picture, options, random numbers): the same bytes whoever computes it, as only + - * / and
// square root are used, each rounded by itself.
//
// The distributions are SwAV's: area uniform in [scale_min, scale_max] of the picture, log of the
// aspect ratio uniform in ±log(4/3), ten tries and then the middle; brightness, contrast and
// saturation by up to 80 % and hue by 20 % of the circle, in an order drawn anew, with probability
// 0.8; grey 0.2; blur 0.5 with radius 0.1 to 2.
//
// Source: Caron et al. 2006.09882, torchvision's RandomResizedCrop and ColorJitter.
// Thread: any. Cost: resizing reads each source pixel of the cut a few times.

#pragma once
#include "dedloc/base/peer_id.h"
#include "dedloc/base/random.h"
#include "dedloc/images/picture.h"

namespace dedloc::images {

inline constexpr std::uint32_t crop_side_max = 1024;

struct CropOptions {
    std::uint32_t side = 224;  // 1 … crop_side_max
    double scale_min = 0.14;   // of the picture's area
    double scale_max = 1;
    double flip = 0.5;  // probabilities
    double colour = 0.8;
    double grey = 0.2;
    double blur = 0.5;
    double strength = 1;  // of the colours' distortion
};

// The random numbers of a sample: of (seed, peer, its number), whatever was drawn before.
Random random_of_sample(std::uint64_t seed, const PeerId& peer, std::uint64_t number);

Picture random_crop(const Picture& picture, const CropOptions& options, Random& random);
// The middle, for evaluation: the largest square, of which `share` of the side is kept.
Picture centre_crop(const Picture& picture, std::uint32_t side, double share = 0.875);

// The rectangle [left, left + width) × [top, …) as side × side pixels: a triangle filter that is as
// wide as a target pixel, so that nothing is skipped when it shrinks.
struct Cut {
    double left = 0;
    double top = 0;
    double width = 0;
    double height = 0;
};
Picture resized(const Picture& picture, const Cut& cut, std::uint32_t side);

Picture blurred(const Picture& picture, double radius);
Picture flipped(const Picture& picture);

// (value / 255 - mean) / deviation of ImageNet, planes red, green, blue.
void normalize(const Picture& picture, std::span<float> out);

// e^x for |x| <= 64 within 2^-44, without libm, which differs between systems in the last bit.
double exponential_of(double x);

}  // namespace dedloc::images
