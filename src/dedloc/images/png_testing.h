// PNG files of every kind, written chunk by chunk for tests.

#pragma once
#include <functional>
#include <png.h>
#include <zlib.h>

#include "dedloc/images/picture.h"

namespace dedloc::images {

inline void add_chunk(Bytes& file, std::string_view type, ByteView content) {
    base::put_u32_be(file, static_cast<std::uint32_t>(content.size()));
    Bytes checked = base::to_bytes(type);
    base::append(checked, content);
    base::append(file, checked);
    base::put_u32_be(file,
                     static_cast<std::uint32_t>(
                         ::crc32(0, checked.data(), static_cast<unsigned int>(checked.size()))));
}

inline Bytes deflated(ByteView raw) {
    uLongf size = ::compressBound(static_cast<uLong>(raw.size()));
    Bytes out(size);
    ::compress2(out.data(), &size, raw.data(), static_cast<uLong>(raw.size()), 6);
    out.resize(size);
    return out;
}

struct PngKind {
    std::uint8_t depth = 8;
    std::uint8_t colour_type = PNG_COLOR_TYPE_RGB;
    bool interlaced = false;
    // Chunks before the pixels: PLTE, tRNS, gAMA.
    std::vector<std::pair<std::string, Bytes>> chunks{};
    Bytes behind_rows{};  // inflated behind the last row
};

// `sample`: of a pixel's channel, in `depth` bits.
using PngSample =
    std::function<std::uint32_t(std::uint32_t x, std::uint32_t y, std::uint32_t channel)>;

inline Bytes rows_of(PictureSize size, const PngKind& kind, const PngSample& sample) {
    const std::uint32_t channels = kind.colour_type == PNG_COLOR_TYPE_RGB          ? 3
                                   : kind.colour_type == PNG_COLOR_TYPE_RGB_ALPHA  ? 4
                                   : kind.colour_type == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
                                                                                   : 1;
    Bytes raw;
    const auto add_row = [&](std::uint32_t y, auto column, std::uint32_t columns) {
        raw.push_back(0);  // no filter
        std::uint32_t bits = 0;
        std::uint32_t filled = 0;
        for (std::uint32_t i = 0; i < columns; ++i)
            for (std::uint32_t c = 0; c < channels; ++c) {
                bits = bits << kind.depth | sample(column(i), y, c);
                for (filled += kind.depth; filled >= 8; filled -= 8)
                    raw.push_back(static_cast<std::uint8_t>(bits >> (filled - 8)));
            }
        if (filled > 0) raw.push_back(static_cast<std::uint8_t>(bits << (8 - filled)));
    };
    if (!kind.interlaced) {
        for (std::uint32_t y = 0; y < size.height; ++y)
            add_row(
                y, [](std::uint32_t i) { return i; }, size.width);
        return raw;
    }
    for (int pass = 0; pass < 7; ++pass) {
        const auto columns = static_cast<std::uint32_t>(PNG_PASS_COLS(size.width, pass));
        const auto rows = static_cast<std::uint32_t>(PNG_PASS_ROWS(size.height, pass));
        for (std::uint32_t row = 0; columns > 0 && row < rows; ++row)
            add_row(
                static_cast<std::uint32_t>(PNG_ROW_FROM_PASS_ROW(row, pass)),
                [pass](std::uint32_t i) {
                    return static_cast<std::uint32_t>(PNG_COL_FROM_PASS_COL(i, pass));
                },
                columns);
    }
    return raw;
}

inline Bytes png_file(PictureSize size, const PngKind& kind, const PngSample& sample) {
    Bytes file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    Bytes header;
    base::put_u32_be(header, size.width);
    base::put_u32_be(header, size.height);
    base::append(header, Bytes{kind.depth, kind.colour_type, 0, 0, std::uint8_t{kind.interlaced}});
    add_chunk(file, "IHDR", header);
    for (const auto& [type, content] : kind.chunks) add_chunk(file, type, content);
    Bytes raw = rows_of(size, kind, sample);
    base::append(raw, kind.behind_rows);
    add_chunk(file, "IDAT", deflated(raw));
    add_chunk(file, "IEND", {});
    return file;
}

}  // namespace dedloc::images
