// [data]: whether each machine has the run's data, or the host shares them with those who join
// (docs/data.md), for all tasks that can share. No libtorch.
//
// A catalogue (data/catalogue.h) says what is shared; the run file names it by its hash. Newcomers
// fetch it as they fetch a tokenizer, and keep it in the user's cache.
//
// Thread: any; pure, but for catalogues (files in the cache). Blocks.

#pragma once
#include <memory>
#include <optional>
#include <string>

#include "dedloc/base/shared_bytes.h"
#include "dedloc/data/catalogue.h"
#include "dedloc/run/task_section.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

inline constexpr const char* data_section_name = "data";
inline constexpr const char* own_source = "own";
inline constexpr const char* run_source = "run";
inline constexpr const char* unsaid = "none";
inline constexpr const char* undecided_catalogue = "none";
inline constexpr const char* catalogue_words = "catalogue of the data";  // MissingFile::what

struct DataKeys {
    std::string source = own_source;
    std::string licence = unsaid;
    std::string origin = unsaid;
    std::string catalogue = undecided_catalogue;  // SHA-256 of the catalogue's file
    std::uint64_t bytes = 0;                      // of all data

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit("source",
              self.source,
              run::Choice{{own_source, run_source}},
              "own: each machine has them; run: the host sends them to those who join");
        visit("licence", self.licence, run::Text{.bytes_max = 256}, "shown before the download");
        visit("origin", self.origin, run::Text{.bytes_max = 512}, "likewise: who made them, where");
        visit("catalogue", self.catalogue, run::Text{.bytes_max = 64}, "none: the host decides it");
        visit("bytes", self.bytes, run::Integers{}, "likewise");
    }
};

DataKeys data_keys(const run::TaskConfig& task);
bool shares_data(const run::TaskConfig& task);
// Does the run file leave the catalogue to the host?
bool leaves_catalogue_open(const run::TaskConfig& task);
// bad_input: data are shared without a licence or an origin; a hash that is none.
Ok check_data(const run::TaskConfig& task);

// A catalogue with its file, which has the hash that the run file names.
struct RunCatalogue {
    Digest name;
    std::shared_ptr<const data::Catalogue> catalogue;
    SharedBytes file;
};
// Makes the file of what this machine shares, and keeps it in the cache.
Result<RunCatalogue> keep_catalogue(const data::Catalogue& catalogue);
// The run's catalogue, from the cache. not_found: it has to be fetched; bad_input: it makes no
// sense.
Result<RunCatalogue> kept_catalogue(const run::TaskConfig& task);

// The catalogue's part of TaskKind::missing_files and keep_file.
Result<std::optional<MissingFile>> missing_catalogue(const run::TaskConfig& task,
                                                     const TaskOptions& options);
Ok keep_missing_catalogue(const MissingFile& missing, ByteView file);

}  // namespace dedloc::tasks
