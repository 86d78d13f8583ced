// CaptionTokens: a folder of captioned pictures as what the transformer learns from: a row of word
// numbers and a row of image codes for each picture.
//
// The words are those of the training captions; the autoencoder is the run's, or trained here on
// the training pictures if the run file names none. Codes are kept in the user's cache: a folder is
// encoded once. A rounding may tip a code on another machine: that peer learns a slightly other
// picture.
//
// Cost: reads every picture once. Thread: any, after open(). Errors: not_found: no folder, a
// picture of captions.jsonl is missing, or the run's image codes; conflict: other pictures than the
// host's; bad_input: no captions.

#pragma once
#include <memory>
#include <string>

#include "dedloc/images/folder.h"
#include "dedloc/tasks/text_to_image/picture_codec.h"
#include "dedloc/tasks/text_to_image/text_to_image_section.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

// Bytes of pictures that the autoencoder is trained on; of a larger folder it sees an even part.
inline constexpr std::size_t codec_pictures_bytes_max = 512u << 20;

struct TokenRows {
    torch::Tensor captions;  // [pictures, text_length] int32
    torch::Tensor codes;     // [pictures, codes_side²] int32

    std::int64_t count() const { return captions.size(0); }
};

struct CaptionTokens {
    TokenRows train;
    TokenRows held_out;
    std::vector<std::string> train_captions;
    std::vector<std::string> held_out_captions;
    std::vector<std::size_t> held_out_pictures;  // numbers in the folder
    std::shared_ptr<const PictureCodec> codec;
    std::shared_ptr<const images::ImageFolder> folder;  // null: made up
    std::string pictures_key = Digest().hex();          // tasks/pictures_key.h

    // With options.unprepared nothing is trained or encoded that is not in the cache already, and
    // without a folder all is made up: the sizes are right, and the numbers random.
    static Result<std::shared_ptr<const CaptionTokens>> open(const run::TaskConfig& config,
                                                             const TaskOptions& options);
};

}  // namespace dedloc::tasks
