#include "dedloc/api/answers.h"

#include <fmt/format.h>

#include "dedloc/monitor/json_line.h"

namespace dedloc::api {
namespace {

Json usage(const Counts& counts) {
    return {{"prompt_tokens", counts.prompt},
            {"completion_tokens", counts.written},
            {"total_tokens", counts.prompt + counts.written}};
}

Json reason_or_null(std::string_view finish_reason) {
    return finish_reason.empty() ? Json(nullptr) : Json(finish_reason);
}

Json with_head(const AnswerHead& head, bool is_piece, Json choices) {
    const char* object = head.form == Form::completion ? "text_completion"
                         : is_piece                    ? "chat.completion.chunk"
                                                       : "chat.completion";
    return {{"id", head.id},
            {"object", object},
            {"created", head.created},
            {"model", head.model},
            {"system_fingerprint", head.fingerprint},
            {"choices", std::move(choices)}};
}

Json choice(std::string_view what, Json value, std::string_view finish_reason) {
    return {{"index", 0},
            {what, std::move(value)},
            {"logprobs", nullptr},
            {"finish_reason", reason_or_null(finish_reason)}};
}

}  // namespace

Json whole_text(const AnswerHead& head,
                std::string_view text,
                std::string_view finish_reason,
                const Counts& counts) {
    Json one = head.form == Form::completion
                   ? choice("text", text, finish_reason)
                   : choice("message",
                            {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}},
                            finish_reason);
    Json answer = with_head(head, false, Json::array({std::move(one)}));
    answer["usage"] = usage(counts);
    return answer;
}

Json text_piece(const AnswerHead& head,
                std::string_view text,
                std::string_view finish_reason,
                bool is_first) {
    if (head.form == Form::completion)
        return with_head(head, true, Json::array({choice("text", text, finish_reason)}));
    Json delta = Json::object();
    if (is_first) delta["role"] = "assistant";
    if (is_first || !text.empty()) delta["content"] = text;
    return with_head(head, true, Json::array({choice("delta", std::move(delta), finish_reason)}));
}

Json counts_piece(const AnswerHead& head, const Counts& counts) {
    Json piece = with_head(head, true, Json::array());
    piece["usage"] = usage(counts);
    return piece;
}

Json pictures(std::int64_t created,
              const std::vector<std::string>& base64,
              const std::vector<std::string>& remarks) {
    Json data = Json::array();
    for (const std::string& one : base64) data.push_back({{"b64_json", one}});
    Json answer{{"created", created}, {"data", std::move(data)}};
    if (!remarks.empty()) answer["remarks"] = remarks;
    return answer;
}

Json error_answer(int status, std::string_view message, std::string_view code) {
    const char* type = status == 401   ? "authentication_error"
                       : status == 429 ? "rate_limit_error"
                       : status < 500  ? "invalid_request_error"
                                       : "server_error";
    return {{"error",
             {{"message", message},
              {"type", type},
              {"param", nullptr},
              {"code", code.empty() ? Json(nullptr) : Json(code)}}}};
}

std::string server_event(const Json& data) {
    return fmt::format("data: {}\n\n", monitor::json_line(data));
}

}  // namespace dedloc::api
