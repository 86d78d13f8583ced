// The line of text by which a helper program tells what the router said.

#include "dedloc/runtime/router_words.h"

#include <gtest/gtest.h>

namespace dedloc::runtime {
namespace {

PortMapping by_upnp() {
    return {.protocol = MappingProtocol::upnp,
            .internal_port = 4001,
            .external = {.host = "203.0.113.2", .port = 4010},
            .lease = 20min,
            .control = "http://192.168.1.1:5000/rootDesc.xml"};
}

TEST(RouterWords, a_mapping_survives_the_way) {
    for (const auto protocol : {MappingProtocol::nat_pmp, MappingProtocol::upnp}) {
        PortMapping mapping = by_upnp();
        mapping.protocol = protocol;
        if (protocol == MappingProtocol::nat_pmp) mapping.control.clear();
        const auto again = parse_mapped(answer_line(mapping), 4001);
        ASSERT_TRUE(again) << again.error().message();
        EXPECT_EQ(again->protocol, mapping.protocol);
        EXPECT_EQ(again->internal_port, 4001);
        EXPECT_EQ(again->external, mapping.external);
        EXPECT_EQ(again->lease, mapping.lease);
        EXPECT_EQ(again->control, mapping.control);
    }
}

TEST(RouterWords, what_went_wrong_is_said_in_words) {
    EXPECT_EQ(parse_mapped("none\n", 1).error(),
              Error(ErrorKind::not_found, "no router answered UPnP or NAT-PMP"));
    EXPECT_EQ(parse_mapped("refused not authorized\n", 1).error(),
              Error(ErrorKind::denied, "the router refused: not authorized"));
    EXPECT_TRUE(parse_unmapped("unmapped\n"));
    EXPECT_EQ(parse_unmapped("none\n").error().kind(), ErrorKind::not_found);
}

TEST(RouterWords, what_a_router_says_becomes_printable_and_short) {
    const std::string line = refused_line(std::string(4000, 'x') + "\n\x1b[2J");
    EXPECT_LT(line.size(), router_answer_bytes_max);
    EXPECT_EQ(refused_line("a\nb\x1b[2J\xff"), "refused a b [2J \n");
    EXPECT_EQ(parse_mapped(refused_line("a\nmapped"), 1).error().kind(), ErrorKind::denied);
}

TEST(RouterWords, a_line_that_is_none_of_ours_is_refused) {
    const std::string long_url = "http://192.168.1.1/" + std::string(router_url_bytes_max, 'x');
    for (const std::string& line :
         {std::string(""),
          std::string("mapped"),
          std::string("mapped nat-pmp 203.0.113.2 4001 1200 -"),  // without its end
          std::string("mapped nat-pmp 203.0.113.2 0 1200 -\n"),
          std::string("mapped nat-pmp 203.0.113.2 65536 1200 -\n"),
          std::string("mapped nat-pmp 203.0.113.2 4001 -1 -\n"),
          std::string("mapped nat-pmp example.org 4001 1200 -\n"),
          std::string("mapped nat-pmp 203.0.113.2 4001 1200 - -\n"),
          std::string("mapped pcp 203.0.113.2 4001 1200 -\n"),
          std::string("mapped upnp 203.0.113.2 4001 1200 http://example.org/\n"),
          std::string("mapped upnp 203.0.113.2 4001 1200 file:///etc/passwd\n"),
          "mapped upnp 203.0.113.2 4001 1200 " + long_url + "\n",
          std::string("mapped nat-pmp 203.0.113.2 4001 1200 -\nunmapped\n"),
          std::string(router_answer_bytes_max + 1, ' ')})
        EXPECT_EQ(parse_mapped(line, 4001).error().kind(), ErrorKind::peer_broke_protocol) << line;
    EXPECT_EQ(parse_mapped("mapped nat-pmp 203.0.113.2 4001 4294967295 -\n", 4001)->lease,
              std::chrono::hours(7 * 24));
}

TEST(RouterWords, only_a_plain_address_is_the_host_of_a_url) {
    EXPECT_EQ(host_of_url("http://192.168.1.1:5000/rootDesc.xml"), "192.168.1.1");
    EXPECT_EQ(host_of_url("http://192.168.1.1/x"), "192.168.1.1");
    EXPECT_EQ(host_of_url("http://192.168.1.1"), "192.168.1.1");
    for (const char* url : {"https://192.168.1.1/",
                            "http://router.local/",
                            "http://192.168.1.1@203.0.113.9/",
                            "http://[fe80::1]/",
                            "http://192.168.1.1/ x",
                            ""})
        EXPECT_EQ(host_of_url(url), "") << url;
}

}  // namespace
}  // namespace dedloc::runtime
