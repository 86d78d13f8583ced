#include "dedloc/api/request.h"

#include <gtest/gtest.h>

namespace dedloc::api {
namespace {

using nlohmann::json;

std::string complaint(const json& body, Form form = Form::completion) {
    const auto request = text_request(body, form);
    return request ? std::string() : request.error().message();
}

TEST(Request, of_text_has_the_values_of_the_interface) {
    const auto request = text_request({{"prompt", "In the"}}, Form::completion);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->write.prompt, "In the");
    EXPECT_EQ(request->write.tokens_max, 16u);
    EXPECT_EQ(request->write.temperature, 1);
    EXPECT_EQ(request->write.top_p, 1);
    EXPECT_FALSE(request->streams);
    const auto other = text_request({{"prompt", "In the"}}, Form::completion);
    EXPECT_NE(request->write.seed, other->write.seed);
}

TEST(Request, of_text_takes_what_clients_write) {
    const auto request = text_request({{"prompt", json::array({"a"})},
                                       {"model", "x"},
                                       {"max_tokens", 3},
                                       {"temperature", 0},
                                       {"top_p", 0.5},
                                       {"top_k", 4},
                                       {"seed", -1},
                                       {"stop", "."},
                                       {"stream", true},
                                       {"stream_options", {{"include_usage", true}}},
                                       {"n", 1},
                                       {"logprobs", nullptr},
                                       {"frequency_penalty", 0.0},
                                       {"user", "anna"}},
                                      Form::completion);
    ASSERT_TRUE(request) << request.error().message();
    EXPECT_EQ(request->write.prompt, "a");
    EXPECT_EQ(request->write.tokens_max, 3u);
    EXPECT_EQ(request->write.temperature, 0);
    EXPECT_EQ(request->write.top_p, 0.5);
    EXPECT_EQ(request->write.top_k, 4);
    EXPECT_EQ(request->write.seed, ~std::uint64_t{0});
    EXPECT_EQ(request->stop, std::vector<std::string>{"."});
    EXPECT_TRUE(request->streams && request->counts_in_stream);
}

TEST(Request, of_a_chat_is_one_text_a_line_for_each_message) {
    const json parts = {{{"type", "text"}, {"text", "b"}}, {{"type", "text"}, {"text", "c"}}};
    const auto request = text_request(
        {{"messages",
          {{{"role", "system"}, {"content", "a"}}, {{"role", "user"}, {"content", parts}}}},
         {"max_completion_tokens", 7},
         {"response_format", {{"type", "text"}}}},
        Form::chat);
    ASSERT_TRUE(request) << request.error().message();
    EXPECT_EQ(request->write.prompt, "a\nbc");
    EXPECT_EQ(request->write.tokens_max, 7u);
    const json picture = json::array({json{{"type", "image_url"}}});
    const json message = {{"role", "user"}, {"content", picture}};
    EXPECT_NE(complaint({{"messages", json::array({message})}}, Form::chat).find("pictures"),
              std::string::npos);
    for (const json& messages : {json(), json("a"), json::array(), json::array({1})})
        EXPECT_NE(complaint({{"messages", messages}}, Form::chat), "") << messages;
}

TEST(Request, names_the_field_that_is_wrong) {
    const json whole = {{"prompt", "a"}};
    const std::pair<const char*, json> wrong[] = {
        {"prompt", json()},
        {"prompt", json::array({1, 2})},
        {"prompt", json::array({"a", "b"})},
        {"max_tokens", 0},
        {"max_tokens", -1},
        {"max_tokens", 1.5},
        {"max_tokens", 1e30},
        {"temperature", -0.1},
        {"temperature", "hot"},
        {"top_p", 1.1},
        {"seed", 0.5},
        {"stop", ""},
        {"stop", json::array({1})},
        {"stop", std::vector<std::string>(17, "a")},
        {"stream", 1},
        {"n", 2},
        {"echo", true},
        {"logprobs", 5},
        {"presence_penalty", 0.5},
        {"tools", json::array({json{{"type", "function"}}})},
        {"response_format", json{{"type", "json_object"}}}};
    for (const auto& [name, value] : wrong) {
        json body = whole;
        body[name] = value;
        EXPECT_NE(complaint(body).find(name), std::string::npos) << body << complaint(body);
    }
    EXPECT_NE(complaint({{"prompt", std::string(prompt_bytes_max + 1, 'a')}}), "");
}

TEST(Request, of_pictures_is_for_base64_alone) {
    const auto request = picture_request({{"prompt", "red hat"},
                                          {"n", 4},
                                          {"seed", 3},
                                          {"size", "auto"},
                                          {"response_format", "b64_json"}});
    ASSERT_TRUE(request) << request.error().message();
    EXPECT_EQ(request->prompts, std::vector<std::string>{"red hat"});
    EXPECT_EQ(request->count, 4u);
    EXPECT_EQ(request->seed, 3u);
    EXPECT_FALSE(request->guidance) << "the run file's";
    EXPECT_EQ(picture_request({{"prompt", "red hat"}, {"guidance", 2.5}})->guidance, 2.5);
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, json>>{{"response_format", "url"},
                                                   {"size", "256x256"},
                                                   {"n", 17},
                                                   {"n", 0},
                                                   {"guidance", -1}}) {
        json body = {{"prompt", "red hat"}};
        body[name] = value;
        const auto refused = picture_request(body);
        ASSERT_FALSE(refused) << body;
        EXPECT_NE(refused.error().message().find(name), std::string::npos);
    }
}

TEST(Request, is_no_pit_of_brackets) {
    EXPECT_FALSE(parse_body("[1]"));
    EXPECT_FALSE(parse_body("{"));
    EXPECT_FALSE(parse_body(""));
    const auto deep = parse_body("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') +
                                 ",\"prompt\":\"b\"}");
    ASSERT_TRUE(deep);
    EXPECT_EQ((*deep)["prompt"], "b");
}

}  // namespace
}  // namespace dedloc::api
