// [torchscript]: which model file, and how its data become tensors. No libtorch.
//
// Thread: any; pure.

#pragma once
#include <cstdint>

#include "dedloc/run/task_section.h"

namespace dedloc::tasks {

inline constexpr const char* torchscript_section_name = "torchscript";
inline constexpr const char* no_script_word = "none";

struct TorchScriptKeys {
    std::string model_hash = no_script_word;  // SHA-256 of the file; none: the host's task.model
    std::string held_out = no_script_word;    // as task.data; none: the last samples of it
    double mean = 0.5;                        // of bytes / 255
    double deviation = 0.5;
    std::uint64_t picture_side = 32;
    std::uint64_t text_length = 128;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        using run::Integers;
        using run::Numbers;
        visit("model_hash",
              self.model_hash,
              run::Text{.bytes_max = 64},
              "none: of the host's file, which task.model names");
        visit("held_out",
              self.held_out,
              run::Text{.bytes_max = 1024},
              "as task.data; none: the last twentieth of that");
        visit("mean", self.mean, Numbers{-10, 10}, "bytes become (byte / 255 - mean) / deviation");
        visit("deviation", self.deviation, Numbers{0.001, 1000});
        visit("picture_side", self.picture_side, Integers{8, 1024}, "of pictures: in pixels");
        visit("text_length", self.text_length, Integers{8, 8192}, "of text: bytes of a sample");
    }
};

inline TorchScriptKeys torchscript_keys(const run::TaskConfig& task) {
    return run::keys_of<TorchScriptKeys>(task, torchscript_section_name);
}

}  // namespace dedloc::tasks
