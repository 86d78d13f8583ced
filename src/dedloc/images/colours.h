// Colours of a crop, moved at random. Internal to the module; see crops.h.

#pragma once
#include "dedloc/base/random.h"
#include "dedloc/images/picture.h"

namespace dedloc::images {

// Brightness, contrast and saturation by up to 0.8 × strength, hue by up to 0.2 × strength of the
// circle, in an order that is drawn.
void distort_colours(Picture& picture, double strength, Random& random);
void make_grey(Picture& picture);

// Turns every pixel's hue by `turn` of the circle.
void turn_hue(Picture& picture, double turn);

}  // namespace dedloc::images
