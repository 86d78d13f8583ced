// The run file's sections of the task text_to_image: [text_to_image], the transformer's sizes, and
// [pictures], how pictures become codes. No libtorch.
//
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "dedloc/base/bytes.h"
#include "dedloc/run/task_section.h"
#include "dedloc/tasks/pictures_key.h"
#include "dedloc/tasks/text_to_image/text_to_image_config.h"

namespace dedloc::tasks {

inline constexpr const char* text_to_image_section_name = "text_to_image";
inline constexpr const char* pictures_section_name = "pictures";
inline constexpr const char* decided_by_host = "none";  // of a hash

// Defaults are the published run's.
struct PicturesKeys {
    ImageCodesConfig sizes{.side = 256, .codes_side = 32, .codes = 8192, .width = 128};
    std::uint64_t codes_steps = 20000;
    double held_out = 0.02;
    std::string codes_hash = decided_by_host;
    std::string pictures_hash = decided_by_host;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        using run::Integers;
        using run::Numbers;
        visit("side", self.sizes.side, Integers{4, 1024}, "pixels, after the middle is cut out");
        visit("codes_side",
              self.sizes.codes_side,
              Integers{1, 128},
              "a picture is so many codes wide; the side over a power of two");
        visit("codes", self.sizes.codes, Integers{2, 65536}, "of the code book");
        visit("codes_width", self.sizes.width, Integers{4, 1024}, "channels of the autoencoder");
        visit("codes_steps",
              self.codes_steps,
              Integers{1, 10'000'000},
              "of 64 pictures, in which the host trains the autoencoder before the run begins");
        visit("held_out",
              self.held_out,
              Numbers{0.0001, 0.5},
              "of the pictures, where captions.jsonl holds out none");
        visit("codes_hash",
              self.codes_hash,
              run::Text{.bytes_max = 64},
              "none: of the autoencoder that the host trains; others get it from their peers");
        visit("pictures_hash",
              self.pictures_hash,
              run::Text{.bytes_max = pictures_key_bytes_max},
              "none: of the pictures that the host has; any: peers may have different ones");
    }
};

inline PicturesKeys pictures_keys(const run::TaskConfig& task) {
    return run::keys_of<PicturesKeys>(task, pictures_section_name);
}

// bad_input: sizes that make no model.
Result<TextToImageConfig> text_to_image_sizes(const run::TaskConfig& task);
Result<ImageCodesConfig> image_codes_sizes(const run::TaskConfig& task);

// Nothing: the host decides. bad_input: it is no hash.
Result<std::optional<Digest>> codes_hash_of(const run::TaskConfig& task);

}  // namespace dedloc::tasks
