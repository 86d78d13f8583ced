// `dedloc-lab language-mini`: a small decoder learns the King James Bible in a collaboration of
// real processes, and alone after as many samples.
//
// The host alone has the text; the others join with `--yes`, caches of their own and no data, and
// fetch what they train on. Of four peers one is killed; another joins later.
//
//   bits_per_byte   of held-out text, in the end; bits_per_byte_alone: of one process
//   loss            nats a token, likewise; ratio: together over alone
//   host_sent_mb    of the text
//   state_hashes    how many different ones the living peers have in the end: 1
//   texts           what the model wrote behind the prompt at three checkpoints
//
// Cost: 345 s of processor, 4.3 minutes of two cores; 2.5 GB of memory. Holds when
// bits_per_byte <= 2.3, the loss is at most 1 % above that alone, no hash differs, and all that
// were not killed ended in order.
// Needs libtorch, the package bible-kjv, and the `dedloc` beside this program.
// Errors: exit code 9 when it does not hold; 5 without the data; 6 for the disk.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct LanguageMiniCommand {
    std::uint64_t steps = 480;  // global steps of 16 samples
    double rate = 0.003;        // the learning rate's peak
    std::string prompt = "And God said unto";
    std::string program{};    // the dedloc to start; empty: the one beside this
    std::string directory{};  // for the peers' files, kept; empty: a temporary one
    bool alone = false;       // one process and nothing else, measured as it learns
    bool json = false;
};

int run_language_mini(const LanguageMiniCommand& command);

}  // namespace dedloc::lab
