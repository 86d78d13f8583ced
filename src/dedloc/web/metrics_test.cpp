#include "dedloc/web/metrics.h"

#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <sstream>

#include "dedloc/web/web_testing.h"

namespace dedloc::web {
namespace {

using enum membership::Phase;

std::string text_of_a_run() {
    RunStore store(testing::facts());
    for (std::uint64_t step = 1; step <= 4; ++step) store.record(testing::step_event(step));
    store.record(testing::event_of(1003, events::Evaluated{.step = 4, .accuracy = 0.5, .loss = 1}));
    store.update(testing::snapshot_of({testing::status_of(1, computing)}, 1003));
    return metrics_text(store.sums());
}

std::set<std::string> names_in(const std::string& text) {
    std::set<std::string> names;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (!line.starts_with('#')) names.insert(line.substr(0, line.find_first_of("{ ")));
    return names;
}

TEST(Metrics, have_the_numbers_of_the_events) {
    const std::string text = text_of_a_run();
    for (const char* line : {"dedloc_step 4\n",
                             "dedloc_samples 4096\n",
                             "dedloc_steps_seen_total 4\n",
                             "dedloc_step_time_seconds_total{part=\"computing\"} 1\n",
                             "dedloc_step_time_seconds_total{part=\"averaging\"} 0.25\n",
                             "dedloc_last_step_timestamp_seconds 1002\n",
                             "dedloc_last_step_loss 0.25\n",
                             "dedloc_accuracy_ratio 0.5\n",
                             "dedloc_peers 1\n",
                             "dedloc_events_total{kind=\"step\"} 4\n",
                             "dedloc_line_bytes_per_second{direction=\"up\"} 1000000\n"})
        EXPECT_NE(text.find(line), std::string::npos) << line << text;
    EXPECT_NE(text.find(R"(dedloc_run_info{name="words \"and\" more",hash=")"), std::string::npos);
}

TEST(Metrics, are_those_that_the_page_documents) {
    std::ifstream file(DEDLOC_SOURCE "/docs/web.md");
    std::set<std::string> documented;
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("| `dedloc_")) continue;
        const std::string names = line.substr(0, line.find('|', 1));
        for (std::size_t at = names.find("`dedloc_"); at != std::string::npos;
             at = names.find("`dedloc_", at + 1))
            documented.insert(names.substr(at + 1, names.find('`', at + 1) - at - 1));
    }
    EXPECT_EQ(names_in(text_of_a_run()), documented);
}

TEST(Metrics, each_has_one_type_and_a_meaning) {
    const std::string text = text_of_a_run();
    for (const std::string& name : names_in(text)) {
        const std::size_t at = text.find("# TYPE " + name + " ");
        EXPECT_NE(at, std::string::npos) << name;
        EXPECT_EQ(text.find("# TYPE " + name + " ", at + 1), std::string::npos) << name;
        EXPECT_NE(text.find("# HELP " + name + " "), std::string::npos) << name;
        const bool counts = text.find("# TYPE " + name + " counter\n") != std::string::npos;
        EXPECT_EQ(name.ends_with("_total"), counts) << name;
    }
}

}  // namespace
}  // namespace dedloc::web
