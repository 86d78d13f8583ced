// JPEG through libjpeg-turbo: grey, YCbCr, RGB, CMYK and YCCK, baseline or progressive, turned
// upright by EXIF's orientation. Colour profiles are ignored. Internal to the module:
// picture.h is the way in.

#pragma once
#include "dedloc/images/picture.h"

namespace dedloc::images {

Result<PictureSize> inspect_jpeg(ByteView file);
Result<Picture> decode_jpeg(ByteView file);

}  // namespace dedloc::images
