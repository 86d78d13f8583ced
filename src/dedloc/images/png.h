// PNG through libpng. Internal to the module: picture.h is the way in.
//
// The pixels follow from what a picture shows, not from how the file stores it: 1 to 16 bits, a
// palette or none, interlaced or not give the same bytes. Samples are taken as sRGB unless the file
// states another gamma (chunk gAMA); colour profiles (iCCP) are ignored. Transparent pixels lie on
// white. A chunk eXIf turns the picture upright.
//
// Work is bounded by the picture's pixels, not by what its compressed bytes would become: other
// chunks are skipped, nothing is inflated behind the last row, and a file with far more compressed
// bytes than its pixels can need is refused.

#pragma once
#include "dedloc/images/picture.h"

namespace dedloc::images {

// Looks at the chunks' heads and at IHDR. bad_input also where the file is cut off.
Result<PictureSize> inspect_png(ByteView file);
Result<Picture> decode_png(ByteView file);

}  // namespace dedloc::images
