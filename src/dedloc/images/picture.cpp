#include "dedloc/images/picture.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dedloc/images/jpeg.h"
#include "dedloc/images/png.h"

namespace dedloc::images {
namespace {

constexpr std::uint32_t sheet_line = 2;  // pixels between pictures of a contact sheet

bool is_jpeg(ByteView file) { return file.size() > 2 && file[0] == 0xff && file[1] == 0xd8; }

bool is_png(ByteView file) {
    constexpr std::uint8_t signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    return file.size() > sizeof signature &&
           std::equal(std::begin(signature), std::end(signature), file.begin());
}

Error neither() { return make_error(ErrorKind::bad_input, "it is neither a JPEG nor a PNG file"); }

}  // namespace

Ok check_size(PictureSize size) {
    if (size.width == 0 || size.height == 0)
        return make_error(ErrorKind::bad_input, "the picture has no pixels");
    if (size.width <= side_max && size.height <= side_max &&
        std::uint64_t{size.width} * size.height <= pixels_max)
        return {};
    return make_error(ErrorKind::bad_input,
                      "the picture has {} × {} pixels; at most {} a side and {} in all are read",
                      size.width,
                      size.height,
                      side_max,
                      pixels_max);
}

Picture Picture::of_size(std::uint32_t width, std::uint32_t height, std::uint8_t fill) {
    return {.width = width, .height = height, .rgb = Bytes(std::size_t{3} * width * height, fill)};
}

Result<PictureSize> inspect(ByteView file) {
    if (is_jpeg(file)) return inspect_jpeg(file);
    if (is_png(file)) return inspect_png(file);
    return neither();
}

Result<Picture> decode(ByteView file) {
    if (is_jpeg(file)) return decode_jpeg(file);
    if (is_png(file)) return decode_png(file);
    return neither();
}

Result<Bytes> read_picture_file(const std::string& path) {
    std::error_code status;
    const std::uintmax_t size = std::filesystem::file_size(path, status);
    if (status)
        return make_error(ErrorKind::not_found, "cannot read {}: {}", path, status.message());
    if (size > file_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "{} has {} bytes; pictures of at most {} are read",
                          path,
                          size,
                          file_bytes_max);
    Bytes bytes(size);
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
    if (!file) return make_error(ErrorKind::local_fault, "cannot read {} to its end", path);
    return bytes;
}

Picture contact_sheet(const std::vector<Picture>& pictures, std::uint32_t columns) {
    if (pictures.empty() || columns == 0) return {};
    const std::uint32_t width = pictures.front().width;
    const std::uint32_t height = pictures.front().height;
    const auto count = static_cast<std::uint32_t>(pictures.size());
    const std::uint32_t across = std::min(columns, count);
    const std::uint32_t rows = (count + columns - 1) / columns;
    constexpr std::uint8_t grey = 128;
    Picture sheet = Picture::of_size(across * (width + sheet_line) - sheet_line,
                                     rows * (height + sheet_line) - sheet_line,
                                     grey);
    for (std::uint32_t i = 0; i < count; ++i) {
        const Picture& one = pictures[i];
        DEDLOC_CHECK(one.width == width && one.height == height);
        for (std::uint32_t y = 0; y < height; ++y) {
            std::uint8_t* to = sheet.at(i % columns * (width + sheet_line),
                                        i / columns * (height + sheet_line) + y);
            std::memcpy(to, one.at(0, y), std::size_t{3} * width);
        }
    }
    return sheet;
}

Picture enlarged(const Picture& picture, std::uint32_t times) {
    Picture large = Picture::of_size(picture.width * times, picture.height * times);
    for (std::uint32_t y = 0; y < large.height; ++y)
        for (std::uint32_t x = 0; x < large.width; ++x)
            std::copy_n(picture.at(x / times, y / times), 3, large.at(x, y));
    return large;
}

Picture shown_large(const Picture& picture) {
    const std::uint32_t width = std::max(picture.width, 1u);
    return enlarged(picture, (shown_width_min + width - 1) / width);
}

}  // namespace dedloc::images
