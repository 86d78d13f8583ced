#include "dedloc/tasks/fashion_mnist.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <sys/stat.h>
#include <zlib.h>

#include "dedloc/base/bytes.h"

namespace dedloc::tasks {

namespace {

constexpr std::uint32_t images_magic = 2051;
constexpr std::uint32_t labels_magic = 2049;
constexpr std::size_t read_bytes_max = 1u << 20;

struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
};
using GzFile = std::unique_ptr<gzFile_s, Close>;

Error not_idx(const std::string& path, const std::string& why) {
    return make_error(ErrorKind::bad_input,
                      "{} is not the file it should be ({}); install it anew with: sudo apt-get "
                      "install --reinstall dataset-fashion-mnist",
                      path,
                      why);
}

// Fills `out` or says why not.
Result<void> read_exactly(gzFile_s* file, const std::string& path, std::span<std::uint8_t> out) {
    std::size_t done = 0;
    while (done < out.size()) {
        const auto wanted = static_cast<unsigned>(std::min(out.size() - done, read_bytes_max));
        const int got = gzread(file, out.data() + done, wanted);
        if (got < 0) return not_idx(path, "its compression is damaged");
        if (got == 0) {
            return not_idx(path, fmt::format("it ends {} bytes early", out.size() - done));
        }
        done += static_cast<std::size_t>(got);
    }
    return {};
}

// The header's words after the magic.
template <std::size_t words_count>
Result<std::array<std::uint32_t, words_count>> read_header(gzFile_s* file,
                                                           const std::string& path,
                                                           std::uint32_t magic) {
    std::array<std::uint8_t, 4 * (words_count + 1)> bytes{};
    DEDLOC_TRY_VOID(read_exactly(file, path, bytes));
    base::ByteReader reader(bytes);
    DEDLOC_TRY(const std::uint32_t found, reader.u32_be());
    if (found != magic) return not_idx(path, fmt::format("magic {}, not {}", found, magic));
    std::array<std::uint32_t, words_count> words{};
    for (std::uint32_t& word : words) {
        DEDLOC_TRY(word, reader.u32_be());
    }
    if (words[0] == 0 || words[0] > images_max) {
        return not_idx(path, fmt::format("it claims {} items", words[0]));
    }
    return words;
}

Result<void> expect_end(gzFile_s* file, const std::string& path) {
    std::uint8_t more = 0;
    const int got = gzread(file, &more, 1);
    if (got < 0) return not_idx(path, "its compression is damaged");
    if (got > 0) return not_idx(path, "more bytes follow than its header says");
    return {};
}

Result<GzFile> open_idx(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return make_error(ErrorKind::not_found,
                          "there is no {}; the Fashion-MNIST images come with a Debian package: "
                          "sudo apt-get install dataset-fashion-mnist; elsewhere --data names a "
                          "folder with its four files",
                          path);
    }
    GzFile file(gzopen(path.c_str(), "rb"));
    if (!file) {
        return make_error(ErrorKind::local_fault, "{} cannot be opened for reading", path);
    }
    return file;
}

}  // namespace

Result<LabelledImages> load_idx(const std::string& images_path, const std::string& labels_path) {
    LabelledImages images;
    DEDLOC_TRY(const GzFile pixels, open_idx(images_path));
    DEDLOC_TRY(const GzFile labels, open_idx(labels_path));

    DEDLOC_TRY(const auto shape, read_header<3>(pixels.get(), images_path, images_magic));
    if (shape[1] != image_side || shape[2] != image_side) {
        return not_idx(images_path, fmt::format("images of {} × {} pixels", shape[1], shape[2]));
    }
    DEDLOC_TRY(const auto count, read_header<1>(labels.get(), labels_path, labels_magic));
    if (count[0] != shape[0]) {
        return not_idx(labels_path, fmt::format("{} labels for {} images", count[0], shape[0]));
    }
    images.count = shape[0];
    images.pixels.resize(std::size_t{images.count} * image_pixels);
    DEDLOC_TRY_VOID(read_exactly(pixels.get(), images_path, images.pixels));
    DEDLOC_TRY_VOID(expect_end(pixels.get(), images_path));
    images.labels.resize(images.count);
    DEDLOC_TRY_VOID(read_exactly(labels.get(), labels_path, images.labels));
    DEDLOC_TRY_VOID(expect_end(labels.get(), labels_path));

    const std::uint8_t largest = *std::max_element(images.labels.begin(), images.labels.end());
    if (largest >= classes_count) {
        return not_idx(labels_path, fmt::format("a label {}", largest));
    }
    return images;
}

Result<FashionMnist> load_fashion_mnist(const std::string& directory) {
    FashionMnist data;
    DEDLOC_TRY(data.train,
               load_idx(directory + "/train-images-idx3-ubyte.gz",
                        directory + "/train-labels-idx1-ubyte.gz"));
    DEDLOC_TRY(data.test,
               load_idx(directory + "/t10k-images-idx3-ubyte.gz",
                        directory + "/t10k-labels-idx1-ubyte.gz"));
    return data;
}

}  // namespace dedloc::tasks
