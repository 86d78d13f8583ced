#include "dedloc/web/saved_page.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "dedloc/web/page_files.h"
#include "dedloc/web/web_testing.h"

namespace dedloc::web {
namespace {

using nlohmann::json;

// The contents of the script element with that attribute.
std::string script(const std::string& page, std::string_view attribute) {
    const std::size_t at = page.find(attribute);
    EXPECT_NE(at, std::string::npos) << attribute;
    const std::size_t begin = page.find('>', at) + 1;
    return page.substr(begin, page.find("</script>", begin) - begin);
}

TEST(SavedPage, it_has_what_the_store_knows_and_asks_nothing_of_anybody) {
    RunStore store(testing::facts(Mode::replay));
    for (std::uint64_t step = 1; step <= 3; ++step) store.record(testing::step_event(step));
    events::Event hostile = testing::event_of(1003, events::PeerLost{}, testing::peer(2));
    hostile.text = "</script><script>alert(1)</script>";
    store.record(hostile);
    store.update(testing::snapshot_of({testing::status_of(1, membership::Phase::computing)}, 1004));
    const std::string page = saved_page(store);

    const json told = json::parse(script(page, R"(id="saved")"));
    EXPECT_EQ(told["run"], json::parse(store.run_json()));
    EXPECT_EQ(told["series"], json::parse(store.series_json()));
    EXPECT_EQ(told["peers"], json::parse(store.peers_json()));
    EXPECT_EQ(told["rounds"]["rounds"].size(), 3u);
    EXPECT_EQ(told["flows"], json::parse(store.flows_json()));
    EXPECT_EQ(told["events"]["events"][3]["text"], hostile.text);
    EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
    // The page's own namespace of pictures is a name, not an address.
    for (const char* outside : {"src=\"", "href=\"base", "href=\"style", "https://"})
        EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

TEST(SavedPage, what_became_of_prompts_goes_with_it) {
    std::string pattern = ::testing::TempDir() + "dedloc-saved-XXXXXX";
    const std::string folder = ::mkdtemp(pattern.data());
    // Bytes whose base64 has both letters that a URL's lacks.
    std::ofstream(folder + "/step-5.png") << "\xfb\xef\xbe\xff";
    std::ofstream(folder + "/step-7.txt") << "</script> once";
    std::ofstream(folder + "/step-9.txt") << std::string(saved_sheet_bytes_max + 1, 'x');
    RunStore store(testing::facts(Mode::replay));
    const json sheets = json::parse(script(saved_page(store, folder), R"(id="saved")"))["sheets"];
    EXPECT_EQ(sheets["5.png"], "data:image/png;base64,++++/w");
    EXPECT_EQ(sheets["7.txt"], "</script> once");
    EXPECT_EQ(sheets.size(), 2u);
    std::filesystem::remove_all(folder);
}

TEST(SavedPage, every_script_is_in_its_map_and_calls_only_those) {
    RunStore store(testing::facts(Mode::replay));
    const json map = json::parse(script(saved_page(store), R"(type="importmap")"))["imports"];
    std::size_t scripts = 0;
    for (const PageFile& file : page_files()) {
        if (!file.name.ends_with(".js")) continue;
        ++scripts;
        const std::string address = map["dedloc/" + std::string(file.name)];
        EXPECT_TRUE(address.starts_with("data:text/javascript")) << file.name;
        for (std::size_t at = address.find("%22dedloc/"); at != std::string::npos;
             at = address.find("%22dedloc/", at + 1)) {
            const std::size_t begin = at + 3;
            EXPECT_TRUE(map.contains(address.substr(begin, address.find("%22", begin) - begin)));
        }
        EXPECT_EQ(address.find("%22./"), std::string::npos) << file.name;
    }
    EXPECT_EQ(map.size(), scripts);
}

}  // namespace
}  // namespace dedloc::web
