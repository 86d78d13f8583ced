// From text to batches, on the King James Bible: what each step takes, beside SentencePiece's own
// library and trainer in the same minutes. One thread each, but for training (16 threads, both;
// cpu_s is what their processes used).
//
//   dedloc_text_bench --benchmark_counters_tabular=true

#include <algorithm>
#include <benchmark/benchmark.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sentencepiece_processor.h>
#include <sys/resource.h>

#include "dedloc/runtime/child_process.h"
#include "dedloc/text/cache.h"
#include "dedloc/text/prefetch.h"
#include "dedloc/text/text_data.h"

namespace dedloc::text {
namespace {

constexpr const char* their_trainer = "/usr/bin/spm_train";

template <typename T>
T must(Result<T> result) {
    if (!result) throw std::runtime_error(to_string(result.error()));
    return *std::move(result);
}

std::shared_ptr<const TextData> data(std::uint32_t max_length) {
    TextDataConfig config;
    config.samples.max_length = max_length;
    return must(TextData::open(config, {}));
}

struct Verses {
    std::shared_ptr<const TextData> data = text::data(64);
    std::vector<std::string> lines;
    std::uint64_t bytes = 0;
    Verses() {
        const Ok visited =
            data->corpus().visit_sentences(~std::uint64_t{0}, [&](const std::string& line) {
                bytes += line.size();
                lines.push_back(line);
                return true;
            });
        visited.value();
    }
};

const Verses& verses() {
    static const Verses all;
    return all;
}

void open_corpus(benchmark::State& state) {
    const auto sources = must(parse_sources("kjv"));
    std::uint64_t bytes = 0;
    for (auto step : state) bytes += must(Corpus::open(sources, {}))->bytes();
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}
BENCHMARK(open_corpus)->Unit(benchmark::kMillisecond);

void encode(benchmark::State& state) {
    const Tokenizer& tokenizer = verses().data->tokenizer();
    std::vector<std::uint32_t> ids;
    std::int64_t tokens = 0;
    for (auto step : state) {
        for (const std::string& line : verses().lines) {
            ids.clear();
            tokenizer.encode(line, ids);
            tokens += static_cast<std::int64_t>(ids.size());
        }
    }
    state.SetItemsProcessed(tokens);
}
BENCHMARK(encode)->Unit(benchmark::kMillisecond);

void encode_by_sentencepiece(benchmark::State& state) {
    sentencepiece::SentencePieceProcessor library;
    if (!library.LoadFromSerializedProto(as_text(verses().data->tokenizer().file())).ok())
        throw std::runtime_error("SentencePiece does not open our tokenizer");
    std::vector<int> ids;
    std::int64_t tokens = 0;
    for (auto step : state) {
        for (const std::string& line : verses().lines) {
            library.Encode(line, &ids).IgnoreError();
            tokens += static_cast<std::int64_t>(ids.size());
        }
    }
    state.SetItemsProcessed(tokens);
}
BENCHMARK(encode_by_sentencepiece)->Unit(benchmark::kMillisecond);

std::int64_t real_tokens(const MaskedBatch& batch) {
    return std::count(batch.attention_mask.begin(), batch.attention_mask.end(), 1);
}

// Everything: reading, sentences, tokens, chunks, shuffling, pairs, masks, padding.
void prepare_batches(benchmark::State& state) {
    const auto samples = must(data(static_cast<std::uint32_t>(state.range(0)))->train(1, PeerId()));
    std::uint64_t counter = 0;
    std::int64_t tokens = 0;
    for (auto step : state) {
        // A whole window, or the first batch would pay for it and the others not.
        const std::uint64_t end = counter + samples->window_samples();
        for (; counter < end; counter += 32)
            tokens += real_tokens(must(samples->batch({counter, counter + 32})));
    }
    state.SetItemsProcessed(tokens);
    state.counters["samples/s"] =
        benchmark::Counter(static_cast<double>(counter), benchmark::Counter::kIsRate);
}
BENCHMARK(prepare_batches)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

// The last step alone: from a window that is there.
void mask_and_pad(benchmark::State& state) {
    const auto samples = must(data(static_cast<std::uint32_t>(state.range(0)))->train(1, PeerId()));
    std::int64_t tokens = 0;
    std::uint64_t counter = 0;
    for (auto step : state) {
        tokens += real_tokens(must(samples->batch({counter, counter + 32})));
        counter = (counter + 32) % samples->window_samples();
    }
    state.SetItemsProcessed(tokens);
}
BENCHMARK(mask_and_pad)->Arg(64)->Arg(512);

// The trainer's wait when one thread prepares and it computes 16 ms a batch of 32.
void wait_for_prefetched(benchmark::State& state) {
    const auto samples = must(data(64)->train(1, PeerId()));
    Prefetcher prefetcher(samples, {.threads = 1, .batches_ahead = 8});
    must(prefetcher.take({0, 32}));
    std::uint64_t counter = 32;
    volatile double sink = 1;
    for (auto step : state) {
        const auto batch = must(prefetcher.take({counter, counter + 32}));
        counter += 32;
        state.PauseTiming();
        for (int i = 0; i < 6'000'000; ++i) sink = sink * 1.0000001;
        state.ResumeTiming();
    }
    state.counters["hits"] =
        static_cast<double>(prefetcher.hits()) / static_cast<double>(counter / 32 - 1);
}
BENCHMARK(wait_for_prefetched)->Iterations(300);

// Processor time of children: on a busy machine the only fair measure of the two trainers.
double children_cpu_s() {
    rusage usage{};
    ::getrusage(RUSAGE_CHILDREN, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void train(benchmark::State& state) {
    const double before = children_cpu_s();
    const auto recipe = must(parse_recipe("vocabulary=4096"));
    for (auto step : state) must(train_tokenizer(verses().data->corpus(), recipe));
    state.counters["cpu_s"] = children_cpu_s() - before;
}
BENCHMARK(train)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();

void train_by_spm_train(benchmark::State& state) {
    if (!std::filesystem::exists(their_trainer)) {
        state.SkipWithError("no spm_train here: apt-get install sentencepiece");
        return;
    }
    const auto scratch = must(ScratchFolder::make(must(default_cache_directory())));
    std::ofstream file(scratch.file("text"));
    for (const std::string& line : verses().lines) file << line << '\n';
    file.close();
    const double before = children_cpu_s();
    for (auto step : state) {
        auto child = must(
            runtime::ChildProcess::start({.command = {their_trainer,
                                                      "--input=" + scratch.file("text"),
                                                      "--model_prefix=" + scratch.file("theirs"),
                                                      "--vocab_size=4096",
                                                      "--model_type=unigram",
                                                      "--pad_id=0",
                                                      "--unk_id=1",
                                                      "--bos_id=-1",
                                                      "--eos_id=-1",
                                                      "--control_symbols=[CLS],[SEP],[MASK]",
                                                      "--normalization_rule_name=nmt_nfkc_cf",
                                                      "--num_threads=16"},
                                          .output_file = scratch.file("out"),
                                          .error_file = scratch.file("err")}));
        if (!child.wait_for(600) || child.end()->exit_code != 0)
            throw std::runtime_error("spm_train failed");
    }
    state.counters["cpu_s"] = children_cpu_s() - before;
}
BENCHMARK(train_by_spm_train)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace
}  // namespace dedloc::text
