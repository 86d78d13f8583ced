#include "dedloc/api/server.h"

#include <atomic>
#include <condition_variable>
#include <gtest/gtest.h>
#include <httplib.h>
#include <mutex>
#include <thread>

#include "dedloc/api/page_files.h"

namespace dedloc::api {
namespace {

using nlohmann::json;

constexpr const char* json_body = "application/json";
constexpr std::uint64_t endless = text_tokens_max;

// A model that writes " 1 2 3 …", each word one token. After the first word it waits while
// `is_held`, and until its text is cancelled where `endless` tokens are asked for.
class CountingGenerator final : public tasks::Generator {
  public:
    std::uint64_t context() const override { return 32; }
    Result<std::uint64_t> prompt_tokens(const std::string& prompt) const override {
        if (prompt.size() >= 32) return make_error(ErrorKind::bad_input, "the prompt is too long");
        return std::uint64_t{prompt.size()};
    }
    Result<tasks::Writing> write(const tasks::WriteRequest& request) override {
        if (request.prompt == "fail") return make_error(ErrorKind::cannot_compute, "no memory");
        ++begun;
        tasks::Writing writing;
        while (writing.tokens < request.tokens_max) {
            std::this_thread::yield();
            const bool waits = request.tokens_max == endless || is_held;
            if (waits && writing.tokens > 0) {
                if (!request.told("")) break;
                continue;
            }
            ++writing.tokens;
            const std::string word = fmt::format(" {}", writing.tokens);
            writing.text += word;
            if (!request.told(word)) break;
        }
        ++ended;
        return writing;
    }

    std::atomic<bool> is_held = false;
    std::atomic<int> begun = 0;
    std::atomic<int> ended = 0;
};

class DrawingGenerator final : public tasks::Generator {
  public:
    Result<std::uint64_t> prompt_tokens(const std::string& prompt) const override {
        if (prompt == "xyzzy") return make_error(ErrorKind::bad_input, "no word is known");
        return std::uint64_t{1};
    }
    Result<tasks::Drawing> draw(const tasks::DrawRequest& request) override {
        tasks::Drawing drawing;
        for (std::size_t i = 0; i < request.count; ++i)
            drawing.pictures.push_back(images::Picture::of_size(2, 2, 7));
        return drawing;
    }
};

class ApiServer : public ::testing::Test {
  protected:
    ApiServer() { start({.model = "bible"}, generator_); }

    void start(ServedFacts facts, std::shared_ptr<tasks::Generator> generator) {
        server_.reset();
        auto started =
            Server::start(std::move(facts),
                          {.generator = std::move(generator), .step = 12, .fingerprint = "step-12"},
                          {.where = {.port = 0}});
        ASSERT_TRUE(started) << started.error().message();
        server_ = *std::move(started);
    }

    httplib::Client client() const {
        httplib::Client made("127.0.0.1", server_->port());
        made.set_read_timeout(30);
        return made;
    }
    httplib::Result post(const json& body, const char* path = "/v1/completions") const {
        return client().Post(path, body.dump(), json_body);
    }
    // Returns the message of an answer that is an error; empty: the answer is none.
    static std::string error_of(const httplib::Result& answer) {
        const json body = json::parse(answer->body, nullptr, false);
        return body.contains("error") ? body["error"]["message"].get<std::string>() : "";
    }
    static std::vector<json> events_of(const std::string& stream) {
        std::vector<json> events;
        for (std::size_t at = 0, end = 0; (end = stream.find("\n\n", at)) != std::string::npos;
             at = end + 2)
            events.push_back(json::parse(stream.substr(at + 6, end - at - 6), nullptr, false));
        return events;
    }
    void until(const std::function<bool()>& condition) const {
        while (!condition()) std::this_thread::yield();
    }

    std::shared_ptr<CountingGenerator> generator_ = std::make_shared<CountingGenerator>();
    std::unique_ptr<Server> server_;
};

TEST_F(ApiServer, completes_a_prompt) {
    const auto answer = post({{"prompt", "ab"}, {"max_tokens", 3}, {"model", "bible"}});
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    const json body = json::parse(answer->body);
    EXPECT_EQ(body["object"], "text_completion");
    EXPECT_EQ(body["model"], "bible");
    EXPECT_EQ(body["system_fingerprint"], "step-12");
    EXPECT_EQ(body["choices"][0]["text"], " 1 2 3");
    EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(body["usage"],
              (json{{"prompt_tokens", 2}, {"completion_tokens", 3}, {"total_tokens", 5}}));
}

TEST_F(ApiServer, a_stream_has_the_same_text_and_no_part_of_a_stop_word) {
    const json asked = {{"prompt", "ab"},
                        {"max_tokens", 30},
                        {"stop", {"0 11", " never"}},
                        {"stream", true},
                        {"stream_options", {{"include_usage", true}}}};
    const auto answer = post(asked);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->get_header_value("Content-Type"), "text/event-stream");
    EXPECT_TRUE(answer->body.ends_with("data: [DONE]\n\n"));
    std::string text;
    std::string reason;
    json usage;
    for (const json& event : events_of(answer->body)) {
        if (!event.is_object()) continue;
        if (event.contains("usage")) usage = event["usage"];
        if (event["choices"].empty()) continue;
        text += event["choices"][0]["text"].get<std::string>();
        if (event["choices"][0]["finish_reason"].is_string())
            reason = event["choices"][0]["finish_reason"];
    }
    EXPECT_EQ(text, " 1 2 3 4 5 6 7 8 9 1");
    EXPECT_EQ(reason, "stop");
    EXPECT_EQ(usage["completion_tokens"], 11);
}

TEST_F(ApiServer, answers_a_chat_in_its_form) {
    json asked = {{"messages", json::array({json{{"role", "user"}, {"content", "ab"}}})},
                  {"max_tokens", 2}};
    const auto whole = post(asked, "/v1/chat/completions");
    ASSERT_TRUE(whole);
    const json message = json::parse(whole->body)["choices"][0]["message"];
    EXPECT_EQ(message["role"], "assistant");
    EXPECT_EQ(message["content"], " 1 2");
    asked["stream"] = true;
    const auto stream = post(asked, "/v1/chat/completions");
    ASSERT_TRUE(stream);
    const auto events = events_of(stream->body);
    ASSERT_GE(events.size(), 3u);
    EXPECT_EQ(events[0]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
}

TEST_F(ApiServer, says_what_is_wrong_with_a_request) {
    const std::pair<json, int> wrong[] = {{json::array(), 400},
                                          {json::object(), 400},
                                          {{{"prompt", "ab"}, {"n", 2}}, 400},
                                          {{{"prompt", std::string(40, 'a')}}, 400},
                                          {{{"prompt", "ab"}, {"model", "gpt-4"}}, 404}};
    for (const auto& [body, status] : wrong) {
        const auto answer = post(body);
        ASSERT_TRUE(answer);
        EXPECT_EQ(answer->status, status) << body;
        EXPECT_NE(error_of(answer), "") << body;
    }
    const auto long_prompt = post({{"prompt", std::string(40, 'a')}});
    EXPECT_EQ(json::parse(long_prompt->body)["error"]["code"], "context_length_exceeded");
    EXPECT_EQ(post({{"prompt", std::string(body_bytes_max, 'a')}})->status, 413);
    EXPECT_EQ(post({{"prompt", "red"}}, "/v1/images/generations")->status, 404);
    EXPECT_EQ(post({{"prompt", "red"}}, "/v1/embeddings")->status, 404);
    EXPECT_EQ(error_of(post({{"prompt", "fail"}})), "no memory");
    EXPECT_EQ(client().Post("/v1/completions", "{}", "text/plain")->status, 415);
}

TEST_F(ApiServer, tells_its_model_and_the_state_that_answers) {
    const auto list = client().Get("/v1/models");
    ASSERT_TRUE(list);
    const json model = json::parse(list->body)["data"][0];
    EXPECT_EQ(model["id"], "bible");
    EXPECT_EQ(model["dedloc"]["kind"], "text");
    EXPECT_EQ(model["dedloc"]["step"], 12);
    EXPECT_EQ(client().Get("/v1/models/bible")->status, 200);
    EXPECT_EQ(client().Get("/v1/models/other")->status, 404);
    server_->set_state({.generator = generator_, .step = 13, .fingerprint = "step-13"});
    EXPECT_EQ(json::parse(client().Get("/v1/models/bible")->body)["dedloc"]["step"], 13);
    EXPECT_EQ(json::parse(post({{"prompt", "ab"}})->body)["system_fingerprint"], "step-13");
}

TEST_F(ApiServer, a_client_that_goes_away_ends_its_text) {
    for (const bool streams : {true, false}) {
        const int before = generator_->ended;
        std::thread leaving([&] {
            auto leaver = client();
            std::thread asking([&] {
                const json body = {{"prompt", "ab"}, {"max_tokens", endless}, {"stream", streams}};
                (void)leaver.Post("/v1/completions", body.dump(), json_body);
            });
            until([&] { return generator_->begun > before; });
            leaver.stop();
            asking.join();
        });
        leaving.join();
        until([&] { return generator_->ended > before; });
    }
}

TEST_F(ApiServer, refuses_what_its_queue_cannot_hold) {
    generator_->is_held = true;
    std::vector<std::thread> asking;
    std::atomic<int> answered = 0;
    const auto ask = [&] {
        const auto answer = post({{"prompt", "ab"}, {"max_tokens", 2}});
        if (answer && answer->status == 200) ++answered;
    };
    asking.emplace_back(ask);
    until([&] { return generator_->begun == 1; });
    // The server answers one request while waiting_max wait, so it refuses one of these.
    std::atomic<int> refused = 0;
    for (std::size_t i = 0; i < waiting_max + 1; ++i)
        asking.emplace_back([&] {
            const auto answer = post({{"prompt", "ab"}, {"max_tokens", 2}});
            if (answer && answer->status == 200) ++answered;
            if (!answer || answer->status != 429) return;
            EXPECT_GE(std::stoi(answer->get_header_value("Retry-After")), 1);
            EXPECT_NE(error_of(answer), "");
            ++refused;
        });
    until([&] { return refused == 1; });
    generator_->is_held = false;
    for (std::thread& thread : asking) thread.join();
    EXPECT_EQ(answered, static_cast<int>(waiting_max + 1));
    EXPECT_EQ(refused, 1);
}

TEST_F(ApiServer, its_end_ends_what_is_being_written) {
    std::thread asking([port = server_->port()] {
        httplib::Client asker("127.0.0.1", port);
        const json body = {{"prompt", "ab"}, {"max_tokens", endless}};
        (void)asker.Post("/v1/completions", body.dump(), json_body);
    });
    until([&] { return generator_->begun == 1; });
    server_.reset();
    EXPECT_EQ(generator_->ended, 1);
    asking.join();
}

TEST_F(ApiServer, answers_no_page_of_another_site) {
    EXPECT_EQ(client().Get("/v1/models", {{"Origin", "http://evil.example"}})->status, 403);
    EXPECT_EQ(client().Get("/v1/models", {{"Sec-Fetch-Site", "cross-site"}})->status, 403);
    EXPECT_EQ(client().Get("/v1/models", {{"Host", "evil.example"}})->status, 421);
    EXPECT_EQ(client()
                  .Post("/v1/completions",
                        {{"Origin", "http://evil.example"}},
                        R"({"prompt": "ab"})",
                        json_body)
                  ->status,
              403);
    // People's clients send a key where none is needed.
    EXPECT_EQ(client().Get("/v1/models", {{"Authorization", "Bearer sk-no"}})->status, 200);
}

TEST_F(ApiServer, beyond_loopback_asks_for_its_token) {
    server_.reset();
    const std::string token(32, 'a');
    auto started = Server::start({.model = "bible"},
                                 {.generator = generator_},
                                 {.where = {.host = "0.0.0.0", .port = 0}, .token = token});
    ASSERT_TRUE(started);
    server_ = *std::move(started);
    EXPECT_NE(server_->address().find("?token=" + token), std::string::npos);
    EXPECT_EQ(client().Get("/")->status, 200);
    const auto refused = client().Get("/v1/models");
    EXPECT_EQ(refused->status, 401);
    EXPECT_NE(error_of(refused), "");
    EXPECT_EQ(post({{"prompt", "ab"}})->status, 401);
    EXPECT_EQ(client()
                  .Post("/v1/completions",
                        {{"Authorization", "Bearer " + token}},
                        R"({"prompt": "ab"})",
                        json_body)
                  ->status,
              200);
}

TEST_F(ApiServer, serves_its_page_with_all_its_files) {
    const auto page = client().Get("/");
    ASSERT_TRUE(page);
    EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
    EXPECT_TRUE(
        page->get_header_value("Content-Security-Policy").starts_with("default-src 'none'"));
    ASSERT_GE(page_files().size(), 3u);
    for (const web::PageFile& file : page_files())
        EXPECT_EQ(client().Get("/" + std::string(file.name))->body, file.bytes) << file.name;
}

TEST_F(ApiServer, draws_pictures) {
    start({.model = "hats", .writes_text = false}, std::make_shared<DrawingGenerator>());
    const auto answer = post({{"prompt", "red"}, {"n", 3}}, "/v1/images/generations");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    const json data = json::parse(answer->body)["data"];
    ASSERT_EQ(data.size(), 3u);
    const std::string text = data[0]["b64_json"];
    EXPECT_EQ(text.size() % 4, 0u);
    EXPECT_TRUE(text.starts_with("iVBORw0KGgo")) << text;  // a PNG's first bytes
    EXPECT_EQ(post({{"prompt", "xyzzy"}}, "/v1/images/generations")->status, 400);
    EXPECT_EQ(post({{"prompt", "red"}, {"size", "9x9"}}, "/v1/images/generations")->status, 400);
    EXPECT_EQ(post({{"prompt", "red"}})->status, 404);
    EXPECT_EQ(json::parse(client().Get("/v1/models/hats")->body)["dedloc"]["kind"], "pictures");
}

}  // namespace
}  // namespace dedloc::api
