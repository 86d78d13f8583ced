// Answers in the form of OpenAI's HTTP interface: whole, in pieces of a stream, and errors.
//
// Thread: any; pure.

#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "dedloc/api/request.h"

namespace dedloc::api {

// AnswerHead: the fields that every piece of an answer repeats.
struct AnswerHead {
    Form form = Form::completion;
    std::string id;
    std::int64_t created = 0;  // seconds since 1970
    std::string model;
    std::string fingerprint;  // which state of the model wrote it
};

struct Counts {
    std::uint64_t prompt = 0;  // tokens
    std::uint64_t written = 0;
};

using Json = nlohmann::ordered_json;

Json whole_text(const AnswerHead& head,
                std::string_view text,
                std::string_view finish_reason,
                const Counts& counts);
// Makes a piece of a stream. The last one has a `finish_reason`; a chat's first names the role.
Json text_piece(const AnswerHead& head,
                std::string_view text,
                std::string_view finish_reason,
                bool is_first);
// Makes the piece that follows the last one where the client asked for the counts of tokens.
Json counts_piece(const AnswerHead& head, const Counts& counts);

Json pictures(std::int64_t created,
              const std::vector<std::string>& base64,
              const std::vector<std::string>& remarks);

// `code`: for programs; empty: none.
Json error_answer(int status, std::string_view message, std::string_view code);

std::string server_event(const Json& data);

}  // namespace dedloc::api
