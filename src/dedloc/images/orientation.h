// How a camera was held, and turning a picture upright by it. Internal to the module.
//
// EXIF's tag 274 says which of eight ways the stored rows and columns lie; viewers apply it, so a
// picture that looks upright to the person who made the folder is upright for the model, too.
//
// Source: EXIF 2.32, 4.6.4 (Orientation); TIFF 6.0, section 2. Thread: any.

#pragma once
#include <optional>

#include "dedloc/images/picture.h"

namespace dedloc::images {

// As EXIF numbers them: where the stored first row and first column lie in the upright picture.
enum class Orientation : std::uint8_t {
    top_left = 1,
    top_right,
    bottom_right,
    bottom_left,
    left_top,
    right_top,
    right_bottom,
    left_bottom
};

// `tiff`: what follows "Exif\0\0" in a JPEG file, or a PNG file's chunk eXIf. Damaged, or without
// the tag: as stored.
Orientation orientation_of_exif(ByteView tiff);
// Looks through the segments before the first scan.
Orientation orientation_of_jpeg(ByteView file);

PictureSize upright(PictureSize stored, Orientation orientation);
Picture upright(Picture stored, Orientation orientation);

}  // namespace dedloc::images
