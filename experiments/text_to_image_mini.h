// `dedloc-lab text-to-image-mini`: a small text-to-image transformer learns Debian's emoji with
// skin tones, in a collaboration whose peers come and go, and is asked for figures and tones that
// it has seen, but not together.
//
// Data: `dedloc data emoji` at 16 × 16, those that have a skin tone or are the figure without one;
// what that command holds out is held out. The run trains the image codes first (8 × 8 of 128).
// Four peers of this process; by global steps one is killed and another joins.
//
//   image_loss     of training pictures, nats a code (ln 128 = 4.85 at the start)
//   tone           of the held-out pictures, those that are likelier for their own caption than for
//                  the same with one of the four other tones (chance 0.20)
//   figure         of the pictures drawn for held-out captions, those whose nearest real picture
//                  shows the figure of the caption
//   edges          edge energy of the same, over that of the real pictures (picture_edges.h)
//   figure_of_codes, edges_of_codes
//                  the same of the held-out pictures' own codes: what the autoencoder leaves
//   by_guidance    figure and edges of what is drawn with other guidances (1: none)
//   state_hashes   how many different ones the living peers have in the end: 1
//
// --sheet FILE writes 16 held-out prompts: real pictures above, drawn ones below. --model FOLDER
// keeps the model, as `dedloc export` writes it.
//
// Cost: seven minutes of two cores, 1.5 GB of memory. Holds when tone >= 0.60, figure >= 0.60,
// edges >= 0.50, image_loss <= 0.8 and no hash differs. Needs libtorch and the packages of `dedloc
// data emoji`.
// Errors: exit code 9 when it does not hold; 5 without the data; 6 for the disk.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct TextToImageMiniCommand {
    std::uint64_t steps = 480;  // global steps of 64 samples
    double seconds_max = 600;   // of the training; then what there is is measured
    std::uint64_t seed = 1;
    double rate = 0.012;        // the learning rate's peak
    std::uint64_t words = 11;   // of a caption, as many as the longest has
    double caption_drop = 0.1;  // text_to_image.caption_drop, code_noise and guidance
    double code_noise = 0.1;
    double guidance = 2;
    bool alone = false;   // in a plain loop instead, to compare
    std::string sheet{};  // PNG file
    std::string model{};  // folder for the trained model
    bool json = false;
};

int run_text_to_image_mini(const TextToImageMiniCommand& command);

}  // namespace dedloc::lab
