// The pieces of a text corpus, for a run whose host shares it (data_section.h): a block is a piece.
// No libtorch.
//
// Thread: any. Blocks: reads the whole text once.

#pragma once
#include <memory>

#include "dedloc/data/catalogue.h"
#include "dedloc/run/task_section.h"
#include "dedloc/text/corpus.h"

namespace dedloc::tasks {

// bad_input: a record that is too long for a piece; more pieces than a catalogue holds.
Result<data::OwnPieces> text_pieces(std::shared_ptr<const text::Corpus> corpus,
                                    const text::CorpusTable& table);

// conflict unless these are the pieces that the run file names.
Ok check_are_of_run(const data::OwnPieces& pieces, const run::TaskConfig& task);

}  // namespace dedloc::tasks
