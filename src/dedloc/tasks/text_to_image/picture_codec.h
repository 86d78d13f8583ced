// PictureCodec: what turns captions and pictures into a transformer's tokens and back: the words of
// the training captions and the autoencoder of a run, in one file that peers give each other.
//
// The file is safetensors: the autoencoder's tensors, and the words, by their numbers, in its
// metadata.
//
// Thread: any, after it is made. Errors: bad_input: no such file, or of other sizes.

#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "dedloc/images/picture.h"
#include "dedloc/tasks/text_to_image/caption_words.h"
#include "dedloc/tasks/text_to_image/image_codes.h"

namespace dedloc::tasks {

class PictureCodec {
  public:
    static Result<std::shared_ptr<const PictureCodec>> parse(ByteView file,
                                                             const ImageCodesConfig& sizes);
    // Not trained: for sizes, times and memory alone.
    static std::shared_ptr<const PictureCodec> untrained(const ImageCodesConfig& sizes,
                                                         CaptionWords words);

    const CaptionWords& words() const { return words_; }
    const Bytes& file() const { return file_; }
    const Digest& hash() const { return hash_; }
    const ImageCodesConfig& sizes() const { return codes_->config(); }

    // pictures [n, 3, side, side] in 0 … 1 to [n, codes_side²] int64, and back.
    torch::Tensor encode(const torch::Tensor& pictures) const { return codes_->encode(pictures); }
    torch::Tensor decode(const torch::Tensor& codes) const { return codes_->decode(codes); }
    std::vector<images::Picture> draw(const torch::Tensor& codes) const;

  private:
    PictureCodec(std::shared_ptr<ImageCodes> codes, CaptionWords words)
        : codes_(std::move(codes)), words_(std::move(words)) {}

    std::shared_ptr<ImageCodes> codes_;
    CaptionWords words_;
    Bytes file_;
    Digest hash_;
};

// [n, 3, side, side] uint8 of the middles of pictures.
torch::Tensor square_of(const images::Picture& picture, std::int64_t side);

struct CodecTraining {
    ImageCodesConfig sizes{};
    std::uint64_t steps = 720;
    std::uint64_t seed = 1;
    std::function<void(std::uint64_t steps_done)> progress{};
};

// Trains the autoencoder on pictures [n, 3, side, side] uint8; the file.
Bytes train_codec(const torch::Tensor& pictures,
                  const CaptionWords& words,
                  const CodecTraining& training);

}  // namespace dedloc::tasks
