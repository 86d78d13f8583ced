#include "dedloc/monitor/json_line.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dedloc::monitor {
namespace {

TEST(JsonLine, words_that_are_not_utf8_are_written_all_the_same) {
    const nlohmann::ordered_json json{{"name",
                                       "pe\xff\xfe"
                                       "er"},
                                      {"step", 3}};
    EXPECT_THROW((void)json.dump(), nlohmann::json::exception);  // what would end the program
    EXPECT_EQ(json_line(json),
              "{\"name\":\"pe\xef\xbf\xbd\xef\xbf\xbd"
              "er\",\"step\":3}");
}

TEST(JsonLine, is_one_line_that_can_be_read_back) {
    const nlohmann::ordered_json json{{"text", "a\nb"}, {"word", "\xc3\xa4"}};
    const std::string line = json_line(json);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(nlohmann::ordered_json::parse(line), json);
}

}  // namespace
}  // namespace dedloc::monitor
