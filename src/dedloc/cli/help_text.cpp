#include "dedloc/cli/help_text.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>
#include <string_view>

#include "dedloc/peer/exit_codes.h"

namespace dedloc::cli {
namespace {

constexpr std::string_view take_part = "Take part in a run";
constexpr std::string_view organise = "Organise a run";
constexpr std::string_view look = "Look at a run";
constexpr std::string_view use_models = "Use what was trained";
constexpr std::string_view prepare = "Prepare data";
constexpr std::string_view machine = "This machine and this program";

struct CommandHelp {
    std::string_view command;  // "data emoji" for one below another
    std::string_view group;
    std::array<std::string_view, 2> examples;
};

// Each group is printed where its first command was added to the program.
constexpr CommandHelp help_table[] = {
    {"join",
     take_part,
     {"dedloc join dedloc1…", "dedloc join @join.txt --dir my-peer --threads 4"}},
    {"assist", take_part, {"dedloc assist dedloc1…", "dedloc assist @join.txt --memory 512"}},
    {"serve", take_part, {"dedloc serve dedloc1…", "dedloc serve @join.txt --memory 2048"}},
    {"relay",
     take_part,
     {"dedloc relay --listen 0.0.0.0:4001", "dedloc relay dedloc1… --announce 203.0.113.7:4001"}},
    {"finetune",
     use_models,
     {"dedloc finetune my-peer --task ner --data names.txt",
      "dedloc finetune checkpoints --task classification --data news.csv --seeds 3"}},
    {"init", organise, {"dedloc init albert", "dedloc init swav --robust -o pictures.toml"}},
    {"check", organise, {"dedloc check albert.toml", "dedloc check --network dedloc1…"}},
    {"host",
     organise,
     {"dedloc host albert.toml --listen 0.0.0.0:4001", "dedloc host --resume my-peer"}},
    {"fleet",
     organise,
     {"dedloc fleet slurm run.toml --peers 16 --partition spot",
      "dedloc fleet kubernetes @join.txt --image registry.example.org/dedloc"}},
    {"invite", organise, {"dedloc invite", "dedloc invite Anna --days 30"}},
    {"members", organise, {"dedloc members", "dedloc members --json"}},
    {"revoke", organise, {"dedloc revoke Anna", "dedloc revoke Anna --dir my-peer"}},
    {"service", take_part, {"dedloc service install dedloc1…", "dedloc service remove dedloc1…"}},
    {"service install",
     take_part,
     {"dedloc service install dedloc1… --hours 22:00-07:00",
      "dedloc service install @join.txt --idle 10 --processor 150"}},
    {"service run",
     take_part,
     {"dedloc service run @join.txt", "dedloc service run @join.txt --idle 10"}},
    {"service remove",
     take_part,
     {"dedloc service remove dedloc1…", "dedloc service remove @join.txt"}},
    {"watch", look, {"dedloc watch dedloc1…", "dedloc watch @join.txt --plain --seconds 60"}},
    {"find",
     look,
     {"dedloc find our-run --at dedloc1…",
      "dedloc find our-run --at /ip4/203.0.113.7/tcp/4001/p2p/12D3KooW… --json"}},
    {"why", look, {"dedloc why my-peer", "dedloc why dedloc1…"}},
    {"replay", look, {"dedloc replay my-peer", "dedloc replay my-peer --web 8471"}},
    {"pause", take_part, {"dedloc pause", "dedloc pause my-peer"}},
    {"resume", take_part, {"dedloc resume", "dedloc resume my-peer --json"}},
    {"limit",
     take_part,
     {"dedloc limit --max-up 5", "dedloc limit my-peer --max-up off --max-down off"}},
    {"publish", organise, {"dedloc publish", "dedloc publish my-peer"}},
    {"report", look, {"dedloc report my-peer", "dedloc report my-peer --to pages --every 24h"}},
    {"audit", look, {"dedloc audit my-peer", "dedloc audit peers/* --killed anna"}},
    {"eval", use_models, {"dedloc eval my-peer", "dedloc eval checkpoints --data words"}},
    {"export",
     use_models,
     {"dedloc export my-peer --to model", "dedloc export checkpoints --to model --json"}},
    {"sample",
     use_models,
     {"dedloc sample my-peer --prompt \"red hat\"",
      "dedloc sample --join dedloc1… --prompts prompts.txt --n 4"}},
    {"serve-api",
     use_models,
     {"dedloc serve-api my-peer", "dedloc serve-api dedloc1… --port 8490"}},
    {"tokenizer",
     prepare,
     {"dedloc tokenizer train --output words.model", "dedloc tokenizer show words.model"}},
    {"tokenizer train",
     prepare,
     {"dedloc tokenizer train --output words.model",
      "dedloc tokenizer train --input text:books --vocab-size 8000 --output books.model"}},
    {"tokenizer show",
     prepare,
     {"dedloc tokenizer show words.model", "dedloc tokenizer show words.model --text \"a hat\""}},
    {"data", prepare, {"dedloc data emoji emoji", "dedloc data emoji emoji --language bn"}},
    {"data emoji",
     prepare,
     {"dedloc data emoji emoji --side 32", "dedloc data emoji emoji --language bn --force"}},
    {"plan", machine, {"dedloc plan --setup B", "dedloc plan network.toml --svg plan.svg"}},
    {"demo", machine, {"dedloc demo", "dedloc demo --peers 6 --plain"}},
    {"version", machine, {"dedloc version", "dedloc version --json"}},
};

// `above`: "data " for the commands of `dedloc data`.
void arrange_below(CLI::App& app, const std::string& above) {
    for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
        const std::string name = above + command->get_name();
        const auto help = std::ranges::find(help_table, name, &CommandHelp::command);
        if (help != std::end(help_table)) {
            command->footer(
                fmt::format("Examples:\n  {}\n  {}\n", help->examples[0], help->examples[1]));
            if (above.empty()) command->group(std::string(help->group));
        }
        arrange_below(*command, name + " ");
    }
}

}  // namespace

void arrange_help(CLI::App& app) {
    arrange_below(app, "");
    app.footer("Examples:\n  dedloc demo\n  dedloc join dedloc1…\n\n" + peer::exit_code_help() +
               "\n`dedloc COMMAND --help` says more.");
}

}  // namespace dedloc::cli
