#include "dedloc/cli/written_texts.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/text/cache.h"

namespace dedloc::cli {
namespace {

struct Text {
    std::string prompt;
    tasks::Writing writing;
    double seconds = 0;  // of the tokens behind the first
};

// Streamed to the terminal, unless a file or a script wants all of it.
Result<Text> write_one(const SampleOptions& options,
                       const peer::Visited& from,
                       const std::string& prompt,
                       std::uint64_t seed) {
    const bool streams = !options.json && options.output.empty();
    tasks::WriteRequest request{.prompt = prompt,
                                .tokens_max = options.tokens,
                                .top_k = options.top_k,
                                .top_p = options.top_p,
                                .temperature = options.temperature,
                                .seed = seed};
    bool begun = false;
    double first = 0;
    request.told = [&](std::string_view added) {
        if (streams && !begun) peer::say(stdout, "{}", prompt);
        if (!begun) first = peer::steady_seconds();
        begun = true;
        if (streams) peer::say(stdout, "{}", added);
        return true;
    };
    Text text{.prompt = prompt, .writing = {}, .seconds = 0};
    DEDLOC_TRY(text.writing,
               from.task->write(
                   replica::parameters_of(*from.state), replica::buffers_of(*from.state), request));
    if (begun) text.seconds = peer::steady_seconds() - first;
    if (streams) peer::say(stdout, "{}\n", begun ? "" : prompt);
    if (text.writing.is_full && !options.json)
        peer::say(stderr, "dedloc: the model's context is full; it sees no further back\n");
    return text;
}

void tell_json(const peer::Visited& from, const std::vector<Text>& texts) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    double seconds = 0;
    std::uint64_t tokens = 0;
    for (const Text& text : texts) {
        list.push_back({{"prompt", text.prompt},
                        {"text", text.writing.text},
                        {"prompt_tokens", text.writing.prompt_tokens},
                        {"tokens", text.writing.tokens},
                        {"ended", text.writing.ended},
                        {"context_full", text.writing.is_full}});
        seconds += text.seconds;
        tokens += std::max<std::uint64_t>(text.writing.tokens, 1) - 1;
    }
    const nlohmann::ordered_json json{
        {"ok", true},
        {"run", from.run.name},
        {"step", from.state->step()},
        {"texts", list},
        {"tokens_per_s", seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0}};
    peer::say(stdout, "{}\n", monitor::json_line(json));
}

Ok write_page(const std::string& path, const peer::Visited& from, const std::vector<Text>& texts) {
    std::string page = fmt::format("{}, step {}\n", from.run.name, from.state->step());
    for (const Text& text : texts)
        page += fmt::format("\n---- {}\n{}{}\n", text.prompt, text.prompt, text.writing.text);
    return text::write_file(path, page);
}

}  // namespace

int write_texts(const SampleOptions& options,
                const peer::Visited& from,
                const std::vector<std::string>& prompts) {
    std::vector<Text> texts;
    for (const std::string& prompt : prompts) {
        for (std::size_t i = 0; i < std::max<std::size_t>(options.count, 1); ++i) {
            auto text = write_one(options, from, prompt, options.seed + i);
            if (!text) return peer::report(peer::failure(text.error()));
            texts.push_back(*std::move(text));
        }
    }
    if (!options.output.empty())
        if (const Ok written = write_page(options.output, from, texts); !written)
            return peer::report({peer::ExitCode::disk, written.error().message()});
    if (options.json) tell_json(from, texts);
    return 0;
}

}  // namespace dedloc::cli
