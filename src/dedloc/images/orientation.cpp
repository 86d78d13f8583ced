#include "dedloc/images/orientation.h"

#include <algorithm>

namespace dedloc::images {
namespace {

// Numbers in the byte order that the block begins with; whatever lies beyond its end is 0.
class Tiff {
  public:
    explicit Tiff(ByteView bytes) : bytes_(bytes) {}

    bool begins_well() {
        if (bytes_.size() < 8) return false;
        big_ = bytes_[0] == 'M' && bytes_[1] == 'M';
        return (big_ || (bytes_[0] == 'I' && bytes_[1] == 'I')) && number(2, 2) == 42;
    }
    std::uint32_t number(std::size_t at, std::size_t size) const {
        if (at > bytes_.size() || bytes_.size() - at < size) return 0;
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < size; ++i)
            value = value << 8 | bytes_[at + (big_ ? i : size - 1 - i)];
        return value;
    }

  private:
    ByteView bytes_;
    bool big_ = false;
};

bool swaps_sides(Orientation orientation) { return orientation >= Orientation::left_top; }

}  // namespace

Orientation orientation_of_exif(ByteView bytes) {
    constexpr std::uint32_t orientation_tag = 274;
    constexpr std::uint32_t short_type = 3;
    constexpr std::uint32_t long_type = 4;
    constexpr std::size_t entry_bytes = 12;
    Tiff tiff(bytes);
    if (!tiff.begins_well()) return Orientation::top_left;
    const std::size_t directory = tiff.number(4, 4);
    const std::uint32_t count = tiff.number(directory, 2);
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::size_t entry = directory + 2 + i * entry_bytes;
        if (tiff.number(entry, 2) != orientation_tag) continue;
        const std::uint32_t type = tiff.number(entry + 2, 2);
        if (type != short_type && type != long_type) break;
        const std::uint32_t value = tiff.number(entry + 8, type == short_type ? 2 : 4);
        if (value >= 1 && value <= 8) return static_cast<Orientation>(value);
        break;
    }
    return Orientation::top_left;
}

Orientation orientation_of_jpeg(ByteView file) {
    constexpr std::uint8_t app1 = 0xe1;
    constexpr std::uint8_t start_of_scan = 0xda;
    constexpr std::uint8_t end_of_image = 0xd9;
    constexpr std::string_view exif("Exif\0\0", 6);
    std::size_t at = 2;
    while (at + 4 <= file.size() && file[at] == 0xff) {
        const std::uint8_t marker = file[at + 1];
        if (marker == 0xff) {  // filling
            ++at;
            continue;
        }
        if (marker == start_of_scan || marker == end_of_image) break;
        const std::size_t size = std::size_t{file[at + 2]} << 8 | file[at + 3];
        if (size < 2 || file.size() - at - 2 < size) break;
        const ByteView content = file.subspan(at + 4, size - 2);
        if (marker == app1 && base::as_text(content).starts_with(exif))
            return orientation_of_exif(content.subspan(exif.size()));
        at += 2 + size;
    }
    return Orientation::top_left;
}

PictureSize upright(PictureSize stored, Orientation orientation) {
    if (swaps_sides(orientation)) std::swap(stored.width, stored.height);
    return stored;
}

Picture upright(Picture stored, Orientation orientation) {
    if (orientation == Orientation::top_left) return stored;
    const PictureSize size = upright(PictureSize{stored.width, stored.height}, orientation);
    Picture turned = Picture::of_size(size.width, size.height);
    const bool from_right =
        orientation == Orientation::top_right || orientation == Orientation::bottom_right ||
        orientation == Orientation::right_bottom || orientation == Orientation::left_bottom;
    const bool from_bottom =
        orientation == Orientation::bottom_right || orientation == Orientation::bottom_left ||
        orientation == Orientation::right_top || orientation == Orientation::right_bottom;
    for (std::uint32_t y = 0; y < size.height; ++y)
        for (std::uint32_t x = 0; x < size.width; ++x) {
            std::uint32_t column = x;
            std::uint32_t row = y;
            if (swaps_sides(orientation)) std::swap(column, row);
            if (from_right) column = stored.width - 1 - column;
            if (from_bottom) row = stored.height - 1 - row;
            std::copy_n(stored.at(column, row), 3, turned.at(x, y));
        }
    return turned;
}

}  // namespace dedloc::images
