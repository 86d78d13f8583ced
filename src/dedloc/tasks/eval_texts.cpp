#include "dedloc/tasks/eval_texts.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "dedloc/base/text_lines.h"

namespace dedloc::tasks {
namespace {

constexpr const char* question_form =
    R"(a question is {"prompt": "…", "choices": ["…", "…"], "answer": 0}, one a line)";

Result<Question> question_in(const std::string& line) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto wrong = [](std::string_view what) {
        return make_error(ErrorKind::bad_input, "{}; {}", what, question_form);
    };
    if (!object.is_object()) return wrong("this is no JSON object");
    const auto prompt = object.find("prompt");
    const auto choices = object.find("choices");
    const auto answer = object.find("answer");
    if (prompt == object.end() || !prompt->is_string()) return wrong("\"prompt\" is missing");
    if (choices == object.end() || !choices->is_array() || choices->size() < 2 ||
        choices->size() > choices_max)
        return wrong(fmt::format("\"choices\" are 2 to {} texts", choices_max));
    Question question{.prompt = prompt->get<std::string>(), .choices = {}};
    for (const nlohmann::json& choice : *choices) {
        if (!choice.is_string() || choice.get_ref<const std::string&>().empty())
            return wrong("one of the \"choices\" is no text");
        question.choices.push_back(choice.get<std::string>());
    }
    if (answer == object.end() || !answer->is_number_unsigned() ||
        answer->get<std::uint64_t>() >= question.choices.size())
        return wrong("\"answer\" is the number of the right choice, from 0");
    question.answer = answer->get<std::size_t>();
    return question;
}

bool has_blank_between(const std::string& prompt, const std::string& choice) {
    const auto is_blank = [](char letter) { return letter == ' ' || letter == '\n'; };
    return prompt.empty() || is_blank(prompt.back()) || is_blank(choice.front());
}

std::size_t cheapest(const std::vector<double>& costs) {
    return static_cast<std::size_t>(std::ranges::min_element(costs) - costs.begin());
}

}  // namespace

Result<std::vector<Question>> questions_in(std::string_view jsonl) {
    std::vector<Question> questions;
    DEDLOC_TRY(auto lines, base::TextLines::of(jsonl));
    while (auto line = lines.next()) {
        if (questions.size() == questions_max)
            return make_error(ErrorKind::bad_input, "more than {} questions", questions_max);
        auto question = question_in(line->text);
        if (!question)
            return std::move(question).error().with_context(fmt::format("line {}", line->number));
        questions.push_back(*std::move(question));
    }
    if (questions.empty())
        return make_error(ErrorKind::bad_input, "there are no questions; {}", question_form);
    return questions;
}

std::vector<ScoredText> texts_of(const std::vector<Question>& questions) {
    std::vector<ScoredText> texts;
    for (const Question& question : questions)
        for (const std::string& choice : question.choices)
            texts.push_back(
                {.before = question.prompt,
                 .text = has_blank_between(question.prompt, choice) ? choice : " " + choice});
    return texts;
}

std::vector<Measure> perplexity_measures(const TextScore& score) {
    const auto tokens = static_cast<double>(score.tokens);
    const auto bytes = static_cast<double>(score.bytes);
    const double mean = score.nats / std::max(tokens, 1.0);
    return {{"token_loss", mean},
            {"perplexity", std::exp(mean)},
            {"bits_per_byte", score.nats / std::numbers::ln2 / std::max(bytes, 1.0)},
            {"tokens", tokens},
            {"bytes", bytes}};
}

std::vector<Measure> choice_measures(const std::vector<Question>& questions,
                                     const std::vector<TextScore>& scores) {
    double right = 0;
    double right_by_byte = 0;
    double chance = 0;
    std::size_t at = 0;
    for (const Question& question : questions) {
        std::vector<double> whole;
        std::vector<double> by_byte;
        for (const std::string& choice : question.choices) {
            whole.push_back(scores[at++].nats);
            by_byte.push_back(whole.back() / static_cast<double>(choice.size()));
        }
        if (cheapest(whole) == question.answer) ++right;
        if (cheapest(by_byte) == question.answer) ++right_by_byte;
        chance += 1 / static_cast<double>(question.choices.size());
    }
    const auto count = static_cast<double>(std::max<std::size_t>(questions.size(), 1));
    return {{"choices_accuracy", right / count},
            {"choices_accuracy_by_byte", right_by_byte / count},
            {"choices_chance", chance / count},
            {"questions", static_cast<double>(questions.size())}};
}

}  // namespace dedloc::tasks
