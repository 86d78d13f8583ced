#include "dedloc/monitor/legend.h"

#include <gtest/gtest.h>
#include <string>

#include "dedloc/monitor/terminal_view.h"

namespace dedloc::monitor {
namespace {

std::string text_of(const std::vector<Line>& lines) {
    std::string text;
    for (const Line& line : lines) text += to_text(line, /*colored=*/false) + "\n";
    return text;
}

TEST(Legend, explains_every_column_and_what_its_colours_mean) {
    const std::string text = text_of(legend(110, 60));
    for (const char* word : {"peer ",
                             "role ",
                             "speed ",
                             "step ",
                             "doing ",
                             "state ",
                             "differs ",
                             "limit ",
                             "banned ",
                             "experts ",
                             "any key: back to the run"})
        EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
}

TEST(Legend, shows_its_terms_in_the_views_own_colours) {
    std::string text;
    for (const Line& line : legend(110, 60)) text += to_text(line, /*colored=*/true);
    EXPECT_NE(text.find("\x1b[31mdiffers"), std::string::npos);
    EXPECT_NE(text.find("\x1b[36maveraging"), std::string::npos);
    EXPECT_NE(text.find("\x1b[32mstate"), std::string::npos);
}

TEST(Legend, is_whole_on_a_usual_terminal_and_fits_any) {
    EXPECT_NE(text_of(legend(79, 23)).find("what happened"), std::string::npos)
        << text_of(legend(79, 23));
    for (std::size_t width = view_width_min; width <= view_width_max; width += 7)
        for (std::size_t height : {view_height_min, std::size_t{15}, std::size_t{60}}) {
            const auto lines = legend(width, height);
            EXPECT_LE(lines.size(), height);
            for (const Line& line : lines) EXPECT_LE(columns_of(line), width);
        }
}

}  // namespace
}  // namespace dedloc::monitor
