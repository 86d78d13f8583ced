// JPEG through libjpeg-turbo. Internal to the module: picture.h is the way in.

#pragma once
#include "dedloc/images/picture.h"

namespace dedloc::images {

// bad_input: no pixels, or beyond side_max or pixels_max.
Ok check_size(PictureSize size);

Result<PictureSize> inspect_jpeg(ByteView file);
Result<Picture> decode_jpeg(ByteView file);

}  // namespace dedloc::images
