// dedloc-draw-emoji OUT LANGUAGE SIDE: Debian's colour emoji as PNG files of SIDE × SIDE pixels
// with captions.jsonl. `dedloc data emoji` runs it; dedloc itself links neither HarfBuzz nor
// FreeType.
//
// Standard output: one JSON object. Standard error and exit code 1: one sentence.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ft2build.h>
#include FT_FREETYPE_H
#include <hb-ft.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "dedloc/images/crops.h"
#include "dedloc/images/emoji_names.h"

namespace dedloc::images {
namespace {

constexpr const char* font_path = "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf";
constexpr const char* list_path = "/usr/share/unicode/emoji/emoji-test.txt";
constexpr const char* names_folder = "/usr/share/unicode/cldr/common";

Result<std::string> text_of(const std::string& path, const char* package) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    if (!file)
        return make_error(
            ErrorKind::not_found, "cannot read {} (Debian package {})", path, package);
    return text.str();
}

Result<EmojiNames> names_in(const std::string& language) {
    EmojiNames names;
    for (const char* folder : {"annotations", "annotationsDerived"}) {
        const std::string path = fmt::format("{}/{}/{}.xml", names_folder, folder, language);
        DEDLOC_TRY(const std::string text, text_of(path, "unicode-cldr-core"));
        DEDLOC_TRY_VOID(add_emoji_names(text, names));
    }
    return names;
}

class Font {
  public:
    static Result<std::unique_ptr<Font>> open() {
        auto font = std::unique_ptr<Font>(new Font());
        if (FT_Init_FreeType(&font->library_) != 0 ||
            FT_New_Face(font->library_, font_path, 0, &font->face_) != 0 ||
            font->face_->num_fixed_sizes < 1 || FT_Select_Size(font->face_, 0) != 0)
            return make_error(ErrorKind::not_found,
                              "cannot open the font {} (Debian package fonts-noto-color-emoji)",
                              font_path);
        font->shaper_ = hb_ft_font_create_referenced(font->face_);
        return font;
    }
    ~Font() {
        if (shaper_ != nullptr) hb_font_destroy(shaper_);
        if (face_ != nullptr) FT_Done_Face(face_);
        if (library_ != nullptr) FT_Done_FreeType(library_);
    }
    Font(const Font&) = delete;
    Font& operator=(const Font&) = delete;

    // Nothing: the font has no one glyph for it.
    Result<Picture> draw(const std::string& text) {
        hb_buffer_t* buffer = hb_buffer_create();
        hb_buffer_add_utf8(buffer, text.data(), static_cast<int>(text.size()), 0, -1);
        hb_buffer_guess_segment_properties(buffer);
        hb_shape(shaper_, buffer, nullptr, 0);
        unsigned count = 0;
        const hb_glyph_info_t* glyphs = hb_buffer_get_glyph_infos(buffer, &count);
        const unsigned glyph = count == 1 ? glyphs[0].codepoint : 0;
        hb_buffer_destroy(buffer);
        if (glyph == 0 || FT_Load_Glyph(face_, glyph, FT_LOAD_COLOR) != 0)
            return make_error(ErrorKind::not_found, "the font does not know it");
        const FT_Bitmap& bitmap = face_->glyph->bitmap;
        if (bitmap.pixel_mode != FT_PIXEL_MODE_BGRA || bitmap.width == 0 || bitmap.rows == 0)
            return make_error(ErrorKind::not_found, "the font has no colours for it");
        return on_white(bitmap);
    }

  private:
    Font() = default;

    // FreeType's colours are multiplied by their alpha already.
    static Picture on_white(const FT_Bitmap& bitmap) {
        const unsigned side = std::max(bitmap.width, bitmap.rows);
        Picture picture = Picture::of_size(side, side, 255);
        const unsigned left = (side - bitmap.width) / 2;
        const unsigned top = (side - bitmap.rows) / 2;
        for (unsigned y = 0; y < bitmap.rows; ++y)
            for (unsigned x = 0; x < bitmap.width; ++x) {
                const unsigned char* from =
                    bitmap.buffer + static_cast<std::ptrdiff_t>(y) * bitmap.pitch + 4 * x;
                std::uint8_t* to = picture.at(left + x, top + y);
                for (std::size_t c = 0; c < 3; ++c)
                    to[c] = static_cast<std::uint8_t>(std::min(255, from[2 - c] + 255 - from[3]));
            }
        return picture;
    }

    FT_Library library_ = nullptr;
    FT_Face face_ = nullptr;
    hb_font_t* shaper_ = nullptr;
};

Result<nlohmann::ordered_json> draw_all(const std::string& folder,
                                        const std::string& language,
                                        std::uint32_t side) {
    DEDLOC_TRY(const std::string list, text_of(list_path, "unicode-data"));
    DEDLOC_TRY(auto emoji, parse_emoji_list(list));
    DEDLOC_TRY(const EmojiNames english, names_in("en"));
    DEDLOC_TRY(const EmojiNames names, names_in(language));
    name_emoji(names, english, emoji);
    DEDLOC_TRY(const auto font, Font::open());
    std::error_code status;
    std::filesystem::create_directories(folder, status);
    std::ofstream captions(std::filesystem::path(folder) / "captions.jsonl");
    std::set<std::string> figures;
    std::size_t pictures = 0;
    std::size_t held_out = 0;
    for (const Emoji& one : emoji) {
        const auto drawn = font->draw(utf8_of(one.code_points, true));
        if (!drawn) continue;
        std::string name;
        for (const char32_t c : one.code_points)
            name += fmt::format("{}{:x}", name.empty() ? "" : "-", static_cast<std::uint32_t>(c));
        name += ".png";
        const Bytes png = encode_png(centre_crop(*drawn, side, 1));
        std::ofstream file(std::filesystem::path(folder) / name, std::ios::binary);
        file.write(reinterpret_cast<const char*>(png.data()),
                   static_cast<std::streamsize>(png.size()));
        captions << nlohmann::ordered_json{{"file", name},
                                           {"caption", one.caption},
                                           {"figure", one.figure},
                                           {"tone", one.tone},
                                           {"held_out", one.held_out}}
                        .dump()
                 << '\n';
        if (!file || !captions)
            return make_error(ErrorKind::local_fault, "cannot write to the folder {}", folder);
        ++pictures;
        held_out += one.held_out ? 1 : 0;
        if (!one.tone.empty()) figures.insert(one.figure);
    }
    return nlohmann::ordered_json{{"ok", true},
                                  {"folder", folder},
                                  {"pictures", pictures},
                                  {"held_out", held_out},
                                  {"figures_with_tones", figures.size()},
                                  {"side", side}};
}

}  // namespace
}  // namespace dedloc::images

int main(int count, char** arguments) {
    const long side = count == 4 ? std::strtol(arguments[3], nullptr, 10) : 0;
    if (side < 8 || side > dedloc::images::crop_side_max) {
        std::fputs("dedloc-draw-emoji OUT LANGUAGE SIDE, with a side of 8 to 1024 pixels\n",
                   stderr);
        return 2;
    }
    const auto done =
        dedloc::images::draw_all(arguments[1], arguments[2], static_cast<std::uint32_t>(side));
    if (!done) {
        std::fputs((done.error().message() + "\n").c_str(), stderr);
        return 1;
    }
    std::puts(done->dump().c_str());
    return 0;
}
