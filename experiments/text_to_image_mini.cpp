#include "experiments/text_to_image_mini.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "dedloc/images/crops.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/runtime/child_process.h"
#include "dedloc/runtime/heap.h"
#include "dedloc/tasks/text_to_image/caption_tokens.h"
#include "dedloc/tasks/text_to_image/sampler.h"
#include "dedloc/tasks/text_to_image/text_to_image_model.h"
#include "dedloc/torch_bridge/flat_module.h"

#include "experiments/mini_collaboration.h"
#include "experiments/picture_edges.h"
#include "tests/common/exit_codes.h"
#include "tests/common/temporary_folder.h"
#include "tests/process/process_folder.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;

constexpr double tone_bound = 0.60;
constexpr double figure_bound = 0.60;
constexpr double edges_bound = 0.50;
constexpr double image_loss_bound = 0.8;
constexpr const char* tones[] = {"light", "medium-light", "medium", "medium-dark", "dark"};
constexpr double drawing_seconds = 120;
constexpr std::int64_t sheet_prompts_count = 16;
constexpr std::uint32_t sheet_columns = 8;
constexpr std::uint32_t sheet_enlarged = 4;
constexpr double compared_guidances[] = {1, 1.5, 2, 3, 4, 6};
constexpr std::int64_t measured_rows = 512;  // training pictures of the last image_loss

constexpr std::string_view text_to_image_mini_run = R"(
name = "text-to-image-mini"
[task]
kind = "text_to_image"
model = "transformer"
data = "captions"
[text_to_image]
width = 96
layers = 8
heads = 4
head_width = 24
shared_layers = 4
convolution_side = 3
reversible = false
words = 1024
text_length = 8
[pictures]
side = 16
codes_side = 8
codes = 128
codes_width = 48
codes_steps = 600
[batch]
target = 64
micro = 16
[optimizer]
kind = "lamb"
beta2 = 0.96
epsilon = 1e-6
moments_8bit = true
gradient_norm_max = 4.0
[schedule]
kind = "linear"
warmup_steps = 20
total_steps = 900
[averaging]
codec = "adaptive"
delayed = true
round_deadline_min = "2s"
round_deadline_max = "60s"
quorum_timeout = "10s"
[evaluate]
every = 0
)";

struct EmojiLine {
    std::string caption;
    std::string figure;
    std::string tone;
};

// Draws the emoji and keeps the lines that this experiment is about. Their order is the folder's.
Result<std::vector<EmojiLine>> draw_emoji(const std::string& folder) {
    const fs::path helper = fs::path(dedloc_program()).parent_path() / "dedloc-draw-emoji";
    DEDLOC_TRY(auto child,
               runtime::ChildProcess::start({.command = {helper.string(), folder, "en", "16"},
                                             .output_file = folder + "/drawn.json",
                                             .error_file = folder + "/drawn.err"}));
    if (!child.wait_for(drawing_seconds) || child.end()->exit_code != 0) {
        std::ifstream said(folder + "/drawn.err");
        std::string line;
        std::getline(said, line);
        return make_error(ErrorKind::not_found, "the emoji could not be drawn: {}", line);
    }
    std::vector<nlohmann::ordered_json> lines;
    std::set<std::string> with_tones;
    std::ifstream file(folder + "/captions.jsonl");
    for (std::string line; std::getline(file, line);) {
        lines.push_back(nlohmann::ordered_json::parse(line));
        if (lines.back()["tone"] != "") with_tones.insert(lines.back()["figure"]);
    }
    file.close();
    std::vector<EmojiLine> kept;
    std::ofstream captions(folder + "/captions.jsonl");
    for (const auto& line : lines) {
        if (!with_tones.contains(line["figure"])) continue;
        kept.push_back({line["caption"], line["figure"], line["tone"]});
        captions << line.dump() << '\n';
    }
    if (captions.flush()) return kept;
    return make_error(ErrorKind::local_fault, "cannot write in {}", folder);
}

// Examines what the model knows, by the measures of the header.
class Examiner {
  public:
    Examiner(std::shared_ptr<const tasks::CaptionTokens> tokens,
             const run::TaskConfig& config,
             std::vector<EmojiLine> lines)
        : tokens_(std::move(tokens)), config_(config) {
        for (EmojiLine& line : lines) by_caption_[line.caption] = std::move(line);
    }

    Ok begin();
    Ok load(std::span<const float> parameters);
    double image_loss(std::int64_t rows_max) const;
    double held_out_loss() const { return mean_image_loss(tokens_->held_out, 1 << 20); }
    double tone() const;
    // Codes of the likeliest pictures for the held-out captions.
    torch::Tensor draw(double guidance) const;
    const tasks::TextToImageConfig& sizes() const { return model_->config(); }
    torch::Tensor real_codes() const { return tokens_->held_out.codes.to(torch::kInt64); }
    // The codes are those of pictures for the held-out captions, in their order.
    double figure(const torch::Tensor& codes) const;
    double edges(const torch::Tensor& codes) const;
    images::Picture sheet(const torch::Tensor& codes) const;
    std::vector<std::string> sheet_prompts() const;

  private:
    const EmojiLine& held_out(std::int64_t row) const {
        return by_caption_.at(tokens_->held_out_captions[static_cast<std::size_t>(row)]);
    }
    // The row of the prompt with this number on the sheet.
    std::size_t sheet_row(std::int64_t number) const {
        return static_cast<std::size_t>(number * (tokens_->held_out.count() / sheet_prompts_count));
    }
    double mean_image_loss(const tasks::TokenRows& rows, std::int64_t rows_max) const;
    torch::Tensor words_of(const std::vector<std::string>& captions) const;

    std::shared_ptr<const tasks::CaptionTokens> tokens_;
    const run::TaskConfig& config_;
    std::map<std::string, EmojiLine> by_caption_;
    std::shared_ptr<tasks::TextToImageModel> model_;
    torch::Tensor real_;                     // [pictures, numbers]
    std::vector<std::string> real_figures_;  // of them
    double real_edges_ = 0;                  // of those that are held out
};

Ok Examiner::begin() {
    const torch::NoGradGuard none;
    DEDLOC_TRY(const tasks::TextToImageConfig sizes, tasks::text_to_image_sizes(config_));
    model_ = std::make_shared<tasks::TextToImageModel>(sizes);
    std::vector<torch::Tensor> all;
    const std::int64_t side = tokens_->codec->sizes().side;
    for (std::size_t i = 0; i < tokens_->folder->entries().size(); ++i) {
        DEDLOC_TRY(const images::Picture picture, tokens_->folder->picture(i));
        all.push_back(tasks::square_of(picture, side));
        real_figures_.push_back(by_caption_.at(tokens_->folder->entries()[i].caption).figure);
    }
    real_ = torch::cat(all).to(torch::kFloat32).flatten(1) / 255;
    std::vector<images::Picture> held_out;
    for (const std::size_t number : tokens_->held_out_pictures) {
        DEDLOC_TRY(images::Picture picture, tokens_->folder->picture(number));
        held_out.push_back(std::move(picture));
    }
    real_edges_ = edge_energy(held_out);
    return {};
}

Ok Examiner::load(std::span<const float> parameters) {
    DEDLOC_TRY(torch_bridge::FlatModule flat, torch_bridge::FlatModule::make(model_));
    flat.load(parameters, {});
    return {};
}

double Examiner::mean_image_loss(const tasks::TokenRows& rows, std::int64_t rows_max) const {
    const torch::NoGradGuard none;
    const std::int64_t count = std::min(rows.count(), rows_max);
    const auto losses = model_->losses(rows.captions.slice(0, 0, count).to(torch::kInt64),
                                       rows.codes.slice(0, 0, count).to(torch::kInt64));
    return losses.image.mean().item<double>();
}

double Examiner::image_loss(std::int64_t rows_max) const {
    return mean_image_loss(tokens_->train, rows_max);
}

torch::Tensor Examiner::words_of(const std::vector<std::string>& captions) const {
    std::vector<torch::Tensor> rows;
    for (const std::string& caption : captions)
        rows.push_back(
            torch::tensor(tokens_->codec->words().encode(
                              caption, static_cast<std::size_t>(model_->config().text_length)))
                .unsqueeze(0));
    return torch::cat(rows);
}

double Examiner::tone() const {
    const torch::NoGradGuard none;
    const std::int64_t count = tokens_->held_out.count();
    const auto codes = tokens_->held_out.codes.to(torch::kInt64);
    std::vector<torch::Tensor> losses;
    for (const char* tone : tones) {
        std::vector<std::string> captions;
        for (std::int64_t i = 0; i < count; ++i)
            captions.push_back(fmt::format("{}: {} skin tone", held_out(i).figure, tone));
        losses.push_back(model_->losses(words_of(captions), codes).image.unsqueeze(1));
    }
    const auto likeliest = torch::cat(losses, 1).argmin(1);
    double right = 0;
    for (std::int64_t i = 0; i < count; ++i)
        right += held_out(i).tone == tones[likeliest[i].item<std::int64_t>()] ? 1 : 0;
    return right / static_cast<double>(count);
}

torch::Tensor Examiner::draw(double guidance) const {
    const torch::NoGradGuard none;
    return tasks::sample_codes(*model_,
                               tokens_->held_out.captions.to(torch::kInt64),
                               {.temperature = 0, .guidance = guidance});
}

double Examiner::edges(const torch::Tensor& codes) const {
    return edge_energy(tokens_->codec->draw(codes)) / real_edges_;
}

double Examiner::figure(const torch::Tensor& codes) const {
    const torch::NoGradGuard none;
    const auto pictures = tokens_->codec->decode(codes).flatten(1);
    const auto nearest = torch::cdist(pictures, real_).argmin(1);
    double right = 0;
    for (std::int64_t i = 0; i < nearest.size(0); ++i) {
        const auto real = static_cast<std::size_t>(nearest[i].item<std::int64_t>());
        right += real_figures_[real] == held_out(i).figure ? 1 : 0;
    }
    return right / static_cast<double>(nearest.size(0));
}

// Rows of eight: real pictures, and below them the drawn ones.
images::Picture Examiner::sheet(const torch::Tensor& codes) const {
    std::vector<images::Picture> rows;
    const auto drawn = tokens_->codec->draw(codes);
    for (std::int64_t first = 0; first < sheet_prompts_count; first += sheet_columns) {
        std::vector<images::Picture> below;
        for (std::int64_t i = first; i < first + sheet_columns; ++i) {
            const std::size_t row = sheet_row(i);
            const auto picture = tokens_->folder->picture(tokens_->held_out_pictures[row]);
            if (picture) rows.push_back(images::enlarged(*picture, sheet_enlarged));
            below.push_back(images::enlarged(drawn[row], sheet_enlarged));
        }
        rows.insert(rows.end(), below.begin(), below.end());
    }
    return images::contact_sheet(rows, sheet_columns);
}

std::vector<std::string> Examiner::sheet_prompts() const {
    std::vector<std::string> prompts;
    for (std::int64_t i = 0; i < sheet_prompts_count; ++i)
        prompts.push_back(tokens_->held_out_captions[sheet_row(i)]);
    return prompts;
}

Result<run::RunFile> mini_run(const TextToImageMiniCommand& command) {
    DEDLOC_TRY(run::RunFile run, run::parse_run_file(text_to_image_mini_run, "text-to-image-mini"));
    run.task.seed = command.seed;
    run.optimizer.schedule.peak = command.rate;
    run.optimizer.schedule.total_steps = command.steps;
    DEDLOC_TRY(auto sizes, tasks::text_to_image_sizes(run.task));
    sizes.text_length = static_cast<std::int64_t>(command.words);
    sizes.caption_drop = command.caption_drop;
    sizes.code_noise = command.code_noise;
    sizes.guidance = command.guidance;
    run.task.set_section(run::section_from(tasks::text_to_image_section_name, sizes));
    DEDLOC_TRY_VOID(tasks::text_to_image_sizes(run.task));
    return run;
}

const MiniPlan text_to_image_churn{
    .acts = {{60, MiniDeed::kill, 3, "peer 3 is killed"}, {100, MiniDeed::join, 5, "peer 5 joins"}},
    .observe_every = 10};

class Training {
  public:
    Training(const TextToImageMiniCommand& command, Examiner& examiner)
        : command_(command), examiner_(examiner) {}

    Result<bool> observe(std::uint64_t step, std::span<const float> parameters) {
        const bool over = step >= command_.steps || seconds() > command_.seconds_max;
        if (step % tell_every == 0 || over) {
            DEDLOC_TRY_VOID(examiner_.load(parameters));
            parameters_.assign(parameters.begin(), parameters.end());
            const bool whole = !over && step > 0 && step % examine_every == 0;
            fmt::print(stderr,
                       "step {:>4}  {:>4.0f} s  image loss {:.3f}{}\n",
                       step,
                       seconds(),
                       examiner_.image_loss(told_rows),
                       whole ? fmt::format("  held out {:.3f}  tone {:.2f}",
                                           examiner_.held_out_loss(),
                                           examiner_.tone())
                             : "");
        }
        return over;
    }
    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    }
    std::span<const float> parameters() const { return parameters_; }  // when it last told

  private:
    static constexpr std::uint64_t tell_every = 50;
    static constexpr std::uint64_t examine_every = 200;
    static constexpr std::int64_t told_rows = 128;
    const TextToImageMiniCommand& command_;
    Examiner& examiner_;
    std::vector<float> parameters_;
    std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

struct Trained {
    std::uint64_t steps = 0;
    bool identical = true;
    std::set<std::string> hashes;  // of all peers at the end
    std::vector<std::string> churn;
    double seconds = 0;
};

Result<Trained> train(const TextToImageMiniCommand& command,
                      const run::RunFile& run,
                      const tasks::TrainingTask& task,
                      const std::string& folder,
                      Examiner& examiner) {
    Training training(command, examiner);
    Trained trained;
    if (command.alone) {
        const LookAlone look = [&](std::uint64_t step, std::span<const float> parameters) {
            trained.steps = step;
            return training.observe(step, parameters);
        };
        DEDLOC_TRY_VOID(train_alone(run, task, text_to_image_churn.observe_every, look));
    } else {
        MiniCollaboration together(run, task, folder, text_to_image_churn);
        const auto look = [&](const state::Snapshot& state) {
            return training.observe(state.step(), replica::parameters_of(state));
        };
        DEDLOC_TRY_VOID(together.train(look));
        trained.steps = together.steps();
        trained.identical = together.identical();
        trained.hashes = {together.final_hashes().begin(), together.final_hashes().end()};
        trained.churn = together.done();
    }
    trained.seconds = training.seconds();
    if (!command.model.empty())
        DEDLOC_TRY_VOID(task.export_model(training.parameters(), {}, command.model));
    return trained;
}

Ok write_sheet(const std::string& path, const images::Picture& picture) {
    const Bytes png = images::encode_png(picture);
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
    if (file.flush()) return {};
    return make_error(ErrorKind::local_fault, "cannot write {}", path);
}

nlohmann::ordered_json by_guidance(const Examiner& examiner) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const double guidance : compared_guidances) {
        if (!check_guidance(examiner.sizes(), guidance)) continue;
        const torch::Tensor drawn = examiner.draw(guidance);
        all.push_back({{"guidance", guidance},
                       {"figure", examiner.figure(drawn)},
                       {"edges", examiner.edges(drawn)}});
    }
    return all;
}

Result<nlohmann::ordered_json> learn_emoji(const TextToImageMiniCommand& command,
                                           const std::string& folder) {
    const auto begun = std::chrono::steady_clock::now();
    const std::string data = folder + "/emoji";
    std::error_code status;
    fs::create_directories(data, status);
    if (!command.model.empty() && !fs::is_directory(command.model) &&
        !fs::create_directories(command.model, status))
        return make_error(ErrorKind::local_fault, "cannot make the folder {}", command.model);
    DEDLOC_TRY(auto lines, draw_emoji(data));
    DEDLOC_TRY(run::RunFile run, mini_run(command));
    const tasks::TaskOptions options{.device = "cpu", .threads_count = 1, .data_directory = data};
    DEDLOC_TRY(const auto task, tasks::make_task(run.task, options));
    run.task = task->decided_config().value_or(run.task);
    DEDLOC_TRY(const auto tokens, tasks::CaptionTokens::open(run.task, options));
    const double prepared =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    Examiner examiner(tokens, run.task, std::move(lines));
    DEDLOC_TRY_VOID(examiner.begin());
    DEDLOC_TRY(const Trained trained, train(command, run, *task, folder, examiner));
    const double image_loss = examiner.image_loss(measured_rows);
    const double tone = examiner.tone();
    const torch::Tensor drawn = examiner.draw(examiner.sizes().guidance);
    const double figure = examiner.figure(drawn);
    const double edges = examiner.edges(drawn);
    if (!command.sheet.empty()) DEDLOC_TRY_VOID(write_sheet(command.sheet, examiner.sheet(drawn)));
    const bool held = tone >= tone_bound && figure >= figure_bound && edges >= edges_bound &&
                      image_loss <= image_loss_bound && trained.identical;
    return nlohmann::ordered_json{{"ok", held},
                                  {"image_loss", image_loss},
                                  {"image_loss_held_out", examiner.held_out_loss()},
                                  {"tone", tone},
                                  {"figure", figure},
                                  {"figure_of_codes", examiner.figure(examiner.real_codes())},
                                  {"edges", edges},
                                  {"edges_of_codes", examiner.edges(examiner.real_codes())},
                                  {"by_guidance", by_guidance(examiner)},
                                  {"pictures", tokens->train.count()},
                                  {"held_out", tokens->held_out.count()},
                                  {"steps", trained.steps},
                                  {"samples", trained.steps * run.batch.target},
                                  {"churn", trained.churn},
                                  {"identical", trained.identical},
                                  {"state_hashes", trained.hashes.size()},
                                  {"sheet_prompts", examiner.sheet_prompts()},
                                  {"seconds_prepared", prepared},
                                  {"seconds", trained.seconds}};
}

}  // namespace

int run_text_to_image_mini(const TextToImageMiniCommand& command) {
    const auto folder = TemporaryFolder::make();
    if (!folder) return exit_after(folder.error());
    runtime::keep_freed_memory();  // as dedloc does
    // The run trains its image codes anew, and leaves nothing in the user's cache.
    ::setenv("XDG_CACHE_HOME", folder->path().c_str(), 1);
    const auto json = learn_emoji(command, folder->path());
    if (!json) return exit_after(json.error());
    if (command.json) {
        fmt::print("{}\n", monitor::json_line(*json));
    } else {
        fmt::print(
            "image loss {:.3f}; of held-out captions the right tone {:.2f}, the right "
            "figure {:.2f}, edges {:.2f} of the real; {} steps in {:.0f} s\n",
            json->at("image_loss").get<double>(),
            json->at("tone").get<double>(),
            json->at("figure").get<double>(),
            json->at("edges").get<double>(),
            json->at("steps").get<std::uint64_t>(),
            json->at("seconds").get<double>());
    }
    return json->at("ok").get<bool>() ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
