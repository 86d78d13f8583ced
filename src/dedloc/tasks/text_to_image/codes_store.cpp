#include "dedloc/tasks/text_to_image/codes_store.h"

#include <filesystem>

#include "dedloc/base/file.h"
#include "dedloc/security/hash.h"
#include "dedloc/tasks/text_to_image/text_to_image_section.h"
#include "dedloc/text/cache.h"

namespace dedloc::tasks {
namespace {

Result<std::string> codes_path(const char* how, const Digest& digest) {
    DEDLOC_TRY(const std::string folder, text::default_cache_directory());
    return fmt::format("{}/image-codes-{}-{}.safetensors", folder, how, digest.hex());
}

Result<Bytes> file_at(const std::string& path) {
    DEDLOC_TRY(const std::string content, base::read_file(path, codes_file_bytes_max));
    const ByteView view = as_bytes(content);
    return Bytes(view.begin(), view.end());
}

Ok write_codes(const std::string& path, ByteView file) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    return text::write_file(path, as_text(file));
}

}  // namespace

Result<Bytes> kept_codes(const Digest& hash) {
    DEDLOC_TRY(const std::string path, codes_path("of", hash));
    DEDLOC_TRY(Bytes file, file_at(path));
    if (security::sha256(file) == hash) return file;
    return make_error(ErrorKind::conflict, "{} is damaged: it has another hash", path);
}

Ok keep_codes(const Digest& hash, ByteView file) {
    if (security::sha256(file) != hash)
        return make_error(ErrorKind::conflict,
                          "image codes with the hash {}… came where {}… were wanted",
                          security::sha256(file).short_hex(),
                          hash.short_hex());
    DEDLOC_TRY(const std::string path, codes_path("of", hash));
    return write_codes(path, file);
}

Result<Bytes> trained_codes(const Digest& key) {
    DEDLOC_TRY(const std::string path, codes_path("by", key));
    return file_at(path);
}

Result<Bytes> train_codes(const Digest& key, const std::function<Result<Bytes>()>& train) {
    DEDLOC_TRY(const std::string path, codes_path("by", key));
    Bytes file;
    const auto make = [&]() -> Ok {
        if (auto there = file_at(path)) {
            file = *std::move(there);
            return {};
        }
        DEDLOC_TRY(file, train());
        DEDLOC_TRY_VOID(keep_codes(security::sha256(file), file));
        return write_codes(path, file);
    };
    DEDLOC_TRY_VOID(text::alone_with(path, make));
    return file;
}

Result<std::optional<MissingFile>> missing_codes(const run::TaskConfig& task,
                                                 const TaskOptions& /*options*/) {
    DEDLOC_TRY(const auto hash, codes_hash_of(task));
    if (!hash || kept_codes(*hash)) return std::optional<MissingFile>();
    return std::optional<MissingFile>(
        {.what = "image codes", .hash = *hash, .bytes_max = codes_file_bytes_max});
}

Ok keep_missing_codes(const MissingFile& missing, ByteView file) {
    return keep_codes(missing.hash, file);
}

bool leaves_codes_open(const run::TaskConfig& task) {
    const PicturesKeys keys = pictures_keys(task);
    return keys.codes_hash == decided_by_host || keys.pictures_hash == decided_by_host;
}

// The transformer knows the codes of one autoencoder and the numbers of its words.
Ok inherit_codes(run::TaskConfig& task, const run::TaskConfig* from) {
    PicturesKeys keys = pictures_keys(task);
    const std::string known = from ? pictures_keys(*from).codes_hash : decided_by_host;
    if (known == decided_by_host) {
        if (keys.codes_hash != decided_by_host) return {};
        return make_error(ErrorKind::bad_input,
                          "which image codes the model knows cannot be told, its run file is of "
                          "another version; copy pictures.codes_hash from its run.toml");
    }
    if (keys.codes_hash == known) return {};
    if (keys.codes_hash != decided_by_host)
        return make_error(ErrorKind::bad_input,
                          "the checkpoint's model knows the image codes {}, the run file names {}; "
                          "with pictures.codes_hash = \"none\" it takes the checkpoint's",
                          known,
                          keys.codes_hash);
    keys.codes_hash = known;
    task.set_section(run::section_from(pictures_section_name, std::move(keys)));
    return {};
}

}  // namespace dedloc::tasks
