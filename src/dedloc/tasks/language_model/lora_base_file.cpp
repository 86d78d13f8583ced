#include "dedloc/tasks/language_model/lora_base_file.h"

#include <filesystem>

#include "dedloc/base/file.h"
#include "dedloc/security/hash.h"
#include "dedloc/tasks/language_model/language_model_section.h"
#include "dedloc/text/cache.h"

namespace dedloc::tasks {

namespace {

namespace fs = std::filesystem;

LoraConfig keys_of_model(const run::TaskConfig& task) {
    return run::keys_of<DecoderConfig>(task, language_model_section_name).lora;
}

Result<std::string> base_path(const Digest& name) {
    DEDLOC_TRY(const std::string cache, text::default_cache_directory());
    return cache + "/bases/" + name.hex() + ".safetensors";
}

}  // namespace

bool leaves_base_open(const run::TaskConfig& task) {
    const LoraConfig keys = keys_of_model(task);
    return keys.is_on() && keys.base_hash == undecided_hash;
}

Ok keep_lora_base(const Digest& name, ByteView file) {
    DEDLOC_TRY(const std::string path, base_path(name));
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    if (error)
        return make_error(ErrorKind::local_fault,
                          "cannot make the folder {}: {}",
                          fs::path(path).parent_path().string(),
                          error.message());
    return text::write_file(path, as_text(file));
}

std::optional<std::string> lora_base_in_cache(const Digest& name) {
    const auto path = base_path(name);
    if (!path) return std::nullopt;
    auto content = base::read_file(*path, lora_base_bytes_max);
    if (!content || security::sha256(as_bytes(*content)) != name) return std::nullopt;
    return *std::move(content);
}

Result<std::optional<MissingFile>> missing_lora_base(const run::TaskConfig& task) {
    const LoraConfig keys = keys_of_model(task);
    if (!keys.is_on()) return std::optional<MissingFile>();
    DEDLOC_TRY(const auto name, hash_from("language_model.base_hash", keys.base_hash));
    if (!name || lora_base_in_cache(*name)) return std::optional<MissingFile>();
    return std::optional<MissingFile>(
        {.what = lora_base_words, .hash = *name, .bytes_max = lora_base_bytes_max});
}

}  // namespace dedloc::tasks
