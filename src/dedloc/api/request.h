// Requests for text and for pictures, as clients of OpenAI's HTTP interface write them. A field
// that this server cannot carry out is refused by name, unless its value changes nothing ("n": 1).
//
//   POST /v1/completions          {"prompt": "In the beginning", "max_tokens": 50}
//   POST /v1/chat/completions     {"messages": [{"role": "user", "content": "Hello"}]}
//   POST /v1/images/generations   {"prompt": "red hat", "n": 4}
//
// A chat's messages are one text, a line each; roles are not told to the model, which was trained
// on text and not on chats.
//
// Errors: bad_input: which field, what is wrong with it. Thread: any; pure, but for the seed of a
// request that has none.

#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::api {

inline constexpr std::size_t prompt_bytes_max = 1u << 16;
inline constexpr std::uint64_t text_tokens_max = 1u << 16;  // beside the model's own context
inline constexpr std::size_t messages_max = 1024;           // of a chat
inline constexpr std::size_t stop_words_max = 16;
inline constexpr std::size_t stop_word_bytes_max = 256;
inline constexpr std::size_t pictures_max = 16;  // of a request

enum class Form { completion, chat };

struct TextRequest {
    Form form = Form::completion;
    tasks::WriteRequest write{};
    std::vector<std::string> stop{};
    bool streams = false;
    bool counts_in_stream = false;  // stream_options.include_usage
};
Result<TextRequest> text_request(const nlohmann::json& body, Form form);

Result<tasks::DrawRequest> picture_request(const nlohmann::json& body);

// The model that a request names; empty: none.
Result<std::string> model_of(const nlohmann::json& body);

// Parses a request's body, and drops what is nested deeper than any request is.
Result<nlohmann::json> parse_body(const std::string& text);

}  // namespace dedloc::api
