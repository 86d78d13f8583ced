#include "dedloc/images/picture.h"

#include <cstdlib>
#include <gtest/gtest.h>

#include "dedloc/images/images_testing.h"

namespace dedloc::images {
namespace {

double mean_difference(const Picture& a, const Picture& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.rgb.size(); ++i) sum += std::abs(a.rgb[i] - b.rgb[i]);
    return sum / static_cast<double>(a.rgb.size());
}

// A PNG whose header claims these sizes; the rest is as it was, so its checksum is wrong, too.
Bytes png_with_size(std::uint32_t width, std::uint32_t height) {
    Bytes file = encode_png(sample_picture(4, 4));
    Bytes sizes;
    base::put_u32_be(sizes, width);
    base::put_u32_be(sizes, height);
    std::ranges::copy(sizes, file.begin() + 16);
    std::uint32_t crc = 0xffffffffu;  // of the chunk's type and content
    for (std::size_t i = 12; i < 29; ++i) {
        crc ^= file[i];
        for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    Bytes check;
    base::put_u32_be(check, ~crc);
    std::ranges::copy(check, file.begin() + 29);
    return file;
}

TEST(Picture, comes_back_from_png_as_it_was) {
    const Picture picture = sample_picture(37, 23);
    const Bytes file = encode_png(picture);
    const auto size = inspect(file);
    ASSERT_TRUE(size) << to_string(size.error());
    EXPECT_EQ(size->width, 37u);
    EXPECT_EQ(size->height, 23u);
    const auto back = decode(file);
    ASSERT_TRUE(back) << to_string(back.error());
    EXPECT_EQ(back->rgb, picture.rgb);
}

TEST(Picture, comes_back_from_jpeg_nearly_as_it_was) {
    const Picture picture = sample_picture(64, 48);
    for (const bool progressive : {false, true}) {
        const auto back = decode(encode_jpeg(picture, progressive));
        ASSERT_TRUE(back) << to_string(back.error());
        ASSERT_EQ(back->rgb.size(), picture.rgb.size());
        EXPECT_LT(mean_difference(*back, picture), 4);
    }
}

// Grey is stored as grey, ink as ink; what they show is what counts.
TEST(Picture, has_the_same_pixels_from_a_jpeg_of_grey_or_of_ink) {
    constexpr PictureSize size = {.width = 16, .height = 16};
    const auto flat = [&](J_COLOR_SPACE space, const Bytes& pixel, bool adobe) {
        const auto picture = decode(encode_flat_jpeg(size, space, pixel, adobe));
        return picture ? std::vector<int>(picture->rgb.begin(), picture->rgb.begin() + 3)
                       : std::vector<int>();
    };
    EXPECT_EQ(flat(JCS_GRAYSCALE, {100}, false), (std::vector<int>{100, 100, 100}));
    // Adobe stores the inverse of the ink; files without its marker store the ink.
    EXPECT_EQ(flat(JCS_CMYK, {200, 100, 50, 255}, true), (std::vector<int>{200, 100, 50}));
    EXPECT_EQ(flat(JCS_CMYK, {55, 155, 205, 0}, false), (std::vector<int>{200, 100, 50}));
    EXPECT_EQ(flat(JCS_CMYK, {200, 100, 50, 128}, true), (std::vector<int>{100, 50, 25}));
}

TEST(Picture, that_is_cut_off_is_an_error_with_a_sentence) {
    const Bytes jpeg = encode_jpeg(sample_picture(64, 48));
    const auto half = decode(ByteView(jpeg).first(jpeg.size() / 2));
    ASSERT_FALSE(half);
    EXPECT_NE(half.error().message().find("JPEG file is damaged or cut off"), std::string::npos);
    const Bytes png = encode_png(sample_picture(64, 48));
    const auto part = decode(ByteView(png).first(png.size() / 2));
    ASSERT_FALSE(part);
    EXPECT_NE(part.error().message().find("PNG file is damaged or cut off"), std::string::npos);
    for (std::size_t size = 0; size < 200; ++size) {
        (void)decode(ByteView(jpeg).first(size));
        (void)decode(ByteView(png).first(std::min(size, png.size())));
    }
    EXPECT_FALSE(decode(as_bytes("GIF89a")));
}

TEST(Picture, that_is_too_large_is_refused_before_its_pixels_are_allocated) {
    const Bytes file = png_with_size(40'000, 40'000);
    for (const auto& refused : {decode(file).error(), inspect(file).error()})
        EXPECT_NE(refused.message().find("40000 × 40000 pixels; at most"), std::string::npos)
            << refused.message();
    EXPECT_FALSE(decode(png_with_size(16'384, 16'384)));
}

TEST(Picture, lies_on_a_contact_sheet_in_rows) {
    const Picture sheet = contact_sheet(
        {sample_picture(4, 4, 1), sample_picture(4, 4, 2), sample_picture(4, 4, 3)}, 2);
    EXPECT_EQ(sheet.width, 10u);
    EXPECT_EQ(sheet.height, 10u);
    EXPECT_EQ(sheet.at(6, 0)[2], 2);
    EXPECT_EQ(sheet.at(0, 6)[2], 3);
    EXPECT_EQ(enlarged(sheet, 3).at(18, 0)[2], 2);
    EXPECT_EQ(shown_large(Picture::of_size(10, 4)).width, 70u);
    EXPECT_EQ(shown_large(Picture::of_size(100, 4)).width, 100u);
}

}  // namespace
}  // namespace dedloc::images
