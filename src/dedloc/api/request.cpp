#include "dedloc/api/request.h"

#include <array>
#include <cmath>

#include "dedloc/security/hash.h"

namespace dedloc::api {
namespace {

using nlohmann::json;

constexpr int depth_max = 16;
constexpr std::uint64_t usual_completion_tokens = 16;  // as the interface has it
constexpr std::uint64_t usual_chat_tokens = 200;
constexpr double temperature_max = 10;
constexpr double guidance_max = 100;

// A field that this server does not carry out, and the value that asks for nothing.
struct Refused {
    const char* name;
    double nothing;
};
constexpr std::array<Refused, 21> refused_of_text{{
    {"n", 1},
    {"best_of", 1},
    {"echo", 0},
    {"suffix", 0},
    {"logprobs", 0},
    {"top_logprobs", 0},
    {"logit_bias", 0},
    {"presence_penalty", 0},
    {"frequency_penalty", 0},
    {"repetition_penalty", 1},
    {"min_p", 0},
    {"tools", 0},
    {"tool_choice", 0},
    {"functions", 0},
    {"function_call", 0},
    {"response_format", 0},
    {"audio", 0},
    {"modalities", 0},
    {"prediction", 0},
    {"web_search_options", 0},
    {"reasoning_effort", 0},
}};
constexpr std::array<Refused, 6> refused_of_pictures{{
    {"image", 0},
    {"mask", 0},
    {"background", 0},
    {"output_compression", 0},
    {"partial_images", 0},
    {"stream", 0},
}};

// Does a value ask for nothing? {"response_format": {"type": "text"}} is the only one with words.
bool asks_nothing(const json& value, double nothing) {
    if (value.is_null()) return true;
    if (value.is_boolean()) return !value.get<bool>() && nothing == 0;
    if (value.is_number()) return value.get<double>() == nothing;
    if (value.is_string()) return value.get_ref<const std::string&>().empty() || value == "none";
    return value.empty() || value == json{{"type", "text"}} || value == json::array({"text"});
}

Ok check_refused(const json& body, std::span<const Refused> refused) {
    for (const Refused& one : refused)
        if (body.contains(one.name) && !asks_nothing(body[one.name], one.nothing))
            return make_error(
                ErrorKind::bad_input, "'{}' is not supported here; leave it out", one.name);
    return {};
}

Error wrong(const char* name, std::string_view wanted) {
    return make_error(ErrorKind::bad_input, "'{}' is to be {}", name, wanted);
}

bool has(const json& body, const char* name) {
    return body.contains(name) && !body[name].is_null();
}

Result<double> number(const json& body, const char* name, double usual, double least, double most) {
    if (!has(body, name)) return usual;
    const auto sentence = [&] { return fmt::format("a number from {} to {}", least, most); };
    if (!body[name].is_number()) return wrong(name, sentence());
    const double value = body[name].get<double>();
    if (!(value >= least && value <= most)) return wrong(name, sentence());
    return value;
}

Result<std::uint64_t> count(const json& body,
                            const char* name,
                            std::uint64_t usual,
                            std::uint64_t least,
                            std::uint64_t most) {
    if (!has(body, name)) return usual;
    const json& value = body[name];
    const auto sentence = [&] { return fmt::format("a whole number from {} to {}", least, most); };
    const bool is_whole =
        value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
    if (!is_whole) return wrong(name, sentence());
    const auto given = value.get<std::uint64_t>();
    if (given < least || given > most) return wrong(name, sentence());
    return given;
}

Result<bool> flag(const json& body, const char* name) {
    if (!has(body, name)) return false;
    if (!body[name].is_boolean()) return wrong(name, "true or false");
    return body[name].get<bool>();
}

// The seed may be any whole number, as clients draw it from all of them.
Result<std::uint64_t> seed_of(const json& body) {
    if (!has(body, "seed")) {
        std::uint64_t seed = 0;
        for (const std::uint8_t byte : security::secure_random(sizeof seed))
            seed = seed << 8 | byte;
        return seed;
    }
    if (!body["seed"].is_number_integer()) return wrong("seed", "a whole number");
    return body["seed"].is_number_unsigned()
               ? body["seed"].get<std::uint64_t>()
               : static_cast<std::uint64_t>(body["seed"].get<std::int64_t>());
}

Result<std::string> checked_prompt(std::string prompt) {
    if (prompt.size() > prompt_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "the prompt has {} bytes; at most {} are read",
                          prompt.size(),
                          prompt_bytes_max);
    return prompt;
}

// The prompt is a string, or a list with one string.
Result<std::string> prompt_of(const json& body) {
    constexpr const char* wanted = "a text, or a list with one text (no ids of tokens)";
    if (!has(body, "prompt")) return wrong("prompt", wanted);
    const json& prompt = body["prompt"];
    const json& text = prompt.is_array() && prompt.size() == 1 ? prompt[0] : prompt;
    if (!text.is_string()) return wrong("prompt", wanted);
    return checked_prompt(text.get<std::string>());
}

Result<std::string> words_of(const json& content) {
    if (content.is_string()) return content.get<std::string>();
    std::string words;
    for (const json& part : content.is_array() ? content : json::array({nullptr})) {
        const bool is_text = part.is_object() && part.value("type", json()) == "text" &&
                             part.contains("text") && part["text"].is_string();
        if (!is_text) return wrong("content", "text: pictures and sounds are not read");
        words += part["text"].get_ref<const std::string&>();
    }
    return words;
}

Result<std::string> chat_of(const json& body) {
    constexpr const char* wanted = "a list of {\"role\": …, \"content\": …}";
    if (!has(body, "messages") || !body["messages"].is_array() || body["messages"].empty() ||
        body["messages"].size() > messages_max)
        return wrong("messages", wanted);
    std::string text;
    for (const json& message : body["messages"]) {
        if (!message.is_object() || !message.contains("content") ||
            !message.value("role", json()).is_string())
            return wrong("messages", wanted);
        DEDLOC_TRY(const std::string words, words_of(message["content"]));
        text += (text.empty() ? "" : "\n") + words;
    }
    return checked_prompt(std::move(text));
}

Result<std::vector<std::string>> stop_words_of(const json& body) {
    std::vector<std::string> words;
    if (!has(body, "stop")) return words;
    const std::string wanted =
        fmt::format("a text, or a list of at most {} texts, of 1 to {} bytes",
                    stop_words_max,
                    stop_word_bytes_max);
    const json list = body["stop"].is_array() ? body["stop"] : json::array({body["stop"]});
    if (list.size() > stop_words_max) return wrong("stop", wanted);
    for (const json& word : list) {
        if (!word.is_string()) return wrong("stop", wanted);
        words.push_back(word.get<std::string>());
        if (words.back().empty() || words.back().size() > stop_word_bytes_max)
            return wrong("stop", wanted);
    }
    return words;
}

// Newer clients of chats write max_completion_tokens.
Result<std::uint64_t> tokens_of(const json& body, Form form) {
    const bool is_chat = form == Form::chat;
    const char* name =
        is_chat && has(body, "max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
    return count(
        body, name, is_chat ? usual_chat_tokens : usual_completion_tokens, 1, text_tokens_max);
}

}  // namespace

Result<json> parse_body(const std::string& text) {
    const auto keep = [](int depth, json::parse_event_t, const json&) { return depth < depth_max; };
    json body = json::parse(text, keep, /*allow_exceptions=*/false);
    if (!body.is_object())
        return make_error(ErrorKind::bad_input, "the body is to be a JSON object");
    return body;
}

Result<std::string> model_of(const json& body) {
    if (!has(body, "model")) return std::string();
    if (!body["model"].is_string()) return wrong("model", "a text");
    return body["model"].get<std::string>();
}

Result<TextRequest> text_request(const json& body, Form form) {
    DEDLOC_TRY_VOID(check_refused(body, refused_of_text));
    TextRequest request{.form = form};
    DEDLOC_TRY(request.write.prompt, form == Form::chat ? chat_of(body) : prompt_of(body));
    DEDLOC_TRY(request.write.tokens_max, tokens_of(body, form));
    DEDLOC_TRY(const std::uint64_t top_k, count(body, "top_k", 0, 0, 1u << 20));
    request.write.top_k = static_cast<std::int64_t>(top_k);
    DEDLOC_TRY(request.write.top_p, number(body, "top_p", 1, 0, 1));
    DEDLOC_TRY(request.write.temperature, number(body, "temperature", 1, 0, temperature_max));
    DEDLOC_TRY(request.write.seed, seed_of(body));
    DEDLOC_TRY(request.stop, stop_words_of(body));
    DEDLOC_TRY(request.streams, flag(body, "stream"));
    if (!has(body, "stream_options")) return request;
    if (!body["stream_options"].is_object()) return wrong("stream_options", "an object");
    DEDLOC_TRY(request.counts_in_stream, flag(body["stream_options"], "include_usage"));
    return request;
}

Result<tasks::DrawRequest> picture_request(const json& body) {
    DEDLOC_TRY_VOID(check_refused(body, refused_of_pictures));
    tasks::DrawRequest request;
    DEDLOC_TRY(std::string prompt, prompt_of(body));
    request.prompts.push_back(std::move(prompt));
    DEDLOC_TRY(request.count, count(body, "n", 1, 1, pictures_max));
    DEDLOC_TRY(const std::uint64_t top_k, count(body, "top_k", 0, 0, 1u << 20));
    request.top_k = static_cast<std::int64_t>(top_k);
    DEDLOC_TRY(request.temperature, number(body, "temperature", 1, 0, temperature_max));
    if (has(body, "guidance")) {
        DEDLOC_TRY(request.guidance, number(body, "guidance", 1, 0, guidance_max));
    }
    DEDLOC_TRY(request.seed, seed_of(body));
    if (has(body, "response_format") && body["response_format"] != "b64_json")
        return wrong("response_format", "b64_json: this server keeps no pictures to link to");
    if (has(body, "output_format") && body["output_format"] != "png")
        return wrong("output_format", "png");
    if (has(body, "size") && body["size"] != "auto")
        return wrong("size", "left out: pictures have the size that the model was trained with");
    return request;
}

}  // namespace dedloc::api
