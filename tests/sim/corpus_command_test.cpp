#include "tests/sim/corpus_command.h"

#include <gtest/gtest.h>

namespace dedloc::lab {
namespace {

// `dedloc-lab corpus` does it with a gigabyte and sixteen homes.
TEST(Corpus, homes_take_a_small_corpus_from_each_other_and_go_on_without_the_host) {
    const CorpusCommand small{
        .megabytes = 200, .homes = 6, .cache_megabytes = 150, .alone_minutes = 2, .seed = 3};
    EXPECT_EQ(run_corpus(small), 0);
}

}  // namespace
}  // namespace dedloc::lab
