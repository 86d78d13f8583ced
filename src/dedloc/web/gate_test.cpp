#include "dedloc/web/gate.h"

#include <gtest/gtest.h>

namespace dedloc::web {
namespace {

constexpr const char* token = "0123456789abcdef0123456789abcdef";

GatePolicy policy() { return {.token = token, .on_loopback = true, .own_names = {"anna-pc"}}; }

Asked get(std::string path) {
    return {.method = "GET",
            .path = std::move(path),
            .host = "127.0.0.1:8470",
            .origin = {},
            .fetch_site = {},
            .authorization = std::string("Bearer ") + token,
            .query_token = {},
            .content_type = {}};
}

Asked post(std::string path) {
    Asked asked = get(std::move(path));
    asked.method = "POST";
    asked.content_type = "application/json";
    return asked;
}

int status_of(const Asked& asked, const GatePolicy& by = policy()) {
    const auto refusal = refusal_of(asked, by);
    return refusal ? refusal->status : 200;
}

TEST(Gate, lets_the_page_and_its_own_requests_pass) {
    Asked page = get("/");
    page.authorization.clear();
    EXPECT_EQ(status_of(page), 200);
    EXPECT_EQ(status_of(get("/api/run")), 200);
    Asked stream = get("/api/stream");
    stream.authorization.clear();
    stream.query_token = token;
    EXPECT_EQ(status_of(stream), 200);
    Asked action = post("/api/pause");
    action.origin = "http://127.0.0.1:8470";
    action.fetch_site = "same-origin";
    EXPECT_EQ(status_of(action), 200);
}

TEST(Gate, tells_nothing_without_the_token) {
    for (const char* path : {"/api/run", "/api/stream", "/api/nothing"}) {
        Asked asked = get(path);
        asked.authorization.clear();
        EXPECT_EQ(status_of(asked), 401) << path;
        asked.authorization = "Bearer 0123456789abcdef0123456789abcdee";
        EXPECT_EQ(status_of(asked), 401) << path;
        asked.authorization = std::string("Basic ") + token;
        EXPECT_EQ(status_of(asked), 401) << path;
    }
    GatePolicy without = policy();
    without.token.clear();  // never matches what is empty as well
    Asked asked = get("/api/run");
    asked.authorization = "Bearer ";
    EXPECT_EQ(status_of(asked, without), 401);
}

TEST(Gate, an_action_needs_the_token_in_a_header_and_json) {
    Asked asked = post("/api/pause");
    asked.authorization.clear();
    EXPECT_EQ(status_of(asked), 401);
    asked.query_token = token;  // a link, or a form, can have it there
    EXPECT_EQ(status_of(asked), 401);
    for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded"}) {
        Asked form = post("/api/pause");
        form.content_type = type;
        EXPECT_EQ(status_of(form), 415) << type;
    }
}

TEST(Gate, of_a_server_for_all_on_this_machine_asks_no_token_and_refuses_other_sites) {
    GatePolicy open = policy();
    open.asks_token = false;
    for (Asked asked : {get("/v1/models"), post("/v1/completions"), post("/api/pause")}) {
        EXPECT_EQ(status_of(asked), 200) << asked.path;
        asked.authorization = "Bearer sk-somebodys";
        EXPECT_EQ(status_of(asked), 401) << asked.path;
        EXPECT_EQ(status_of(asked, open), 200) << asked.path;
        Asked strange = asked;
        strange.origin = "http://evil.example";
        EXPECT_EQ(status_of(strange, open), 403) << asked.path;
        strange = asked;
        strange.host = "evil.example";
        EXPECT_EQ(status_of(strange, open), 421) << asked.path;
        open.on_loopback = false;
        EXPECT_EQ(status_of(asked, open), 401) << asked.path;
        open.on_loopback = true;
    }
}

TEST(Gate, refuses_names_that_were_made_to_lead_here) {
    for (const char* host : {"",
                             "evil.example",
                             "evil.example:8470",
                             "127.0.0.1.evil.example",
                             "anna-pc:8470",
                             "192.168.1.7:8470",
                             "[::1",
                             "a:b:c",
                             "127.evil:1"}) {
        Asked asked = get("/");
        asked.host = host;
        EXPECT_EQ(status_of(asked), 421) << host;
    }
    for (const char* host :
         {"localhost", "LocalHost:9000", "127.0.0.1:1", "127.8.9.1:8470", "[::1]:8470", "[::1]"}) {
        Asked asked = get("/");
        asked.host = host;
        EXPECT_EQ(status_of(asked), 200) << host;
    }
}

TEST(Gate, in_a_network_addresses_and_own_names_are_answered_and_metrics_need_the_token) {
    GatePolicy open = policy();
    open.on_loopback = false;
    for (const char* host : {"anna-pc:8470", "192.168.1.7:8470", "[2001:db8::1]:8470"}) {
        Asked asked = get("/");
        asked.host = host;
        EXPECT_EQ(status_of(asked, open), 200) << host;
    }
    Asked asked = get("/metrics");
    asked.host = "evil.example";
    EXPECT_EQ(status_of(asked, open), 421);
    asked.host = "192.168.1.7:8470";
    EXPECT_EQ(status_of(asked, open), 200);
    asked.authorization.clear();
    EXPECT_EQ(status_of(asked, open), 401);
    asked.host = "127.0.0.1:8470";
    EXPECT_EQ(status_of(asked), 200);
}

TEST(Gate, refuses_other_sites) {
    for (const char* origin : {"null",
                               "http://evil.example",
                               "https://127.0.0.1:8470",
                               "http://127.0.0.1:3000",
                               "http://localhost:8470"}) {
        Asked asked = post("/api/pause");
        asked.origin = origin;
        EXPECT_EQ(status_of(asked), 403) << origin;
    }
    Asked asked = get("/api/run");
    asked.fetch_site = "cross-site";
    EXPECT_EQ(status_of(asked), 403);
    asked = get("/metrics");
    asked.fetch_site = "cross-site";
    EXPECT_EQ(status_of(asked), 403);
    for (const char* method : {"PUT", "DELETE", "OPTIONS", "TRACE"}) {
        asked = get("/api/run");
        asked.method = method;
        EXPECT_EQ(status_of(asked), 405) << method;
    }
}

TEST(WebAddress, is_a_port_with_or_without_an_address) {
    EXPECT_EQ(parse_web_address("8470")->port, 8470);
    EXPECT_TRUE(parse_web_address("8470")->is_loopback());
    EXPECT_EQ(parse_web_address("0.0.0.0:80")->host, "0.0.0.0");
    EXPECT_FALSE(parse_web_address("0.0.0.0:80")->is_loopback());
    EXPECT_EQ(parse_web_address("[::]:0")->host, "::");
    EXPECT_TRUE(parse_web_address("[::1]:0")->is_loopback());
    EXPECT_TRUE(parse_web_address("localhost:1")->is_loopback());
    for (const char* wrong : {"",
                              "x",
                              "70000",
                              "-1",
                              "1.2.3:80",
                              "evil.example:80",
                              ":80",
                              "80x",
                              "127.0.0.1:",
                              "::1:80"})
        EXPECT_FALSE(parse_web_address(wrong)) << wrong;
}

}  // namespace
}  // namespace dedloc::web
