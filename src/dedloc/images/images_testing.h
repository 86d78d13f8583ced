// Pictures and folders for tests.

#pragma once
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <jpeglib.h>

#include "dedloc/base/random.h"
#include "dedloc/images/picture.h"

namespace dedloc::images {

// A smooth picture with a coloured edge, so that JPEG keeps it nearly as it is.
inline Picture sample_picture(std::uint32_t width, std::uint32_t height, std::uint8_t shade = 0) {
    Picture picture = Picture::of_size(width, height);
    for (std::uint32_t y = 0; y < height; ++y)
        for (std::uint32_t x = 0; x < width; ++x) {
            std::uint8_t* pixel = picture.at(x, y);
            pixel[0] = static_cast<std::uint8_t>(x * 255 / width);
            pixel[1] = static_cast<std::uint8_t>(y * 255 / height);
            pixel[2] = x < width / 2 ? shade : static_cast<std::uint8_t>(255 - shade);
        }
    return picture;
}

inline Bytes encode_jpeg(const Picture& picture, bool progressive = false) {
    jpeg_compress_struct jpeg{};
    jpeg_error_mgr errors{};
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    unsigned char* buffer = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&jpeg, &buffer, &size);
    jpeg.image_width = picture.width;
    jpeg.image_height = picture.height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    if (progressive) jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    for (std::uint32_t y = 0; y < picture.height; ++y) {
        JSAMPROW row = const_cast<JSAMPROW>(picture.at(0, y));
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    Bytes file(buffer, buffer + size);
    jpeg_destroy_compress(&jpeg);
    std::free(buffer);
    return file;
}

// Every pixel alike, at the best quality, without any conversion of colours.
inline Bytes encode_flat_jpeg(PictureSize size,
                              J_COLOR_SPACE space,
                              const Bytes& pixel,
                              bool adobe_marker) {
    jpeg_compress_struct jpeg{};
    jpeg_error_mgr errors{};
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    unsigned char* buffer = nullptr;
    unsigned long bytes = 0;
    jpeg_mem_dest(&jpeg, &buffer, &bytes);
    jpeg.image_width = size.width;
    jpeg.image_height = size.height;
    jpeg.input_components = static_cast<int>(pixel.size());
    jpeg.in_color_space = space;
    jpeg_set_defaults(&jpeg);
    jpeg_set_colorspace(&jpeg, space);
    jpeg.write_Adobe_marker = adobe_marker ? TRUE : FALSE;
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    Bytes pixels;
    for (std::uint32_t x = 0; x < size.width; ++x) base::append(pixels, pixel);
    for (std::uint32_t y = 0; y < size.height; ++y) {
        JSAMPROW row = pixels.data();
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    Bytes file(buffer, buffer + bytes);
    jpeg_destroy_compress(&jpeg);
    std::free(buffer);
    return file;
}

class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string name =
            (std::filesystem::temp_directory_path() / "dedloc_images_XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    std::string path() const { return path_.string(); }
    void write(const std::string& name, ByteView content) const {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::ofstream file(path_ / name, std::ios::binary);
        file.write(reinterpret_cast<const char*>(content.data()),
                   static_cast<std::streamsize>(content.size()));
    }

  private:
    std::filesystem::path path_;
};

}  // namespace dedloc::images
