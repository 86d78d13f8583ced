// Measures what ALBERT on this machine's processor eats: tokens a second of forward and backward
// passes on real text, all threads, micro-batches of a few samples. The anchor of `tokens`, which
// must be well above it. Prints one JSON line.
//
//   albert_eats --hidden 768 --layers 12 --length 512      ALBERT-base

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <cstdio>

#include "dedloc/run/run_file.h"
#include "dedloc/tasks/albert/albert_section.h"
#include "dedloc/tasks/text_section.h"
#include "dedloc/tasks/training_task.h"

namespace {

struct Options {
    dedloc::tasks::AlbertConfig sizes{
        .hidden = 768, .layers = 12, .heads = 12, .feed_forward = 3072};
    dedloc::tasks::TextKeys text{.tokenizer = "vocabulary=4096"};
    std::uint64_t micro = 2;
    int repeats = 3;
    int threads = 0;
};

dedloc::Result<double> tokens_per_s(const Options& options) {
    using namespace dedloc;
    run::TaskConfig config{.kind = "albert", .model = "albert", .data = "kjv"};
    config.set_section(run::section_from(tasks::albert_section_name, options.sizes));
    config.set_section(run::section_from(tasks::text_section_name, options.text));
    DEDLOC_TRY(const auto task,
               tasks::make_task(config, {.device = "cpu", .threads_count = options.threads}));
    DEDLOC_TRY(const auto learner, task->learner(PeerId()));
    // The first one allocates.
    DEDLOC_TRY_VOID(learner->accumulate({0, options.micro}));
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 1; i <= options.repeats; ++i) {
        const auto first = static_cast<std::uint64_t>(i) * options.micro;
        DEDLOC_TRY_VOID(learner->accumulate({first, first + options.micro}));
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    const auto samples = static_cast<double>(options.repeats) * static_cast<double>(options.micro);
    // Samples are filled to the length nearly always; what is padded is computed as well.
    return samples * static_cast<double>(options.text.length) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("tokens a second that ALBERT computes here");
    app.add_option("--hidden", options.sizes.hidden);
    app.add_option("--layers", options.sizes.layers);
    app.add_option("--heads", options.sizes.heads);
    app.add_option("--feed-forward", options.sizes.feed_forward);
    app.add_option("--vocabulary", options.sizes.vocabulary);
    app.add_option("--length", options.text.length);
    app.add_option("--micro", options.micro);
    app.add_option("--repeats", options.repeats);
    app.add_option("--threads", options.threads);
    CLI11_PARSE(app, argc, argv);
    const auto rate = tokens_per_s(options);
    if (!rate) {
        std::fprintf(stderr, "albert_eats: %s\n", rate.error().message().c_str());
        return 1;
    }
    std::printf("{\"tokens_per_s\": %.6g}\n", *rate);
    return 0;
}
