// Picture: 8-bit RGB in memory, rows from the top; and the way from and to files.
//
// Files come from strangers' folders: what is decoded is bounded before anything is allocated for
// it, the work is bounded by the pixels that come out, and a damaged file is an error with a
// sentence, never a grey picture. A picture has the same pixels however it is stored: upright
// (EXIF), in sRGB, on white where it is transparent.
//
// Thread: any. Memory: decode() needs at most some pixels_max * 12 bytes (progressive JPEG,
// turned).
// Errors: bad_input  neither JPEG nor PNG, damaged, cut off, or beyond a limit below.

#pragma once
#include <cstdint>
#include <string>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::images {

inline constexpr std::uint32_t side_max = 16'384;         // pixels; cameras have less
inline constexpr std::uint64_t pixels_max = 1u << 25;     // 100 MB of RGB
inline constexpr std::size_t file_bytes_max = 64u << 20;  // of one picture
inline constexpr int scans_max = 100;  // of a progressive JPEG; more only cost time, on purpose
// Each scan goes over all pixels again; programs write ten, or eighteen for CMYK.
inline constexpr std::uint64_t scan_pixels_max = 20 * pixels_max;

struct Picture {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    Bytes rgb;  // 3 * width * height

    static Picture of_size(std::uint32_t width, std::uint32_t height, std::uint8_t fill = 0);
    const std::uint8_t* at(std::uint32_t x, std::uint32_t y) const {
        return rgb.data() + 3 * (std::size_t{y} * width + x);
    }
    std::uint8_t* at(std::uint32_t x, std::uint32_t y) {
        return rgb.data() + 3 * (std::size_t{y} * width + x);
    }
};

struct PictureSize {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
};

// bad_input: no pixels, or beyond side_max or pixels_max.
Ok check_size(PictureSize size);

// From the file's headers alone; upright, as decode() gives it.
Result<PictureSize> inspect(ByteView file);
Result<Picture> decode(ByteView file);

// not_found, bad_input, local_fault; the sentence names the file.
Result<Bytes> read_picture_file(const std::string& path);

Bytes encode_png(const Picture& picture);

// Pictures of one size side by side, `columns` a row, with a line between them.
Picture contact_sheet(const std::vector<Picture>& pictures, std::uint32_t columns);
// Every pixel as a square of `times` × `times`.
Picture enlarged(const Picture& picture, std::uint32_t times);

inline constexpr std::uint32_t shown_width_min = 64;
// A picture as people are shown it: enlarged where it is narrower than shown_width_min.
Picture shown_large(const Picture& picture);

}  // namespace dedloc::images
