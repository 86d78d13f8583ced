#include "dedloc/tasks/shared_text.h"

#include "dedloc/security/hash.h"
#include "dedloc/tasks/data_section.h"
#include "dedloc/wire/message.h"

namespace dedloc::tasks {

Result<data::OwnPieces> text_pieces(std::shared_ptr<const text::Corpus> corpus,
                                    const text::CorpusTable& table) {
    std::vector<std::uint32_t> sizes = corpus->block_sizes();
    auto read = [corpus = std::move(corpus)](std::uint64_t block) -> Result<Bytes> {
        DEDLOC_TRY(const std::string text, corpus->block_text(static_cast<std::uint32_t>(block)));
        return to_bytes(text);
    };
    return data::catalogue_of(std::move(sizes), wire::encode(table), std::move(read));
}

Ok check_are_of_run(const data::OwnPieces& pieces, const run::TaskConfig& task) {
    const std::string here = security::sha256(wire::encode(pieces.catalogue)).hex();
    const std::string wanted = data_keys(task).catalogue;
    if (here == wanted) return {};
    return make_error(ErrorKind::conflict,
                      "the text here is another than this run shares (catalogue {:.12}…, not "
                      "{:.12}…): take the same files as the run's host, or leave --data out and "
                      "take them from the run",
                      here,
                      wanted);
}

}  // namespace dedloc::tasks
