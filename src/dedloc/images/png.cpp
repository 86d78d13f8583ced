// libpng reports errors by longjmp. It jumps only over its own C frames and over functions here
// that own nothing: buffers belong to their callers.
//
// libpng's simplified interface is not used for reading: it takes 16-bit samples as linear light,
// and inflates whatever follows the last row.

#include "dedloc/images/png.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <optional>
#include <png.h>
#include <zlib.h>

#include "dedloc/images/orientation.h"

namespace dedloc::images {
namespace {

constexpr std::size_t signature_bytes = 8;
constexpr std::size_t chunk_frame_bytes = 12;  // size, type, checksum
constexpr std::size_t header_bytes = 13;       // IHDR's content
constexpr std::size_t palette_bytes_max = 768;
// Beyond what the pixels need uncompressed: deflate at its worst adds a thousandth.
constexpr std::uint64_t compressed_surplus_max = 64u << 10;
constexpr int passes_max = 7;
constexpr std::uint32_t white = 65'535;

struct Chunk {
    std::string_view type;
    ByteView content;
    ByteView whole;
};

Error damaged_png(std::string_view how) {
    return make_error(ErrorKind::bad_input, "the PNG file is damaged or cut off ({})", how);
}

// The chunks of a file, one by one.
class Chunks {
  public:
    explicit Chunks(ByteView file) : rest_(file.subspan(signature_bytes)) {}

    Result<Chunk> next() {
        if (rest_.size() < chunk_frame_bytes) return damaged_png("it has no end");
        base::ByteReader reader(rest_);
        DEDLOC_TRY(const std::uint32_t size, reader.u32_be());
        if (rest_.size() - chunk_frame_bytes < size) return damaged_png("a chunk is not whole");
        const Chunk chunk{.type = base::as_text(rest_.subspan(4, 4)),
                          .content = rest_.subspan(8, size),
                          .whole = rest_.first(chunk_frame_bytes + size)};
        rest_ = rest_.subspan(chunk.whole.size());
        return chunk;
    }

  private:
    ByteView rest_;
};

struct Header {
    PictureSize size;
    std::uint32_t bits_per_pixel = 0;
    bool interlaced = false;
};

struct Facts {
    Header header;
    double gamma = 0;  // of the samples; 0: not stated
    Orientation orientation = Orientation::top_left;
};

std::uint32_t channels_of(std::uint8_t colour_type) {
    switch (colour_type) {
        case PNG_COLOR_TYPE_GRAY:
        case PNG_COLOR_TYPE_PALETTE:
            return 1;
        case PNG_COLOR_TYPE_GRAY_ALPHA:
            return 2;
        case PNG_COLOR_TYPE_RGB:
            return 3;
        case PNG_COLOR_TYPE_RGB_ALPHA:
            return 4;
        default:
            return 0;
    }
}

Result<Header> header_of(const Chunk& chunk) {
    if (chunk.type != "IHDR" || chunk.content.size() != header_bytes)
        return damaged_png("it does not begin with IHDR");
    base::ByteReader checksum(chunk.whole.last(4));
    DEDLOC_TRY(const std::uint32_t crc, checksum.u32_be());
    if (::crc32(0, chunk.whole.data() + 4, header_bytes + 4) != crc)
        return damaged_png("IHDR: CRC error");
    base::ByteReader reader(chunk.content);
    Header header;
    DEDLOC_TRY(header.size.width, reader.u32_be());
    DEDLOC_TRY(header.size.height, reader.u32_be());
    header.bits_per_pixel = chunk.content[8] * channels_of(chunk.content[9]);
    header.interlaced = chunk.content[12] != 0;
    if (header.bits_per_pixel == 0 || header.bits_per_pixel > 64)
        return damaged_png("IHDR: no such kind of pixels");
    DEDLOC_TRY_VOID(check_size(header.size));
    return header;
}

// Rows and columns of one pass; all of them where nothing is interlaced.
PictureSize pass_size(const Header& header, int pass) {
    if (!header.interlaced) return pass == 0 ? header.size : PictureSize{};
    return {static_cast<std::uint32_t>(PNG_PASS_COLS(header.size.width, pass)),
            static_cast<std::uint32_t>(PNG_PASS_ROWS(header.size.height, pass))};
}

// The rows as they are inflated, with a filter's byte before each.
std::uint64_t raw_bytes(const Header& header) {
    std::uint64_t bytes = 0;
    for (int pass = 0; pass < passes_max; ++pass) {
        const PictureSize size = pass_size(header, pass);
        if (size.width == 0) continue;
        bytes += size.height * ((std::uint64_t{size.width} * header.bits_per_pixel + 7) / 8 + 1);
    }
    return bytes;
}

// The gamma that gAMA states, where it is one that cameras and programs write.
double gamma_of(ByteView content) {
    if (content.size() != 4) return 0;
    base::ByteReader reader(content);
    const auto value = reader.u32_be();
    const double gamma = value ? *value / 100'000.0 : 0;
    return gamma >= 0.1 && gamma <= 10 ? gamma : 0;
}

Result<Facts> facts_of(ByteView file) {
    Chunks chunks(file);
    DEDLOC_TRY(Chunk chunk, chunks.next());
    Facts facts;
    DEDLOC_TRY(facts.header, header_of(chunk));
    std::uint64_t compressed = 0;
    bool states_space = false;  // sRGB, or a profile: gAMA then is for programs that know neither
    while (chunk.type != "IEND") {
        DEDLOC_TRY(chunk, chunks.next());
        if (chunk.type == "IDAT") compressed += chunk.content.size();
        if (chunk.type == "sRGB" || chunk.type == "iCCP") states_space = true;
        if (chunk.type == "gAMA") facts.gamma = gamma_of(chunk.content);
        if (chunk.type == "eXIf") facts.orientation = orientation_of_exif(chunk.content);
        if ((chunk.type == "PLTE" || chunk.type == "tRNS") &&
            chunk.content.size() > palette_bytes_max)
            return damaged_png("its palette is too large");
    }
    if (states_space) facts.gamma = 0;
    const std::uint64_t raw = raw_bytes(facts.header);
    if (compressed > raw + raw / 8 + compressed_surplus_max)
        return make_error(ErrorKind::bad_input,
                          "the PNG file has {} compressed bytes for {} bytes of pixels, which "
                          "would only cost time",
                          compressed,
                          raw);
    return facts;
}

// Samples of another gamma to sRGB's, in 16 bits; nullopt: they are near enough to it.
// pow's last bit, which processors may differ in, is far below a step of 8 bits.
std::optional<std::vector<std::uint16_t>> to_srgb(double gamma) {
    constexpr double screen = 2.2;
    constexpr double near = 0.05;  // libpng's threshold
    if (gamma == 0 || std::abs(gamma * screen - 1) < near) return std::nullopt;
    std::vector<std::uint16_t> table(white + 1);
    for (std::uint32_t i = 0; i <= white; ++i) {
        const double light = std::pow(i / double{white}, 1 / gamma);
        const double shade =
            light <= 0.0031308 ? 12.92 * light : 1.055 * std::pow(light, 1 / 2.4) - 0.055;
        table[i] = static_cast<std::uint16_t>(std::lround(shade * white));
    }
    return table;
}

struct PngReading {
    png_structp png = nullptr;
    png_infop info = nullptr;
    std::jmp_buf out{};
    char message[128] = {};
    const Header* header = nullptr;
    const std::uint16_t* to_srgb = nullptr;  // null: samples are sRGB
    Picture* picture = nullptr;
    std::uint64_t rows_left = 0;  // of all passes

    PngReading() = default;
    ~PngReading() { png_destroy_read_struct(&png, &info, nullptr); }
    PngReading(const PngReading&) = delete;
    PngReading& operator=(const PngReading&) = delete;
};

[[noreturn]] void give_up_png(png_structp png, png_const_charp why) {
    auto& reading = *static_cast<PngReading*>(png_get_error_ptr(png));
    std::snprintf(reading.message, sizeof reading.message, "%s", why);
    std::longjmp(reading.out, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void on_info(png_structp png, png_infop info) {
    png_set_expand(png);  // palettes, few bits, a transparent colour
    png_read_update_info(png, info);
}

// One pixel of 16-bit samples: grey or red, green, blue, then perhaps how opaque it is.
void put_pixel(const PngReading& reading,
               const std::uint32_t* samples,
               std::uint32_t channels,
               std::uint8_t* to) {
    const bool is_grey = channels < 3;
    const std::uint64_t opaque = channels % 2 == 0 ? samples[channels - 1] : white;
    for (std::uint32_t c = 0; c < 3; ++c) {
        std::uint64_t value = samples[is_grey ? 0 : c];
        if (reading.to_srgb) value = reading.to_srgb[value];
        constexpr std::uint64_t divisor = std::uint64_t{white} * 257;
        const std::uint64_t over_white = value * opaque + white * (white - opaque);
        to[c] = static_cast<std::uint8_t>((over_white + divisor / 2) / divisor);
    }
}

void on_row(png_structp png, png_bytep row, png_uint_32 number, int pass) {
    auto& reading = *static_cast<PngReading*>(png_get_progressive_ptr(png));
    if (!row || reading.rows_left == 0) return;
    const bool interlaced = reading.header->interlaced;
    const PictureSize size = pass_size(*reading.header, pass);
    if (number >= size.height) return;
    const std::uint32_t channels = png_get_channels(png, reading.info);
    const bool wide = png_get_bit_depth(png, reading.info) == 16;
    const std::uint32_t y =
        interlaced ? static_cast<std::uint32_t>(PNG_ROW_FROM_PASS_ROW(number, pass)) : number;
    for (std::uint32_t i = 0; i < size.width; ++i) {
        std::uint32_t samples[4] = {};
        for (std::uint32_t c = 0; c < channels; ++c, row += wide ? 2 : 1)
            samples[c] = wide ? std::uint32_t{row[0]} << 8 | row[1] : row[0] * 257u;
        const std::uint32_t x =
            interlaced ? static_cast<std::uint32_t>(PNG_COL_FROM_PASS_COL(i, pass)) : i;
        put_pixel(reading, samples, channels, reading.picture->at(x, y));
    }
    --reading.rows_left;
}

// False: reading.message says why.
bool begin_png(PngReading& reading) {
    if (setjmp(reading.out) != 0) return false;
    reading.png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, give_up_png, ignore_warning);
    if (reading.png) reading.info = png_create_info_struct(reading.png);
    if (!reading.info) {
        std::snprintf(reading.message, sizeof reading.message, "no memory for libpng");
        return false;
    }
    png_set_progressive_read_fn(reading.png, &reading, on_info, on_row, nullptr);
    return true;
}

bool feed_png(PngReading& reading, ByteView bytes) {
    if (setjmp(reading.out) != 0) return false;
    png_process_data(reading.png, reading.info, const_cast<png_bytep>(bytes.data()), bytes.size());
    return true;
}

bool makes_pixels(std::string_view type) {
    return type == "IHDR" || type == "PLTE" || type == "tRNS" || type == "IDAT";
}

}  // namespace

Result<PictureSize> inspect_png(ByteView file) {
    DEDLOC_TRY(const Facts facts, facts_of(file));
    return upright(facts.header.size, facts.orientation);
}

Result<Picture> decode_png(ByteView file) {
    DEDLOC_TRY(const Facts facts, facts_of(file));
    const auto table = to_srgb(facts.gamma);
    Picture picture = Picture::of_size(facts.header.size.width, facts.header.size.height);
    PngReading reading;
    reading.header = &facts.header;
    reading.to_srgb = table ? table->data() : nullptr;
    reading.picture = &picture;
    for (int pass = 0; pass < passes_max; ++pass) {
        const PictureSize size = pass_size(facts.header, pass);
        if (size.width > 0) reading.rows_left += size.height;
    }
    if (!begin_png(reading) || !feed_png(reading, file.first(signature_bytes)))
        return damaged_png(reading.message);
    Chunks chunks(file);
    while (reading.rows_left > 0) {
        DEDLOC_TRY(const Chunk chunk, chunks.next());
        if (chunk.type == "IEND") return damaged_png("rows are missing");
        if (makes_pixels(chunk.type) && !feed_png(reading, chunk.whole))
            return damaged_png(reading.message);
    }
    return upright(std::move(picture), facts.orientation);
}

Bytes encode_png(const Picture& picture) {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = picture.width;
    image.height = picture.height;
    image.format = PNG_FORMAT_RGB;
    png_alloc_size_t size = 0;
    const std::uint8_t* pixels = picture.rgb.data();
    DEDLOC_CHECK(png_image_write_get_memory_size(image, size, 0, pixels, 0, nullptr) != 0);
    Bytes file(size);
    DEDLOC_CHECK(png_image_write_to_memory(&image, file.data(), &size, 0, pixels, 0, nullptr) != 0);
    file.resize(size);
    return file;
}

}  // namespace dedloc::images
