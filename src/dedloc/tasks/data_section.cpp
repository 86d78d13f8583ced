#include "dedloc/tasks/data_section.h"

#include "dedloc/security/hash.h"
#include "dedloc/tasks/text_section.h"
#include "dedloc/text/cache.h"
#include "dedloc/wire/message.h"

namespace dedloc::tasks {

namespace {

std::string name_in_cache(const Digest& name) { return "catalogues/" + name.hex(); }

// None: the run file leaves the catalogue to the host.
Result<std::optional<Digest>> catalogue_name(const run::TaskConfig& task) {
    return hash_from("data.catalogue", data_keys(task).catalogue);
}

SharedBytes catalogue_in_cache(const Digest& name) {
    return text::read_from_cache(name_in_cache(name), name, data::catalogue_bytes_max);
}

}  // namespace

DataKeys data_keys(const run::TaskConfig& task) {
    return run::keys_of<DataKeys>(task, data_section_name);
}

bool shares_data(const run::TaskConfig& task) { return data_keys(task).source == run_source; }

bool leaves_catalogue_open(const run::TaskConfig& task) {
    const DataKeys keys = data_keys(task);
    return keys.source == run_source && keys.catalogue == undecided_catalogue;
}

Ok check_data(const run::TaskConfig& task) {
    DEDLOC_TRY_VOID(catalogue_name(task));
    const DataKeys keys = data_keys(task);
    const bool is_said = keys.licence != unsaid && keys.origin != unsaid;
    if (keys.source != run_source || is_said) return {};
    return make_error(
        ErrorKind::bad_input,
        "{}: a run that sends its data to those who join says under which licence they are and "
        "where they are from, and both are shown before anything is downloaded; write "
        "licence = \"CC0-1.0\" and origin = \"https://…\" into [data]",
        keys.licence == unsaid ? "data.licence" : "data.origin");
}

Result<RunCatalogue> keep_catalogue(const data::Catalogue& catalogue) {
    RunCatalogue made;
    made.catalogue = std::make_shared<const data::Catalogue>(catalogue);
    made.file = SharedBytes(wire::encode(catalogue));
    if (made.file.size() > data::catalogue_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "the catalogue of this run's data has {} bytes, and {} are the most: "
                          "take fewer, larger files",
                          made.file.size(),
                          data::catalogue_bytes_max);
    made.name = security::sha256(*made.file);
    if (!catalogue_in_cache(made.name))
        DEDLOC_TRY_VOID(text::write_to_cache(name_in_cache(made.name), *made.file));
    return made;
}

Result<RunCatalogue> kept_catalogue(const run::TaskConfig& task) {
    DEDLOC_TRY(const auto name, catalogue_name(task));
    RunCatalogue kept;
    if (name) kept.file = catalogue_in_cache(*name);
    if (!kept.file)
        return make_error(ErrorKind::not_found,
                          "the catalogue of this run's data is not on this machine; its peers have "
                          "it, and those who join fetch it");
    kept.name = *name;
    DEDLOC_TRY(data::Catalogue catalogue, data::parse_catalogue(*kept.file));
    kept.catalogue = std::make_shared<const data::Catalogue>(std::move(catalogue));
    return kept;
}

Result<std::optional<MissingFile>> missing_catalogue(const run::TaskConfig& task,
                                                     const TaskOptions& options) {
    if (!shares_data(task) || options.unprepared) return std::optional<MissingFile>();
    DEDLOC_TRY(const auto name, catalogue_name(task));
    if (!name || catalogue_in_cache(*name)) return std::optional<MissingFile>();
    return std::optional<MissingFile>(
        {.what = catalogue_words, .hash = *name, .bytes_max = data::catalogue_bytes_max});
}

Ok keep_missing_catalogue(const MissingFile& missing, ByteView file) {
    DEDLOC_TRY_VOID(data::parse_catalogue(file));
    return text::write_to_cache(name_in_cache(missing.hash), file);
}

}  // namespace dedloc::tasks
