#include "dedloc/tasks/torchscript/script_file.h"

#include "dedloc/base/file.h"
#include "dedloc/security/hash.h"
#include "dedloc/tasks/torchscript/script_archive.h"
#include "dedloc/tasks/torchscript/torchscript_section.h"
#include "dedloc/text/cache.h"

namespace dedloc::tasks {

namespace {

Result<std::string> kept_path(const Digest& hash) {
    DEDLOC_TRY(const std::string folder, text::default_cache_directory());
    return folder + "/script-" + hash.hex() + ".pt";
}

Result<Bytes> read_script(const std::string& path) {
    DEDLOC_TRY(const std::string file, base::read_file(path, script_file_bytes_max));
    return to_bytes(file);
}

bool is_plain_file_name(const std::string& name) {
    return !name.empty() && !name.starts_with('.') && name.find('/') == std::string::npos;
}

}  // namespace

Result<std::optional<Digest>> script_hash(const run::TaskConfig& task) {
    const std::string word = torchscript_keys(task).model_hash;
    if (word == no_script_word) return std::optional<Digest>();
    if (const auto bytes = base::from_hex(word)) {
        if (const auto digest = Digest::from(*bytes)) return std::optional<Digest>(*digest);
    }
    return make_error(ErrorKind::bad_input,
                      "torchscript.model_hash: '{}' is not a SHA-256 in hexadecimal, nor \"{}\"",
                      word,
                      no_script_word);
}

Result<Bytes> find_script_file(const run::TaskConfig& task, const TaskOptions& options) {
    DEDLOC_TRY(const std::optional<Digest> hash, script_hash(task));
    if (hash) {
        DEDLOC_TRY(const std::string kept, kept_path(*hash));
        if (auto file = read_script(kept); file && security::sha256(*file) == *hash) return file;
    }
    if (!is_plain_file_name(task.model))
        return make_error(ErrorKind::bad_input,
                          "task.model: '{}' is no file's name; give that of a TorchScript file in "
                          "--data, or where dedloc is called",
                          task.model);
    for (const std::string& folder : {options.data_directory, std::string(".")}) {
        if (folder.empty()) continue;
        auto file = read_script(folder + "/" + task.model);
        if (!file) {
            if (file.error().kind() == ErrorKind::not_found) continue;
            return file;
        }
        if (!hash || security::sha256(*file) == *hash) return file;
    }
    return make_error(ErrorKind::not_found,
                      "there is no TorchScript file {}{} in --data, or where dedloc is called; "
                      "torch.jit.script(model).save writes one",
                      task.model,
                      hash ? " with the run's hash" : "");
}

Result<std::optional<MissingFile>> missing_script(const run::TaskConfig& task,
                                                  const TaskOptions& options) {
    DEDLOC_TRY(const std::optional<Digest> hash, script_hash(task));
    if (!hash || find_script_file(task, options)) return std::optional<MissingFile>();
    return std::optional<MissingFile>(
        {.what = "model", .hash = *hash, .bytes_max = script_file_bytes_max});
}

Ok keep_script(const MissingFile& missing, ByteView file) {
    if (security::sha256(file) != missing.hash)
        return make_error(ErrorKind::bad_input, "the model has another hash than the run's");
    DEDLOC_TRY_VOID(ScriptArchive::parse(file));
    DEDLOC_TRY(const std::string path, kept_path(missing.hash));
    return text::alone_with(path, [&] { return text::write_file(path, base::as_text(file)); });
}

Ok inherit_script(run::TaskConfig& task, const run::TaskConfig* from) {
    TorchScriptKeys keys = torchscript_keys(task);
    const std::string known = from ? torchscript_keys(*from).model_hash : no_script_word;
    if (keys.model_hash == known) return {};
    if (keys.model_hash != no_script_word && known != no_script_word)
        return make_error(ErrorKind::bad_input,
                          "the checkpoint's model is the file {}, the run file names {}; with "
                          "torchscript.model_hash = \"none\" it takes the checkpoint's",
                          known,
                          keys.model_hash);
    if (known != no_script_word) keys.model_hash = known;
    task.set_section(run::section_from(torchscript_section_name, std::move(keys)));
    return {};
}

}  // namespace dedloc::tasks
