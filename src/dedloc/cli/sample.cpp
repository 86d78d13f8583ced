// dedloc sample: pictures that a text-to-image model draws for prompts, or text that a language
// model writes behind them, at a checkpoint or at the newest state of a run that is under way.

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/written_texts.h"
#include "dedloc/images/picture.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/newer_states.h"
#include "dedloc/peer/prompts.h"
#include "dedloc/peer/say.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/text/cache.h"
#include "dedloc/web/sheets.h"

namespace dedloc::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t pictures_drawn_max = 4096;  // of one call
constexpr std::size_t pictures_usual = 16;        // of each prompt
constexpr const char* usual_sheet = "grid.png";

Result<std::vector<std::string>> prompts_of(const SampleOptions& options) {
    std::vector<std::string> prompts = options.prompts;
    if (!options.prompts_file.empty()) {
        DEDLOC_TRY(const auto more, peer::prompts_of_file(options.prompts_file));
        prompts.insert(prompts.end(), more.begin(), more.end());
    }
    DEDLOC_TRY_VOID(peer::check_prompts(prompts));
    return prompts;
}

// A prompt alone fills a square; several have a row each.
Ok write_grid(const std::string& path,
              const tasks::Drawing& drawing,
              std::size_t prompts,
              std::size_t count) {
    std::vector<images::Picture> shown;
    for (const images::Picture& picture : drawing.pictures)
        shown.push_back(images::shown_large(picture));
    auto columns = static_cast<std::uint32_t>(count);
    if (prompts == 1)
        columns = static_cast<std::uint32_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    const Bytes png = images::encode_png(images::contact_sheet(shown, columns));
    return text::write_file(path, as_text(png));
}

void tell(const SampleOptions& options,
          const peer::Visited& from,
          const std::vector<std::string>& prompts,
          const tasks::Drawing& drawing,
          const std::string& path) {
    for (const std::string& remark : drawing.remarks) peer::say(stderr, "dedloc: {}\n", remark);
    if (options.json) {
        const nlohmann::ordered_json json{{"ok", true},
                                          {"run", from.run.name},
                                          {"step", from.state->step()},
                                          {"prompts", prompts},
                                          {"pictures", drawing.pictures.size()},
                                          {"remarks", drawing.remarks},
                                          {"file", path}};
        return peer::say(stdout, "{}\n", monitor::json_line(json));
    }
    peer::say(stdout,
              "{}, step {}: {} pictures in {}, of each prompt the likeliest first\n",
              from.run.name,
              from.state->step(),
              drawing.pictures.size(),
              path);
    for (const std::string& prompt : prompts) peer::say(stdout, "  {}\n", prompt);
}

int draw_all(const SampleOptions& options,
             const peer::Visited& from,
             const std::vector<std::string>& prompts) {
    const std::size_t count = options.count > 0 ? options.count : pictures_usual;
    if (prompts.size() * count > pictures_drawn_max)
        return peer::report({peer::ExitCode::bad_input,
                             fmt::format("{} prompts of {} pictures are more than {}",
                                         prompts.size(),
                                         count,
                                         pictures_drawn_max)});
    const auto drawing = from.task->draw(replica::parameters_of(*from.state),
                                         replica::buffers_of(*from.state),
                                         {.prompts = prompts,
                                          .count = count,
                                          .top_k = options.top_k,
                                          .temperature = options.temperature,
                                          .guidance = options.guidance,
                                          .seed = options.seed});
    if (!drawing) return peer::report(peer::failure(drawing.error()));
    const std::string path = options.output.empty() ? usual_sheet : options.output;
    if (const Ok written = write_grid(path, *drawing, prompts.size(), count); !written)
        return peer::report({peer::ExitCode::disk, written.error().message()});
    tell(options, from, prompts, *drawing, path);
    return 0;
}

int answer(const SampleOptions& options,
           const peer::Visited& from,
           const std::vector<std::string>& prompts) {
    if (tasks::writes_text(from.run.task)) return write_texts(options, from, prompts);
    return draw_all(options, from, prompts);
}

// Writes prompts/step-5.txt, and latest.txt, a link to it.
int write_sheet(const SampleOptions& options, const peer::Visited& from) {
    const auto prompts = peer::prompts_of_file(options.watch_prompts);
    if (!prompts) return peer::report(peer::failure(prompts.error()));
    const char* ending = tasks::writes_text(from.run.task) ? "txt" : "png";
    const std::string name = fmt::format("step-{}.{}", from.state->step(), ending);
    const fs::path folder =
        options.output.empty() ? fs::path(web::sheets_folder_name) : fs::path(options.output);
    SampleOptions sheet = options;
    sheet.output = (folder / name).string();
    std::error_code error;
    fs::create_directories(folder, error);
    if (const int code = answer(sheet, from, *prompts); code != 0) return code;
    const fs::path next = folder / ".latest.new";
    fs::remove(next, error);
    fs::create_symlink(name, next, error);
    if (!error) fs::rename(next, folder / fmt::format("latest.{}", ending), error);
    if (error)
        return peer::report({peer::ExitCode::disk, folder.string() + ": " + error.message()});
    if (!options.json) peer::say(stdout, "{}\n", sheet.output);
    std::fflush(stdout);
    return 0;
}

// Writes a page of answers at each newer state, until Ctrl-C.
int watch(const SampleOptions& options, const tasks::TaskOptions& task) {
    peer::catch_interrupts();
    const auto goes_on = [] { return peer::interrupts() == 0; };
    peer::NewerStates states({.join_string = options.join_string,
                              .directory = options.directory,
                              .checkpoint = options.checkpoint,
                              .refresh = options.refresh},
                             task,
                             goes_on,
                             [](const auto& line) { peer::say(stderr, "dedloc: {}\n", line); });
    auto first = states.first();
    if (!first) return goes_on() ? peer::report(first.failure()) : 0;
    for (std::optional<peer::Visited> from = *first; from; from = states.next())
        if (const int code = write_sheet(options, *from); code != 0) return code;
    return 0;
}

}  // namespace

int run_sample(const SampleOptions& options) {
    const tasks::TaskOptions task{
        .device = options.device, .threads_count = options.threads, .unprepared = true};
    if (!options.watch_prompts.empty()) return watch(options, task);
    const auto prompts = prompts_of(options);
    if (!prompts) return peer::report(peer::failure(prompts.error()));
    const auto say_it = [&](const std::string& line) {
        if (!options.json) peer::say(stderr, "{}\n", line);
    };
    auto from = options.join_string.empty()
                    ? peer::visit_checkpoint(options.checkpoint, task)
                    : peer::visit_run(options.join_string, options.directory, task, say_it);
    if (!from) return peer::report(from.failure());
    return answer(options, *from, *prompts);
}

}  // namespace dedloc::cli
