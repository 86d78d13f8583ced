#include "dedloc/web/server.h"

#include <future>
#include <gtest/gtest.h>
#include <httplib.h>
#include <thread>
#include <utility>

#include "dedloc/web/page_files.h"
#include "dedloc/web/web_testing.h"

namespace dedloc::web {
namespace {

using nlohmann::json;
using enum membership::Phase;

constexpr const char* json_body = "application/json";

class ServerTest : public ::testing::Test {
  protected:
    ServerTest() : store_(testing::facts()) {
        for (std::uint64_t step = 1; step <= 3; ++step) store_.record(testing::step_event(step));
        look();
        Actions actions;
        actions["pause"] = [this](const auto&) -> Result<nlohmann::ordered_json> {
            ++paused_;
            return nlohmann::ordered_json{{"paused", true}};
        };
        actions["limit"] = [](const auto&) -> Result<nlohmann::ordered_json> {
            return make_error(ErrorKind::bad_input, "that is no cap");
        };
        auto started =
            Server::start(store_, std::move(actions), {.where = {.port = 0}, .is_default = false});
        EXPECT_TRUE(started);
        server_ = *std::move(started);
        token_ = token_in(server_->address());
    }

    void look() { store_.update(testing::snapshot_of({testing::status_of(1, computing)}, 1002)); }
    httplib::Client client() const { return httplib::Client("127.0.0.1", server_->port()); }
    httplib::Headers with_token() const { return {{"Authorization", "Bearer " + token_}}; }
    // 0: no answer.
    int status_of_get(const char* path, const httplib::Headers& headers = {}) const {
        const auto answer = client().Get(path, headers);
        return answer ? answer->status : 0;
    }
    int status_of_post(const char* path,
                       const httplib::Headers& headers,
                       const std::string& body = "{}",
                       const char* type = json_body) const {
        const auto answer = client().Post(path, headers, body, type);
        return answer ? answer->status : 0;
    }

    RunStore store_;
    std::unique_ptr<Server> server_;
    std::string token_;
    std::atomic<int> paused_ = 0;
};

TEST_F(ServerTest, only_notebooks_of_this_machine_may_frame_a_page_and_only_where_that_is_asked) {
    const auto policy = [](int port) {
        const auto page = httplib::Client("127.0.0.1", port).Get("/");
        return page ? page->get_header_value("Content-Security-Policy") : std::string();
    };
    EXPECT_TRUE(policy(server_->port()).ends_with("frame-ancestors 'none'"));
    auto framed = Server::start(
        store_, {}, {.where = {.port = 0}, .is_default = false, .in_notebooks = true});
    ASSERT_TRUE(framed);
    EXPECT_TRUE(policy((*framed)->port())
                    .ends_with("frame-ancestors http://localhost:* http://127.0.0.1:* "
                               "vscode-webview:"));
}

TEST_F(ServerTest, serves_its_page_with_a_policy_that_lets_nothing_else_in) {
    const auto page = client().Get("/");
    ASSERT_TRUE(page);
    EXPECT_EQ(page->status, 200);
    EXPECT_EQ(page->body, page_file("/")->bytes);
    EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
    EXPECT_TRUE(
        page->get_header_value("Content-Security-Policy").starts_with("default-src 'none'"));
    EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
    for (const PageFile& file : page_files()) {
        const auto got = client().Get("/" + std::string(file.name));
        ASSERT_TRUE(got) << file.name;
        EXPECT_EQ(got->body, file.bytes) << file.name;
    }
    EXPECT_EQ(status_of_get("/nothing.js"), 404);
    EXPECT_EQ(status_of_get("/../../etc/passwd"), 404);
}

TEST_F(ServerTest, tells_the_run_to_who_has_the_token) {
    ASSERT_EQ(token_.size(), 32u);
    for (const char* path : {"/api/run",
                             "/api/peers",
                             "/api/series",
                             "/api/rounds",
                             "/api/flows",
                             "/api/events",
                             "/api/events?after=2&limit=5"}) {
        EXPECT_EQ(status_of_get(path), 401) << path;
        const auto answer = client().Get(path, with_token());
        ASSERT_TRUE(answer) << path;
        EXPECT_EQ(answer->status, 200) << path;
        EXPECT_TRUE(json::parse(answer->body).is_object()) << path;
    }
    const auto run = client().Get(("/api/run?token=" + token_).c_str());
    ASSERT_TRUE(run);
    EXPECT_EQ(json::parse(run->body)["progress"]["step"], 3);
    EXPECT_EQ(status_of_get("/api/secret", with_token()), 404);
    EXPECT_EQ(status_of_get("/api/prompts/../../web", with_token()), 404);
}

TEST_F(ServerTest, an_action_needs_a_post_the_token_and_json) {
    EXPECT_EQ(status_of_post("/api/pause", {}), 401);
    EXPECT_EQ(status_of_post(("/api/pause?token=" + token_).c_str(), {}), 401);
    EXPECT_EQ(status_of_post("/api/pause", with_token(), "{}", "text/plain"), 415);
    EXPECT_EQ(status_of_get("/api/pause", with_token()), 404);
    EXPECT_EQ(status_of_post("/api/pause", with_token(), "no json"), 400);
    EXPECT_EQ(paused_, 0);
    const auto done = client().Post("/api/pause", with_token(), "{}", json_body);
    ASSERT_TRUE(done);
    EXPECT_EQ(json::parse(done->body), json::parse(R"({"ok":true,"paused":true})"));
    EXPECT_EQ(paused_, 1);
    const auto refused = client().Post("/api/limit", with_token(), "{}", json_body);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status, 400);
    EXPECT_EQ(json::parse(refused->body)["error"], "that is no cap");
    EXPECT_EQ(status_of_post("/api/revoke", with_token()), 404);
    EXPECT_EQ(status_of_post("/api/pause", with_token(), std::string(body_bytes_max + 1, ' ')),
              413);
}

TEST_F(ServerTest, names_and_sites_of_others_are_refused) {
    auto headers = with_token();
    headers.emplace("Host", "evil.example");
    EXPECT_EQ(status_of_get("/api/run", headers), 421);
    EXPECT_EQ(status_of_get("/", headers), 421);
    EXPECT_EQ(status_of_post("/api/pause", headers), 421);
    headers = with_token();
    headers.emplace("Origin", "http://evil.example");
    EXPECT_EQ(status_of_post("/api/pause", headers), 403);
    headers = with_token();
    headers.emplace("Sec-Fetch-Site", "cross-site");
    EXPECT_EQ(status_of_get("/api/run", headers), 403);
    EXPECT_EQ(paused_, 0);
}

// Reads a stream until `stop` says it has seen enough of it.
std::string read_stream(httplib::Client client,
                        const std::string& path,
                        const std::function<bool(const std::string&)>& stop) {
    std::string text;
    (void)client.Get(path.c_str(), [&](const char* data, std::size_t size) {
        text.append(data, size);
        return !stop(text);
    });
    return text;
}

TEST_F(ServerTest, streams_what_happens_until_the_end) {
    bool recorded = false;
    const std::string text =
        read_stream(client(), "/api/stream?token=" + token_, [&](const std::string& so_far) {
            if (!recorded && so_far.find("event: run") != std::string::npos) {
                recorded = true;
                store_.record(testing::step_event(4));
                look();
            }
            if (so_far.find("\"number\":4") != std::string::npos) store_.end("enough");
            return false;  // the server ends it
        });
    EXPECT_NE(text.find("id: 4\nevent: event\ndata: {\"number\":4,"), std::string::npos) << text;
    EXPECT_NE(text.find("event: over\ndata: {\"reason\":\"enough\"}"), std::string::npos);
}

TEST_F(ServerTest, one_viewer_too_many_is_told_and_a_place_that_is_free_again_is_given) {
    std::vector<std::thread> viewers;
    std::atomic<std::size_t> looking = 0;
    std::atomic<bool> enough = false;
    for (std::size_t i = 0; i < viewers_max; ++i)
        viewers.emplace_back([&] {
            bool counted = false;
            (void)read_stream(
                client(), "/api/stream?token=" + token_, [&](const std::string& so_far) {
                    if (!counted && !so_far.empty()) {
                        counted = true;
                        ++looking;
                        looking.notify_all();
                    }
                    return enough.load();
                });
        });
    for (std::size_t now = 0; (now = looking) < viewers_max;) looking.wait(now);
    EXPECT_EQ(status_of_get("/api/stream", with_token()), 503);
    EXPECT_EQ(status_of_get("/api/run", with_token()), 200);  // others are answered all the same
    enough = true;
    store_.end("all go");
    for (std::thread& viewer : viewers) viewer.join();
    int status = 503;
    for (int i = 0; i < 200 && status == 503; ++i)
        status = status_of_get("/api/stream", with_token());
    EXPECT_EQ(status, 200);
}

TEST_F(ServerTest, metrics_need_no_token_on_this_machine) {
    const auto metrics = client().Get("/metrics");
    ASSERT_TRUE(metrics);
    EXPECT_NE(metrics->body.find("dedloc_step 3\n"), std::string::npos);
    EXPECT_TRUE(metrics->get_header_value("Content-Type").starts_with("text/plain"));
}

TEST_F(ServerTest, a_port_that_is_taken_is_an_error_and_the_usual_ones_give_way) {
    RunStore other(testing::facts());
    const auto taken =
        Server::start(other, {}, {.where = {.port = server_->port()}, .is_default = false});
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().kind(), ErrorKind::local_fault);
    const auto one = Server::start(other, {}, {});
    const auto another = Server::start(other, {}, {});
    ASSERT_TRUE(one && another);
    EXPECT_NE((*one)->port(), (*another)->port());
    EXPECT_NE((*one)->address(), (*another)->address());
}

TEST_F(ServerTest, ends_while_somebody_looks) {
    std::promise<void> looks;
    std::thread viewer([this, &looks] {
        bool told = false;
        (void)read_stream(client(), "/api/stream?token=" + token_, [&](const std::string&) {
            if (!std::exchange(told, true)) looks.set_value();
            return false;
        });
    });
    looks.get_future().wait();
    server_.reset();
    viewer.join();
}

}  // namespace
}  // namespace dedloc::web
