// dedloc-lab downstream: is a small ALBERT that a collaboration pre-trained worth more on another
// task than the same one with random weights, and than a bag of words?
//
// Three real processes pre-train on Bengali text (verses and CLDR's names at 0.77 to 0.23), three
// others on the King James Bible; `dedloc finetune` then makes the rows, each of five seeds, which
// are also the splits:
//
//   verses   classes: revealed in Mecca or Medina, per verse, in Bengali. Holds where the
//            pre-trained model is right on 0.81 of the test split
//   topics   classes: Unicode's group of an emoji by its Bengali name and keywords; reported
//   names    entities: persons and places of the King James Bible, 400 sentences to learn from, a
//            fifth of the names in the test split alone. Holds where F1 is 10 points above random
//            weights; of 2,000 sentences random weights learn nearly as much
//
// All text without labels is pre-trained on, that of the test splits, too.
//
// Cost: about 15 minutes of two cores. Needs libtorch and the data of downstream_data.h.
// Errors: exit code 9 when a row does not hold; 5 without the data.

#pragma once
#include <string>
#include <vector>

namespace dedloc::lab {

struct DownstreamCommand {
    std::vector<std::string> rows;  // empty: all
    std::string program;            // the dedloc to start; empty: the one beside this
    std::string directory;          // for all files, kept; empty: a temporary one
    bool json = false;
};

std::vector<std::string> downstream_row_names();
int run_downstream(const DownstreamCommand& command);

}  // namespace dedloc::lab
