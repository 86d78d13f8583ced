#include "dedloc/text/sample_stream.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "dedloc/text/prefetch.h"
#include "dedloc/text/text_data.h"
#include "dedloc/text/text_testing.h"

namespace dedloc::text {
namespace {

PeerId peer(std::uint8_t number) {
    Bytes multihash{0x12, 0x20};
    multihash.resize(34, number);
    return *PeerId::from_bytes(multihash);
}

// Every sentence begins with a word of its own, so that a sample tells what it has: "aaabc zu ta."
struct World {
    Folder folder;
    std::shared_ptr<const Corpus> corpus;
    std::shared_ptr<const Tokenizer> tokenizer;
};

std::string letters_of(std::uint64_t number, int count) {
    std::string text;
    for (; count > 0; --count, number /= 26) text += static_cast<char>('a' + number % 26);
    return text;
}

std::string numbered_text(int documents, std::string_view letter, Random& random) {
    std::string text;
    std::uint64_t number = 0;
    for (int document = 0; document < documents; ++document) {
        for (std::uint64_t k = 2 + random.below(30); k > 0; --k) {
            text += fmt::format("{}{}", letter, letters_of(number++, 4));
            for (std::uint64_t w = 2 + random.below(9); w > 0; --w)
                text += " " + letters_of(base::mix64(random.below(60)), 3);
            text += ".\n";
        }
        text += "\n";
    }
    return text;
}

const World& world() {
    static const World made = [] {
        World w;
        Random random(3);
        w.folder.write("a.txt", numbered_text(300, "a", random));
        w.folder.write("b.txt", numbered_text(40, "b", random));
        const std::string how = "?documents=paragraph&sentences=line";
        w.corpus = *Corpus::open(*parse_sources("text:a.txt" + how + "&weight=3, text:b.txt" + how),
                                 {.data_directory = w.folder.path(), .block_bytes = 2048});
        auto tokenizer = train_tokenizer(
            *w.corpus, *parse_recipe("vocabulary=200"), {.scratch_directory = w.folder.path()});
        EXPECT_TRUE(tokenizer) << to_string(tokenizer.error());
        w.tokenizer = *tokenizer;
        return w;
    }();
    return made;
}

std::shared_ptr<const SampleStream> stream(std::uint64_t seed,
                                           const PeerId& of,
                                           SampleOptions options = {},
                                           Split split = Split::train,
                                           Shard shard = {}) {
    if (options.max_length == 512) options.max_length = 64;
    if (options.window_samples == 4096) options.window_samples = 128;
    auto made =
        SampleStream::open(world().corpus, world().tokenizer, options, split, seed, of, shard);
    EXPECT_TRUE(made) << to_string(made.error());
    return *made;
}

bool same(const MaskedBatch& a, const MaskedBatch& b) {
    return a.rows == b.rows && a.columns == b.columns && a.input_ids == b.input_ids &&
           a.token_type_ids == b.token_type_ids && a.attention_mask == b.attention_mask &&
           a.labels == b.labels && a.sentence_order == b.sentence_order;
}

// The row as it was before masking.
std::vector<std::int64_t> original(const MaskedBatch& batch, std::int64_t row) {
    std::vector<std::int64_t> ids;
    for (std::int64_t c = 0; c < batch.columns; ++c) {
        const auto at = static_cast<std::size_t>(row * batch.columns + c);
        if (batch.attention_mask[at] == 0) break;
        ids.push_back(batch.labels[at] == not_masked ? batch.input_ids[at] : batch.labels[at]);
    }
    return ids;
}

// The first sentence in text order: what names the chunk.
std::string first_sentence(const MaskedBatch& batch, std::int64_t row) {
    auto ids = original(batch, row);
    const auto sep = std::find(ids.begin(), ids.end(), 3);
    const bool swapped = batch.sentence_order[static_cast<std::size_t>(row)] != 0;
    const auto text = swapped ? std::vector<std::int64_t>(sep + 1, ids.end() - 1)
                              : std::vector<std::int64_t>(ids.begin() + 1, sep);
    const std::string words = world().tokenizer->decode(text);
    return words.substr(0, words.find(' '));
}

TEST(Chunks, fill_the_length_and_leave_nothing_out_but_single_sentences) {
    const Tokenizer& tokenizer = *world().tokenizer;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        Random random(seed);
        std::vector<Document> documents(1 + random.below(4));
        std::size_t tokens = 0;
        for (Document& document : documents) {
            for (std::uint64_t k = random.below(20); k > 0; --k) {
                std::string sentence;
                for (std::uint64_t w = 1 + random.below(k == 3 ? 60 : 8); w > 0; --w)
                    sentence += "w1 ";
                tokens += tokenizer.encode(sentence).size();
                document.push_back(sentence);
            }
        }
        const Chunks chunks = make_chunks(documents, tokenizer, 32);
        std::size_t kept = 0;
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            const std::size_t count = chunks.sentences_count(i);
            ASSERT_GE(count, 2u) << "seed " << seed;
            const std::size_t all = chunks.sentences(i, 0, count).size();
            kept += all;
            // Not one sentence more than needed, none that fills a sample by itself.
            EXPECT_LT(chunks.sentences(i, 0, count - 1).size(), 32u);
            for (std::size_t k = 0; k < count; ++k)
                EXPECT_LT(chunks.sentences(i, k, k + 1).size(), 32u);
        }
        // Lost: at most one sentence at the end of each document.
        EXPECT_LE(tokens - kept, documents.size() * 32) << "seed " << seed;
    }
}

TEST(PairRow, has_the_shape_of_albert_and_truncates_the_longer_text) {
    Chunks chunks;
    for (std::uint32_t i = 0; i < 40; ++i) chunks.tokens.push_back(10 + i);
    chunks.begin = {0, 30, 40};
    chunks.first = {0, 2};
    int swapped = 0;
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        Random random(seed);
        const Row row = make_pair_row(chunks, 0, SpecialPieces{}, 24, random);
        ASSERT_EQ(row.ids.size(), 24u);
        EXPECT_EQ(row.ids.front(), 2u);
        EXPECT_EQ(row.ids[row.second_begin - 1], 3u);
        EXPECT_EQ(row.ids.back(), 3u);
        // 21 tokens: 30 of A become 11, 10 of B stay; swapped, 10 and 11.
        EXPECT_EQ(row.second_begin, row.swapped ? 12u : 13u);
        EXPECT_EQ(row.ids[1], row.swapped ? 40u : 10u);
        EXPECT_EQ(row.ids[row.second_begin], row.swapped ? 10u : 40u);
        swapped += row.swapped ? 1 : 0;
    }
    EXPECT_NEAR(swapped, 500, 80);  // 5 standard deviations
}

TEST(PairRow, splits_anywhere_between_sentences) {
    Chunks chunks;
    chunks.tokens = {10, 11, 12, 13, 14};
    chunks.begin = {0, 1, 2, 3, 4, 5};
    chunks.first = {0, 5};
    std::array<int, 5> splits{};
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
        Random random(seed);
        const Row row = make_pair_row(chunks, 0, SpecialPieces{}, 64, random);
        const std::size_t first = row.second_begin - 2;
        ++splits[row.swapped ? 5 - first : first];
    }
    for (std::size_t split = 1; split < 5; ++split) EXPECT_NEAR(splits[split], 1000, 140);
}

TEST(Masking, follows_the_shares_and_never_touches_special_pieces) {
    const Tokenizer& tokenizer = *world().tokenizer;
    std::uint64_t candidates = 0, chosen = 0, masked = 0, changed = 0, kept = 0;
    std::map<std::uint32_t, std::uint64_t> replaced_by;
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        Random random(seed);
        Row row;
        row.ids = {2};
        for (int i = 0; i < 60; ++i)
            row.ids.push_back(static_cast<std::uint32_t>(special_pieces + random.below(100)));
        row.ids[30] = 1;  // <unk>
        row.ids[40] = row.ids[61 - 1] = 3;
        row.labels.assign(row.ids.size(), not_masked);
        const auto before = row.ids;
        mask_row(row, tokenizer, {}, random);
        for (std::size_t i = 0; i < row.ids.size(); ++i) {
            if (tokenizer.is_special(before[i])) {
                ASSERT_EQ(row.ids[i], before[i]);
                ASSERT_EQ(row.labels[i], not_masked);
                continue;
            }
            ++candidates;
            if (row.labels[i] == not_masked) {
                ASSERT_EQ(row.ids[i], before[i]);
                continue;
            }
            ASSERT_EQ(row.labels[i], before[i]);
            ++chosen;
            if (row.ids[i] == tokenizer.special().mask) {
                ++masked;
            } else if (row.ids[i] == before[i]) {
                ++kept;
            } else {
                ++changed;
                ++replaced_by[row.ids[i]];
                ASSERT_FALSE(tokenizer.is_special(row.ids[i]));
            }
        }
    }
    const auto share = [](std::uint64_t part, std::uint64_t of) {
        return static_cast<double>(part) / static_cast<double>(of);
    };
    EXPECT_NEAR(share(chosen, candidates), 0.15, 0.005);
    EXPECT_NEAR(share(masked, chosen), 0.80, 0.015);
    EXPECT_NEAR(share(changed, chosen), 0.10, 0.012);
    EXPECT_NEAR(share(kept, chosen), 0.10, 0.012);
    EXPECT_EQ(replaced_by.size(), tokenizer.size() - special_pieces);  // each comes some time
}

TEST(Masking, chooses_one_token_at_least) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        Random random(seed);
        Row row{.ids = {2, 10, 3, 11, 3}, .labels = std::vector<std::int64_t>(5, not_masked)};
        mask_row(row, *world().tokenizer, {.probability = 0.001}, random);
        EXPECT_NE(std::count(row.labels.begin(), row.labels.end(), not_masked), 5) << seed;
    }
    Random random(0);
    Row nothing{.ids = {2, 3, 1, 3}, .labels = std::vector<std::int64_t>(4, not_masked)};
    mask_row(nothing, *world().tokenizer, {}, random);
    EXPECT_EQ(nothing.ids, (std::vector<std::uint32_t>{2, 3, 1, 3}));
}

TEST(Padding, reaches_the_longest_row_or_its_multiple) {
    const auto batch = stream(1, peer(1))->batch({0, 16});
    ASSERT_TRUE(batch);
    ASSERT_EQ(batch->rows, 16);
    std::int64_t longest = 0;
    for (std::int64_t row = 0; row < batch->rows; ++row) {
        const auto length = static_cast<std::int64_t>(original(*batch, row).size());
        longest = std::max(longest, length);
        for (std::int64_t c = 0; c < batch->columns; ++c) {
            const auto at = static_cast<std::size_t>(row * batch->columns + c);
            EXPECT_EQ(batch->attention_mask[at], c < length ? 1 : 0);
            if (c < length) continue;
            EXPECT_EQ(batch->input_ids[at], 0);
            EXPECT_EQ(batch->token_type_ids[at], 0);
            EXPECT_EQ(batch->labels[at], not_masked);
        }
    }
    EXPECT_EQ(batch->columns, longest);
    EXPECT_LE(longest, 64);
    const auto padded = stream(1, peer(1), {.max_length = 60, .pad_multiple = 8})->batch({0, 3});
    ASSERT_TRUE(padded);
    EXPECT_EQ(padded->columns % 8, 0);
}

TEST(SampleStream, is_a_function_of_seed_peer_and_counter) {
    const auto one = stream(1, peer(1));
    const auto whole = one->batch({0, 300});  // over windows of 128
    ASSERT_TRUE(whole);
    // Another object, from the middle, backwards, one by one.
    const auto other = stream(1, peer(1));
    for (const std::uint64_t counter : {290u, 5u, 127u, 128u, 0u, 299u}) {
        const auto single = other->batch({counter, counter + 1});
        ASSERT_TRUE(single);
        EXPECT_EQ(original(*single, 0), original(*whole, static_cast<std::int64_t>(counter)));
        const auto begin =
            whole->labels.begin() + static_cast<std::ptrdiff_t>(counter) * whole->columns;
        EXPECT_TRUE(std::equal(single->labels.begin(), single->labels.end(), begin));
        EXPECT_EQ(single->sentence_order[0], whole->sentence_order[counter]);
    }
    EXPECT_TRUE(same(*other->batch({64, 96}), *one->batch({64, 96})));
    EXPECT_FALSE(same(*stream(2, peer(1))->batch({64, 96}), *one->batch({64, 96})));
    EXPECT_FALSE(same(*stream(1, peer(2))->batch({64, 96}), *one->batch({64, 96})));
    // Far ahead costs no more than near.
    EXPECT_TRUE(one->batch({1'000'000'000'000, 1'000'000'000'008}));
}

TEST(SampleStream, walks_the_text_once_an_epoch) {
    // One source, so that an epoch is one.
    const auto corpus =
        *Corpus::open(*parse_sources("text:a.txt?documents=paragraph&sentences=line"),
                      {.data_directory = world().folder.path(), .block_bytes = 2048});
    const auto samples = *SampleStream::open(corpus,
                                             world().tokenizer,
                                             {.max_length = 64, .window_samples = 128},
                                             Split::train,
                                             1,
                                             peer(1));
    std::set<std::string> chunks;
    for (std::size_t i = 0; i < corpus->blocks(0, Split::train).size(); ++i) {
        const auto documents = *corpus->read(0, corpus->blocks(0, Split::train)[i]);
        const Chunks made = make_chunks(documents, *world().tokenizer, 64);
        for (std::size_t c = 0; c < made.size(); ++c) {
            const auto tokens = made.sentences(c, 0, 1);
            const std::vector<std::int64_t> ids(tokens.begin(), tokens.end());
            const std::string words = world().tokenizer->decode(ids);
            chunks.insert(words.substr(0, words.find(' ')));
        }
    }
    const std::uint64_t epoch = samples->samples_per_epoch();
    EXPECT_NEAR(static_cast<double>(epoch),
                static_cast<double>(chunks.size()),
                0.05 * static_cast<double>(chunks.size()));
    std::array<std::set<std::string>, 2> seen;
    for (std::uint64_t e = 0; e < 2; ++e) {
        const auto batch = *samples->batch({e * epoch, (e + 1) * epoch});
        for (std::int64_t row = 0; row < batch.rows; ++row)
            seen[e].insert(first_sentence(batch, row));
        // Nearly every chunk comes, hardly any twice.
        EXPECT_GT(static_cast<double>(seen[e].size()), 0.9 * static_cast<double>(chunks.size()));
        for (const std::string& name : seen[e]) EXPECT_TRUE(chunks.contains(name)) << name;
    }
    // Samples that an epoch left out come in others.
    seen[0].insert(seen[1].begin(), seen[1].end());
    EXPECT_GT(static_cast<double>(seen[0].size()), 0.98 * static_cast<double>(chunks.size()));
}

TEST(SampleStream, mixes_sources_by_weight_and_shuffles) {
    const auto batch = *stream(1, peer(1))->batch({0, 1280});
    std::uint64_t from_a = 0;
    std::uint64_t neighbours = 0;
    std::string before;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
        const std::string name = first_sentence(batch, row);
        from_a += name[0] == 'a' ? 1 : 0;
        neighbours += !before.empty() && name.substr(0, 3) == before.substr(0, 3) ? 1 : 0;
        before = name;
    }
    EXPECT_EQ(from_a, 960u);  // exactly three quarters of every window
    EXPECT_LT(neighbours, 1280u / 10);
}

TEST(SampleStream, peers_meet_by_chance_only_and_not_at_all_with_shards) {
    const auto chunks_of = [](const PeerId& of, Shard shard) {
        const auto samples = stream(1, of, {}, Split::train, shard);
        std::set<std::string> names;
        const auto batch = *samples->batch({0, samples->samples_per_epoch() / 4});
        for (std::int64_t row = 0; row < batch.rows; ++row) {
            const std::string name = first_sentence(batch, row);
            // A quarter of the samples is less than a quarter of a only: b has less text.
            if (name[0] == 'a') names.insert(name);
        }
        return names;
    };
    const auto common = [](const std::set<std::string>& x, const std::set<std::string>& y) {
        std::vector<std::string> both;
        std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
        return static_cast<double>(both.size()) / static_cast<double>(x.size());
    };
    const auto first = chunks_of(peer(1), {});
    const auto second = chunks_of(peer(2), {});
    EXPECT_LT(common(first, second), 0.45);
    const auto left = chunks_of(peer(1), {.index = 0, .count = 2});
    const auto right = chunks_of(peer(2), {.index = 1, .count = 2});
    EXPECT_EQ(common(left, right), 0);
}

TEST(SampleStream, held_out_text_is_never_trained_on) {
    const auto held = stream(0, PeerId(), {}, Split::held_out);
    const auto evaluation = *held->batch({0, held->samples_per_epoch()});
    std::set<std::string> names;
    for (std::int64_t row = 0; row < evaluation.rows; ++row)
        names.insert(first_sentence(evaluation, row));
    EXPECT_GT(names.size(), 5u);
    const auto training = stream(1, peer(1));
    const auto batch = *training->batch({0, 3 * training->samples_per_epoch()});
    for (std::int64_t row = 0; row < batch.rows; ++row)
        EXPECT_FALSE(names.contains(first_sentence(batch, row)));
}

// A single sentence gives no pair, and here whole windows come from such lines.
TEST(SampleStream, takes_other_blocks_where_a_windows_own_give_nothing) {
    const Folder folder;
    std::string text;
    for (int i = 0; i < 200; ++i)
        text += i / 10 % 4 == 3 ? fmt::format("{} is one. It has another.\n", i)
                                : fmt::format("{} is all that there is to read here.\n", i);
    folder.write("x.txt", text);
    const auto corpus = *Corpus::open(*parse_sources("text:x.txt?documents=line"),
                                      {.data_directory = folder.path(), .block_bytes = 256});
    const auto open = [&] {
        return *SampleStream::open(corpus,
                                   world().tokenizer,
                                   {.max_length = 64, .window_samples = 1},
                                   Split::train,
                                   1,
                                   peer(1));
    };
    const auto samples = open();
    const auto batch = samples->batch({0, 100});
    ASSERT_TRUE(batch) << to_string(batch.error());
    EXPECT_TRUE(same(*batch, *open()->batch({0, 100})));
}

TEST(SampleStream, a_light_source_is_trained_on_and_not_evaluated) {
    const std::string how = "?documents=paragraph&sentences=line";
    const auto corpus = *Corpus::open(
        *parse_sources("text:a.txt" + how + ", text:b.txt" + how + "&weight=0.001"),
        {.data_directory = world().folder.path(), .block_bytes = 2048, .held_out = 0.2});
    const auto open = [&](Split split, std::uint32_t window) {
        return SampleStream::open(corpus,
                                  world().tokenizer,
                                  {.max_length = 64, .window_samples = window},
                                  split,
                                  1,
                                  peer(1));
    };
    EXPECT_TRUE(open(Split::train, 4096));
    EXPECT_FALSE(open(Split::train, 100));
    const auto held_out = open(Split::held_out, 100);
    ASSERT_TRUE(held_out) << to_string(held_out.error());
    const auto batch = *(*held_out)->batch({0, 200});
    for (std::int64_t row = 0; row < batch.rows; ++row)
        EXPECT_EQ(first_sentence(batch, row)[0], 'a');
}

TEST(SampleStream, describes_a_row_for_people) {
    const auto samples = stream(1, peer(1));
    const auto batch = *samples->batch({0, 4});
    const std::string text = samples->describe(batch, 0);
    EXPECT_TRUE(text.starts_with("[CLS] ")) << text;
    EXPECT_NE(text.find("[MASK]"), std::string::npos) << text;
    EXPECT_NE(text.find("\n    masked: "), std::string::npos) << text;
}

TEST(SampleStream, says_what_does_not_go) {
    const auto error = [](const std::string& sources, SampleOptions options, Shard shard = {}) {
        const auto corpus =
            Corpus::open(*parse_sources(sources), {.data_directory = world().folder.path()});
        const auto made = SampleStream::open(
            *corpus, world().tokenizer, options, Split::train, 1, peer(1), shard);
        return made ? "" : made.error().message();
    };
    const auto has = [](const std::string& text, const std::string& words) {
        return text.find(words) != std::string::npos;
    };
    EXPECT_TRUE(has(error("text:a.txt?documents=line&sentences=line", {}),
                    "no document here has two sentences, and a sample is a pair"));
    EXPECT_TRUE(has(error("text:a.txt", {.max_length = 4}), "8 to 8192 tokens, not 4"));
    EXPECT_TRUE(has(error("text:a.txt", {.masking = {.probability = 0}}), "is masked, not 0"));
    EXPECT_TRUE(has(error("text:a.txt", {.masking = {.mask_share = 0.9, .random_share = 0.2}}),
                    "not 0.9 and 0.2"));
    EXPECT_TRUE(has(error("text:a.txt", {.window_samples = 0}), "a window has 1 to"));
    EXPECT_TRUE(has(error("text:a.txt", {.pad_multiple = 0}), "padded to a multiple of 1"));
    EXPECT_TRUE(has(error("text:a.txt, text:b.txt?weight=0.00001", {.window_samples = 100}),
                    "text:b.txt?weight=1e-05: this weight gives less than one of the 100"));
    EXPECT_TRUE(has(error("text:a.txt", {}, {.index = 2, .count = 2}), "no shard 2 of 2"));
}

TEST(Prefetcher, gives_what_the_stream_gives) {
    const auto samples = stream(1, peer(1), {.window_samples = 64});
    for (const std::size_t threads : {0u, 1u, 3u}) {
        Prefetcher prefetcher(samples, {.threads = threads, .batches_ahead = 3});
        std::vector<SampleRange> ranges;
        for (std::uint64_t i = 0; i < 40; ++i) ranges.push_back({i * 8, i * 8 + 8});
        // A jump, another size, the same again, nothing.
        for (const SampleRange range :
             {SampleRange{1000, 1008}, {1008, 1016}, {1016, 1020}, {1020, 1024}, {0, 8}, {0, 8}})
            ranges.push_back(range);
        ranges.push_back({5, 5});
        for (const SampleRange& range : ranges) {
            const auto batch = prefetcher.take(range);
            ASSERT_TRUE(batch);
            EXPECT_TRUE(same(*batch, *samples->batch(range))) << range.begin;
        }
        EXPECT_EQ(prefetcher.hits(), threads == 0 ? 0u : 39u + 1u + 1u);
    }
}

TEST(Prefetcher, passes_errors_on_and_ends_while_it_works) {
    const Folder folder;
    Random random(4);
    folder.write("x.txt", numbered_text(200, "a", random));
    const auto corpus = *Corpus::open(*parse_sources("text:x.txt?sentences=line"),
                                      {.data_directory = folder.path(), .block_bytes = 1024});
    const auto samples = *SampleStream::open(corpus,
                                             world().tokenizer,
                                             {.max_length = 64, .window_samples = 16},
                                             Split::train,
                                             1,
                                             peer(1));
    {
        Prefetcher unfinished(samples, {.threads = 2, .batches_ahead = 100});
        ASSERT_TRUE(unfinished.take({0, 4}));
    }
    folder.write("x.txt", "gone");
    Prefetcher prefetcher(samples, {.threads = 1, .batches_ahead = 2});
    for (std::uint64_t i = 100; i < 104; ++i) {
        const auto batch = prefetcher.take({i * 16, i * 16 + 16});
        ASSERT_FALSE(batch);
        EXPECT_EQ(batch.error().kind(), ErrorKind::bad_input);
    }
}

TEST(TextData, opens_from_lines_of_the_run_file_and_checks_hashes) {
    const Folder cache;
    TextDataConfig config{.sources = "text:a.txt?sentences=line",
                          .tokenizer = "vocabulary=150",
                          .samples = {.max_length = 48, .window_samples = 64}};
    const TextDataOptions options{.data_directory = world().folder.path(),
                                  .cache_directory = cache.path()};
    const auto data = TextData::open(config, options);
    ASSERT_TRUE(data) << to_string(data.error());
    EXPECT_EQ((*data)->tokenizer().size(), 150u);
    const auto samples = (*data)->train(1, peer(1));
    ASSERT_TRUE(samples);
    EXPECT_TRUE((*samples)->batch({0, 8}));
    const auto held_out = (*data)->held_out();
    ASSERT_TRUE(held_out);
    EXPECT_TRUE((*held_out)->batch({0, 8}));

    config.tokenizer_hash = (*data)->tokenizer().hash();
    config.corpus_hash = (*data)->corpus().fingerprint();
    EXPECT_TRUE(TextData::open(config, options));
    config.corpus_hash = Digest{};
    const auto other_text = TextData::open(config, options);
    ASSERT_FALSE(other_text);
    EXPECT_EQ(other_text.error().kind(), ErrorKind::conflict);
    EXPECT_NE(other_text.error().message().find("the run wants 00000000…"), std::string::npos);
    folders::FileSketch theirs = (*data)->corpus().sketch();
    theirs.add("mine/more.txt", Digest{});
    config.corpus_sketch = theirs;
    const std::string told = TextData::open(config, options).error().message();
    EXPECT_NE(told.find("; a file is missing here: take"), std::string::npos) << told;
    config.corpus_sketch.reset();
    config.corpus_hash.reset();
    config.tokenizer_hash = Digest{};
    const auto other_tokenizer = TextData::open(config, options);
    ASSERT_FALSE(other_tokenizer);
    EXPECT_EQ(other_tokenizer.error().kind(), ErrorKind::conflict);
    config.sources = "text:none";
    EXPECT_EQ(TextData::open(config, options).error().kind(), ErrorKind::not_found);
}

}  // namespace
}  // namespace dedloc::text
