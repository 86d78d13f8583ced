#include "dedloc/images/orientation.h"

#include <gtest/gtest.h>

#include "dedloc/images/images_testing.h"

namespace dedloc::images {
namespace {

Bytes exif_of(std::uint8_t value, bool big_endian) {
    if (big_endian)
        return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, value, 0, 0};
    return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, value, 0, 0, 0};
}

Bytes jpeg_with_exif(const Picture& picture, std::uint8_t value) {
    const Bytes jpeg = encode_jpeg(picture);
    Bytes content = base::to_bytes(std::string_view("Exif\0\0", 6));
    base::append(content, exif_of(value, false));
    Bytes file(jpeg.begin(), jpeg.begin() + 2);
    base::append(file, Bytes{0xff, 0xe1});
    base::put_u16_be(file, static_cast<std::uint16_t>(content.size() + 2));
    base::append(file, content);
    base::append(file, ByteView(jpeg).subspan(2));
    return file;
}

// Where a letter F's corners come to: each picture has the numbers 0 to 5 in red.
TEST(Orientation, turns_each_of_the_eight_ways_upright) {
    Picture stored = Picture::of_size(3, 2);
    for (std::uint8_t i = 0; i < 6; ++i) stored.at(i % 3u, i / 3u)[0] = i;
    const std::vector<std::vector<int>> wanted = {{0, 1, 2, 3, 4, 5},
                                                  {2, 1, 0, 5, 4, 3},
                                                  {5, 4, 3, 2, 1, 0},
                                                  {3, 4, 5, 0, 1, 2},
                                                  {0, 3, 1, 4, 2, 5},
                                                  {3, 0, 4, 1, 5, 2},
                                                  {5, 2, 4, 1, 3, 0},
                                                  {2, 5, 1, 4, 0, 3}};
    for (std::uint8_t i = 0; i < 8; ++i) {
        const auto orientation = static_cast<Orientation>(i + 1);
        const Picture turned = upright(stored, orientation);
        EXPECT_EQ(turned.width, i < 4 ? 3u : 2u);
        std::vector<int> got;
        for (std::size_t at = 0; at < turned.rgb.size(); at += 3) got.push_back(turned.rgb[at]);
        EXPECT_EQ(got, wanted[i]) << "orientation " << i + 1;
    }
}

TEST(Orientation, of_a_jpeg_file_turns_picture_and_size) {
    const Picture picture = sample_picture(48, 32);
    for (std::uint8_t value = 1; value <= 8; ++value) {
        const Bytes file = jpeg_with_exif(picture, value);
        const auto orientation = static_cast<Orientation>(value);
        EXPECT_EQ(orientation_of_jpeg(file), orientation);
        const auto plain = decode(encode_jpeg(picture));
        const auto turned = decode(file);
        const auto size = inspect(file);
        ASSERT_TRUE(plain && turned && size);
        EXPECT_EQ(turned->rgb, upright(*plain, orientation).rgb);
        EXPECT_EQ(size->width, value <= 4 ? 48u : 32u);
    }
}

TEST(Orientation, is_as_stored_where_exif_is_damaged) {
    EXPECT_EQ(orientation_of_exif(exif_of(6, true)), Orientation::right_top);
    EXPECT_EQ(orientation_of_exif(exif_of(6, false)), Orientation::right_top);
    for (const std::uint8_t value : Bytes{0, 9, 255})
        EXPECT_EQ(orientation_of_exif(exif_of(value, true)), Orientation::top_left);
    const Bytes whole = exif_of(6, true);
    for (std::size_t size = 0; size + 2 < whole.size(); ++size)
        EXPECT_EQ(orientation_of_exif(ByteView(whole).first(size)), Orientation::top_left) << size;
    Bytes far = whole;
    far[4] = 0xff;  // the directory lies behind the end
    EXPECT_EQ(orientation_of_exif(far), Orientation::top_left);
}

}  // namespace
}  // namespace dedloc::images
