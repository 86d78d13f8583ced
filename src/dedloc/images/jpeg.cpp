// libjpeg reports errors by longjmp. It jumps only over its own C frames and over functions here
// that own nothing: buffers belong to their callers.

#include "dedloc/images/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
// (before jpeglib.h, which uses FILE)
#include <jerror.h>
#include <jpeglib.h>

#include "dedloc/images/orientation.h"

namespace dedloc::images {
namespace {

struct Reading {
    jpeg_decompress_struct jpeg{};
    jpeg_error_mgr errors{};
    jpeg_progress_mgr progress{};
    std::jmp_buf out{};
    char message[JMSG_LENGTH_MAX] = {};

    ~Reading() { jpeg_destroy_decompress(&jpeg); }
};

Reading& reading_of(j_common_ptr jpeg) { return *static_cast<Reading*>(jpeg->client_data); }

[[noreturn]] void give_up(j_common_ptr jpeg) {
    jpeg->err->format_message(jpeg, reading_of(jpeg).message);
    std::longjmp(reading_of(jpeg).out, 1);
}

// Warnings of missing data are errors: libjpeg would make up the rest of the picture.
void on_message(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    const int code = jpeg->err->msg_code;
    if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE)
        give_up(jpeg);
}

void on_progress(j_common_ptr jpeg) {
    const jpeg_decompress_struct& reading = reading_of(jpeg).jpeg;
    const std::uint64_t pixels = std::uint64_t{reading.image_width} * reading.image_height;
    const std::uint64_t scans =
        std::min<std::uint64_t>(scans_max, scan_pixels_max / std::max<std::uint64_t>(pixels, 1));
    if (static_cast<std::uint64_t>(reading.input_scan_number) <= scans) return;
    std::snprintf(
        reading_of(jpeg).message, JMSG_LENGTH_MAX, "more than %d scans", static_cast<int>(scans));
    std::longjmp(reading_of(jpeg).out, 1);
}

void quiet(j_common_ptr) {}

void prepare(Reading& reading) {
    reading.jpeg.err = jpeg_std_error(&reading.errors);
    reading.errors.error_exit = give_up;
    reading.errors.emit_message = on_message;
    reading.errors.output_message = quiet;
    reading.progress.progress_monitor = on_progress;
    reading.jpeg.client_data = &reading;
}

// False: reading.message says why.
bool read_header(Reading& reading, ByteView file) {
    if (setjmp(reading.out) != 0) return false;
    jpeg_create_decompress(&reading.jpeg);
    reading.jpeg.client_data = &reading;
    reading.jpeg.progress = &reading.progress;
    jpeg_mem_src(&reading.jpeg, file.data(), file.size());
    jpeg_read_header(&reading.jpeg, TRUE);
    return true;
}

// Adobe's files hold the inverse of the ink: how much light each lets through.
void put_ink(const std::uint8_t* ink, bool inverse, std::uint8_t* rgb) {
    const auto light = [&](std::size_t c) { return inverse ? ink[c] : 255 - ink[c]; };
    for (std::size_t c = 0; c < 3; ++c)
        rgb[c] = static_cast<std::uint8_t>((light(c) * light(3) + 127) / 255);
}

// `row`: room for one row of the file's own colours; `pixels`: for the whole picture in RGB.
bool read_pixels(Reading& reading, std::uint8_t* row, std::uint8_t* pixels) {
    if (setjmp(reading.out) != 0) return false;
    jpeg_decompress_struct& jpeg = reading.jpeg;
    const bool four = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
    jpeg.out_color_space = four ? JCS_CMYK : JCS_RGB;
    jpeg.dct_method = JDCT_ISLOW;  // the same on every processor
    jpeg_start_decompress(&jpeg);
    while (jpeg.output_scanline < jpeg.output_height) {
        std::uint8_t* to = pixels + std::size_t{3} * jpeg.output_width * jpeg.output_scanline;
        JSAMPROW rows[1] = {four ? row : to};
        jpeg_read_scanlines(&jpeg, rows, 1);
        for (std::size_t x = 0; four && x < jpeg.output_width; ++x)
            put_ink(row + 4 * x, jpeg.saw_Adobe_marker != 0, to + 3 * x);
    }
    jpeg_finish_decompress(&jpeg);
    return true;
}

Error damaged_jpeg(const Reading& reading) {
    return make_error(
        ErrorKind::bad_input, "the JPEG file is damaged or cut off ({})", reading.message);
}

}  // namespace

Result<PictureSize> inspect_jpeg(ByteView file) {
    Reading reading;
    prepare(reading);
    if (!read_header(reading, file)) return damaged_jpeg(reading);
    const PictureSize stored = {reading.jpeg.image_width, reading.jpeg.image_height};
    DEDLOC_TRY_VOID(check_size(stored));
    return upright(stored, orientation_of_jpeg(file));
}

Result<Picture> decode_jpeg(ByteView file) {
    Reading reading;
    prepare(reading);
    if (!read_header(reading, file)) return damaged_jpeg(reading);
    DEDLOC_TRY_VOID(check_size({reading.jpeg.image_width, reading.jpeg.image_height}));
    Picture picture = Picture::of_size(reading.jpeg.image_width, reading.jpeg.image_height);
    Bytes row(std::size_t{4} * picture.width);
    if (!read_pixels(reading, row.data(), picture.rgb.data())) return damaged_jpeg(reading);
    return upright(std::move(picture), orientation_of_jpeg(file));
}

}  // namespace dedloc::images
