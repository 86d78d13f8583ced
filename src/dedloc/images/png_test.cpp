#include "dedloc/images/png.h"

#include <gtest/gtest.h>

#include "dedloc/images/orientation.h"
#include "dedloc/images/png_testing.h"

namespace dedloc::images {
namespace {

constexpr PictureSize png_size = {.width = 13, .height = 11};  // every pass of Adam7 has pixels

// Two bits suffice for it, so every depth from 2 on has it exactly.
std::uint32_t shade_of(std::uint32_t x, std::uint32_t y, std::uint32_t channel) {
    return (x + 3 * y + 2 * channel * x) % 4;
}
std::uint32_t widest(std::uint32_t depth) { return (1u << depth) - 1; }

void expect_shades(const Result<Picture>& picture, bool is_grey, const std::string& kind) {
    ASSERT_TRUE(picture) << kind << ": " << to_string(picture.error());
    for (std::uint32_t y = 0; y < png_size.height; ++y)
        for (std::uint32_t x = 0; x < png_size.width; ++x)
            for (std::uint32_t c = 0; c < 3; ++c)
                ASSERT_EQ(picture->at(x, y)[c], 85 * shade_of(x, y, is_grey ? 0 : c))
                    << kind << " " << x << "," << y;
}

Bytes gamma_chunk(std::uint32_t value) {
    Bytes content;
    base::put_u32_be(content, value);
    return content;
}

TEST(Png, has_the_same_pixels_however_many_bits_a_sample_has) {
    for (const bool interlaced : {false, true})
        for (const std::uint8_t depth : Bytes{2, 4, 8, 16})
            for (const std::uint8_t type : Bytes{PNG_COLOR_TYPE_GRAY,
                                                 PNG_COLOR_TYPE_GRAY_ALPHA,
                                                 PNG_COLOR_TYPE_RGB,
                                                 PNG_COLOR_TYPE_RGB_ALPHA}) {
                if (type != PNG_COLOR_TYPE_GRAY && depth < 8) continue;
                const bool is_grey = (type & PNG_COLOR_MASK_COLOR) == 0;
                const std::uint32_t alpha = is_grey ? 1 : 3;
                const PngKind kind{.depth = depth, .colour_type = type, .interlaced = interlaced};
                const auto file = png_file(png_size, kind, [&](auto x, auto y, auto c) {
                    return c == alpha ? widest(depth) : shade_of(x, y, c) * (widest(depth) / 3);
                });
                expect_shades(decode(file),
                              is_grey,
                              fmt::format("{} bits, type {}, {}", depth, type, interlaced));
            }
}

TEST(Png, has_the_same_pixels_with_a_palette) {
    const Bytes greys = {0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255};
    for (const bool interlaced : {false, true})
        for (const std::uint8_t depth : Bytes{2, 4, 8}) {
            const PngKind kind{.depth = depth,
                               .colour_type = PNG_COLOR_TYPE_PALETTE,
                               .interlaced = interlaced,
                               .chunks = {{"PLTE", greys}}};
            const auto file =
                png_file(png_size, kind, [](auto x, auto y, auto) { return shade_of(x, y, 0); });
            expect_shades(decode(file), true, fmt::format("palette of {} bits", depth));
        }
}

TEST(Png, of_one_bit_is_black_and_white) {
    for (const bool interlaced : {false, true}) {
        const PngKind kind{
            .depth = 1, .colour_type = PNG_COLOR_TYPE_GRAY, .interlaced = interlaced};
        const auto picture =
            decode(png_file(png_size, kind, [](auto x, auto y, auto) { return (x + y) % 2; }));
        ASSERT_TRUE(picture) << to_string(picture.error());
        for (std::uint32_t i = 0; i < png_size.width * png_size.height; ++i)
            ASSERT_EQ(picture->rgb[std::size_t{3} * i],
                      (i % png_size.width + i / png_size.width) % 2 * 255);
    }
}

TEST(Png, that_is_transparent_lies_on_white_alike_in_8_and_16_bits) {
    const auto of = [](std::uint8_t depth, std::uint8_t type) {
        const PngKind kind{.depth = depth, .colour_type = type};
        return decode(png_file({.width = 256, .height = 1}, kind, [=](auto x, auto, auto c) {
            const bool is_alpha = c == (type == PNG_COLOR_TYPE_RGB_ALPHA ? 3u : 1u);
            return (is_alpha ? x : 100u) * (depth == 16 ? 257u : 1u);
        }));
    };
    const auto eight = of(8, PNG_COLOR_TYPE_RGB_ALPHA);
    ASSERT_TRUE(eight);
    EXPECT_EQ(eight->at(0, 0)[0], 255);
    EXPECT_EQ(eight->at(255, 0)[0], 100);
    EXPECT_EQ(eight->at(128, 0)[1], 177) << "(100 * 128 + 255 * 127) / 255";
    EXPECT_EQ(of(16, PNG_COLOR_TYPE_RGB_ALPHA)->rgb, eight->rgb);
    EXPECT_EQ(of(8, PNG_COLOR_TYPE_GRAY_ALPHA)->rgb, eight->rgb);
    EXPECT_EQ(of(16, PNG_COLOR_TYPE_GRAY_ALPHA)->rgb, eight->rgb);
    const PngKind keyed{
        .depth = 8, .colour_type = PNG_COLOR_TYPE_GRAY, .chunks = {{"tRNS", Bytes{0, 7}}}};
    const auto with_key =
        decode(png_file({.width = 8, .height = 1}, keyed, [](auto x, auto, auto) { return x; }));
    ASSERT_TRUE(with_key);
    EXPECT_EQ(with_key->at(6, 0)[0], 6);
    EXPECT_EQ(with_key->at(7, 0)[0], 255);
}

TEST(Png, is_srgb_unless_it_states_another_gamma) {
    const auto shade = [](std::uint8_t depth, std::vector<std::pair<std::string, Bytes>> chunks) {
        const PngKind kind{
            .depth = depth, .colour_type = PNG_COLOR_TYPE_GRAY, .chunks = std::move(chunks)};
        const auto picture =
            decode(png_file({.width = 1, .height = 1}, kind, [&](auto, auto, auto) {
                return depth == 16 ? 128u * 257u : 128u;
            }));
        return picture ? int{picture->rgb[0]} : -1;
    };
    const Bytes srgb = {0};
    for (const std::uint8_t depth : Bytes{8, 16}) {
        EXPECT_EQ(shade(depth, {}), 128);
        EXPECT_EQ(shade(depth, {{"gAMA", gamma_chunk(45'455)}}), 128);
        EXPECT_EQ(shade(depth, {{"sRGB", srgb}, {"gAMA", gamma_chunk(100'000)}}), 128);
        EXPECT_EQ(shade(depth, {{"gAMA", gamma_chunk(100'000)}}), 188) << "linear light";
        EXPECT_EQ(shade(depth, {{"gAMA", gamma_chunk(0)}}), 128) << "nonsense";
    }
}

TEST(Png, is_turned_upright_by_its_exif_chunk) {
    const Bytes exif = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0};
    const PngKind kind{.depth = 8, .colour_type = PNG_COLOR_TYPE_GRAY, .chunks = {{"eXIf", exif}}};
    const auto file =
        png_file({.width = 3, .height = 2}, kind, [](auto x, auto y, auto) { return 10 * y + x; });
    const auto size = inspect(file);
    ASSERT_TRUE(size);
    EXPECT_EQ(size->width, 2u);
    const auto picture = decode(file);
    ASSERT_TRUE(picture);
    EXPECT_EQ(picture->at(0, 0)[0], 10) << "row 0 is on the right";
    EXPECT_EQ(picture->at(1, 0)[0], 0);
}

// Surplus behind the last row is broken here: whoever inflated it would fail.
TEST(Png, is_not_inflated_behind_its_last_row) {
    const PngKind kind{.depth = 8, .colour_type = PNG_COLOR_TYPE_GRAY};
    Bytes file = png_file({.width = 4, .height = 4}, kind, [](auto, auto, auto) { return 9u; });
    Bytes raw = rows_of({.width = 4, .height = 4}, kind, [](auto, auto, auto) { return 9u; });
    Bytes surplus(40'000'000, 0);
    base::append(raw, surplus);
    Bytes stream = deflated(raw);
    stream.resize(stream.size() - 1000);
    base::append(stream, Bytes(1000, 0xff));
    Bytes bomb(file.begin(), file.begin() + 33);
    add_chunk(bomb, "IDAT", stream);
    add_chunk(bomb, "IEND", {});
    ASSERT_LT(stream.size(), 64u << 10);
    const auto picture = decode(bomb);
    ASSERT_TRUE(picture) << to_string(picture.error());
    EXPECT_EQ(picture->rgb, Bytes(48, 9));
}

TEST(Png, with_far_more_compressed_bytes_than_pixels_is_found_when_it_is_inspected) {
    const PngKind kind{
        .depth = 8, .colour_type = PNG_COLOR_TYPE_GRAY, .behind_rows = Bytes(100'000'000, 0)};
    const auto file =
        png_file({.width = 32, .height = 32}, kind, [](auto, auto, auto) { return 0u; });
    const auto refused = inspect(file);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("compressed bytes for 1056 bytes of pixels"),
              std::string::npos)
        << refused.error().message();
    EXPECT_FALSE(decode(file));
}

TEST(Png, whose_rows_are_missing_is_damaged) {
    const PngKind kind{.depth = 8, .colour_type = PNG_COLOR_TYPE_GRAY};
    Bytes file = png_file({.width = 4, .height = 4}, kind, [](auto, auto, auto) { return 9u; });
    Bytes without(file.begin(), file.begin() + 33);
    add_chunk(without, "IDAT", deflated(Bytes(10, 0)));
    add_chunk(without, "IEND", {});
    ASSERT_TRUE(inspect(without));
    const auto refused = decode(without);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("rows are missing"), std::string::npos)
        << refused.error().message();
    EXPECT_FALSE(inspect(ByteView(file).first(file.size() - 12))) << "IEND is cut off";
}

}  // namespace
}  // namespace dedloc::images
