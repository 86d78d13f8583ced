#include "dedloc/state/checkpoint.h"

#include <gtest/gtest.h>
#include <map>
#include <set>

namespace dedloc::state {
namespace {

// Memory as a disk, with a limit and a way to damage it.
class MemoryDisk final : public runtime::Disk {
  public:
    Result<Bytes> read(const std::string& path) override {
        const auto found = files.find(path);
        if (found == files.end()) return make_error(ErrorKind::not_found, "no file {}", path);
        reads.insert(path);
        return found->second;
    }
    Result<std::uint64_t> size(const std::string& path) override {
        const auto found = files.find(path);
        if (found == files.end()) return make_error(ErrorKind::not_found, "no file {}", path);
        return found->second.size();
    }
    Result<void> write_atomically(const std::string& path, ByteView bytes) override {
        std::size_t used = bytes.size();
        for (const auto& [name, content] : files)
            if (name != path) used += content.size();
        if (used > room)
            return make_error(ErrorKind::local_fault,
                              "no space left on the disk; free some and try again");
        files[path] = to_bytes(bytes);
        return {};
    }
    Result<void> append_durably(const std::string&, ByteView) override { return {}; }
    Result<void> remove(const std::string& path) override {
        const std::size_t gone = std::erase_if(files, [&](const auto& file) {
            return file.first == path || file.first.starts_with(path + "/");
        });
        if (gone == 0) return make_error(ErrorKind::not_found, "no file {}", path);
        return {};
    }
    Result<std::vector<std::string>> list(const std::string& folder) override {
        std::vector<std::string> names;
        for (const auto& [name, content] : files) {
            if (!name.starts_with(folder + "/")) continue;
            const std::string rest = name.substr(folder.size() + 1);
            const std::string first = rest.substr(0, rest.find('/'));
            if (names.empty() || names.back() != first) names.push_back(first);
        }
        if (names.empty()) return make_error(ErrorKind::not_found, "no folder {}", folder);
        return names;
    }

    std::map<std::string, Bytes> files;
    std::set<std::string> reads;
    std::size_t room = std::size_t{1} << 30;
};

Checkpoint checkpoint_of_step(std::uint64_t step,
                              std::size_t elements = 5'000'000,
                              const Digest& run = {}) {
    SnapshotInfo info;
    info.run = run;
    info.step = step;
    info.samples = step * 100;
    std::vector<float> values(elements);
    for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i * (step + 1) % 977);
    auto snapshot = *Snapshot::make(info, {{.name = "w", .values = std::move(values)}});
    auto manifest = make_manifest(*snapshot);
    return {.state = std::make_shared<PublishedState>(
                PublishedState{.snapshot = std::move(snapshot), .manifest = std::move(manifest)}),
            .run_file = "name = \"demo\"\n",
            .extra = to_bytes("certificates")};
}

TEST(Checkpoint, comes_back_as_it_was_saved) {
    MemoryDisk disk;
    const Checkpoint saved = checkpoint_of_step(7);
    const auto summary = save_checkpoint(disk, "run/checkpoints", saved);
    ASSERT_TRUE(summary) << to_string(summary.error());
    EXPECT_EQ(summary->step, 7u);
    const auto loaded = load_checkpoint(disk, "run/checkpoints", summary->name);
    ASSERT_TRUE(loaded) << to_string(loaded.error());
    EXPECT_EQ(loaded->state->manifest, saved.state->manifest);
    EXPECT_EQ(loaded->state->snapshot->sections()[0].values,
              saved.state->snapshot->sections()[0].values);
    EXPECT_EQ(loaded->run_file, saved.run_file);
    EXPECT_EQ(loaded->extra, saved.extra);
    EXPECT_EQ(list_checkpoints(disk, "nowhere")->size(), 0u);
    EXPECT_EQ(load_newest_checkpoint(disk, "nowhere").error().kind(), ErrorKind::not_found);
}

TEST(Checkpoint, keeps_the_newest_and_removes_leftovers) {
    MemoryDisk disk;
    disk.files["c/step-000000000000-00000000/chunks-00000"] = Bytes(10);  // never finished
    for (std::uint64_t step = 1; step <= 5; ++step)
        ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint_of_step(step, 100), {.newest = 2}));
    const auto left = list_checkpoints(disk, "c");
    ASSERT_EQ(left->size(), 2u);
    EXPECT_EQ((*left)[0].step, 5u);
    EXPECT_EQ((*left)[1].step, 4u);
    EXPECT_EQ(disk.list("c")->size(), 2u);
}

TEST(Checkpoint, those_of_another_run_stay_whatever_is_saved_beside_them) {
    MemoryDisk disk;
    for (std::uint64_t step = 130; step <= 132; ++step)
        ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint_of_step(step, 100), {.newest = 3}));
    for (std::uint64_t step = 1; step <= 6; ++step)
        ASSERT_TRUE(
            save_checkpoint(disk, "c", checkpoint_of_step(step, 100, Digest{{7}}), {.newest = 2}));
    std::vector<std::uint64_t> left;
    for (const CheckpointSummary& summary : *list_checkpoints(disk, "c"))
        left.push_back(summary.step);
    EXPECT_EQ(left, (std::vector<std::uint64_t>{6, 5, 132, 131, 130}));
}

// The list of so many folders lacks the one just saved, of an early step.
TEST(Checkpoint, those_of_another_run_stay_where_they_are_more_than_can_be_listed) {
    MemoryDisk disk;
    const auto first = save_checkpoint(disk, "c", checkpoint_of_step(5000, 100));
    ASSERT_TRUE(first);
    const Bytes marker = disk.files.at("c/" + first->name + "/checkpoint.json");
    for (std::size_t i = 0; i < checkpoints_listed_max; ++i)
        disk.files[fmt::format("c/step-{:012}-00000000/checkpoint.json", 6000 + i)] = marker;
    ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint_of_step(1, 100, Digest{{7}}), {.newest = 1}));
    const auto markers = std::ranges::count_if(
        disk.files, [](const auto& file) { return file.first.ends_with("/checkpoint.json"); });
    EXPECT_EQ(static_cast<std::size_t>(markers), checkpoints_listed_max + 2);
}

TEST(Checkpoint, keeps_one_of_every_so_many_steps_for_good_and_what_is_being_read) {
    MemoryDisk disk;
    std::string read;
    for (std::uint64_t step = 1; step <= 35; step += 2) {
        KeepRule rule{.newest = 1, .every_steps = 10};
        if (!read.empty()) rule.also.push_back(read);
        const auto saved = save_checkpoint(disk, "c", checkpoint_of_step(step, 100), rule);
        ASSERT_TRUE(saved);
        if (step == 5) read = saved->name;
    }
    const auto finished = list_checkpoints(disk, "c");
    ASSERT_TRUE(finished);
    std::vector<std::uint64_t> left;
    for (const CheckpointSummary& summary : *finished) left.push_back(summary.step);
    EXPECT_EQ(left, (std::vector<std::uint64_t>{35, 31, 21, 11, 5}));
}

std::vector<std::uint64_t> steps_in(MemoryDisk& disk) {
    const auto finished = list_checkpoints(disk, "c");
    std::vector<std::uint64_t> steps;
    for (const CheckpointSummary& summary : *finished) steps.push_back(summary.step);
    return steps;
}

TEST(Checkpoint, a_run_that_begins_again_is_newer_than_what_is_there_of_a_higher_step) {
    MemoryDisk disk;
    for (const std::uint64_t step : {100, 200, 300})
        ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint_of_step(step, 100)));
    for (const std::uint64_t step : {1, 2})
        ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint_of_step(step, 100)));
    EXPECT_EQ(steps_in(disk), (std::vector<std::uint64_t>{2, 1, 300}));
    EXPECT_EQ(load_newest_checkpoint(disk, "c")->summary.step, 2u);
    // Saving a state that is there already makes it the newest one.
    ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint_of_step(1, 100)));
    EXPECT_EQ(load_newest_checkpoint(disk, "c")->summary.step, 1u);
}

TEST(Checkpoint, runs_that_begin_again_do_not_cost_what_was_reached_before) {
    MemoryDisk disk;
    const auto run = [&](const std::vector<std::uint64_t>& steps) {
        for (const std::uint64_t step : steps)
            ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint_of_step(step, 100)));
    };
    run({100, 200, 300});
    run({1, 2, 3, 4});
    EXPECT_EQ(steps_in(disk), (std::vector<std::uint64_t>{4, 3, 2, 300}));
    // A service that is started anew again and again fills no disk, and loses nothing either.
    run({11, 12, 13, 14});
    run({5, 6, 7, 8});
    run({1, 2, 3});
    EXPECT_EQ(steps_in(disk), (std::vector<std::uint64_t>{3, 2, 1, 8, 300}));
}

TEST(Checkpoint, every_history_in_a_folder_keeps_its_first_ones_for_good) {
    MemoryDisk disk;
    const KeepRule rule{.newest = 1, .every_steps = 10};
    for (std::uint64_t step = 5; step <= 35; step += 5)
        ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint_of_step(step, 100), rule));
    for (std::uint64_t step = 4; step <= 24; step += 4)
        ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint_of_step(step, 100), rule));
    // Step 20 is one state in both, and counts where it was saved last; 35 is the last one
    // of the earlier history.
    EXPECT_EQ(steps_in(disk), (std::vector<std::uint64_t>{24, 20, 12, 35, 30, 10}));
}

TEST(Checkpoint, those_of_before_saving_was_counted_are_older_and_ordered_by_step) {
    MemoryDisk disk;
    for (const std::uint64_t step : {20, 10}) {
        const auto old = save_checkpoint(disk, "c", checkpoint_of_step(step, 100));
        ASSERT_TRUE(old);
        Bytes& json = disk.files["c/" + old->name + "/checkpoint.json"];
        std::string text(as_text(json));
        const std::size_t line = text.find("  \"saved\"");
        ASSERT_NE(line, std::string::npos) << text;
        text.erase(line, text.find('\n', line) + 1 - line);  // not the last one: no comma is left
        json = to_bytes(text);
    }
    EXPECT_EQ(steps_in(disk), (std::vector<std::uint64_t>{20, 10}));
    ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint_of_step(5, 100)));
    EXPECT_EQ(steps_in(disk), (std::vector<std::uint64_t>{5, 20, 10}));
}

TEST(Checkpoint, a_full_disk_leaves_the_old_one_intact_and_is_told) {
    MemoryDisk disk;
    const auto old = save_checkpoint(disk, "c", checkpoint_of_step(1));
    ASSERT_TRUE(old);
    const std::size_t files_before = disk.files.size();
    // From "no room at all" to "all but the last file fits".
    const std::size_t needed = 20'000'064;
    for (const std::size_t more : {std::size_t{0}, std::size_t{17} << 20, needed, needed + 900}) {
        std::size_t used = 0;
        for (const auto& [name, content] : disk.files) used += content.size();
        disk.room = used + more;
        const auto failed = save_checkpoint(disk, "c", checkpoint_of_step(2));
        ASSERT_FALSE(failed) << more;
        EXPECT_EQ(failed.error().kind(), ErrorKind::local_fault);
        EXPECT_NE(failed.error().message().find("no space left"), std::string::npos);
        EXPECT_NE(failed.error().message().find("step 1 is intact"), std::string::npos);
        EXPECT_EQ(disk.files.size(), files_before) << "nothing half-written is left";
        ASSERT_TRUE(load_newest_checkpoint(disk, "c"));
        EXPECT_EQ(load_newest_checkpoint(disk, "c")->summary.step, 1u);
    }
}

TEST(Checkpoint, damage_to_any_file_is_found_named_and_another_one_offered) {
    MemoryDisk disk;
    ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint_of_step(1)));
    const auto newest = save_checkpoint(disk, "c", checkpoint_of_step(2));
    ASSERT_TRUE(newest);
    const MemoryDisk good = disk;
    for (const std::string file : {"chunks-00000", "chunks-00001", "manifest"}) {
        const std::string path = "c/" + newest->name + "/" + file;
        ASSERT_TRUE(good.files.contains(path)) << path;
        for (const std::string damage : {"flip", "cut", "longer", "gone"}) {
            SCOPED_TRACE(file + " " + damage);
            disk = good;
            Bytes& bytes = disk.files[path];
            if (damage == "flip") bytes[bytes.size() / 2] ^= 1;
            if (damage == "cut") bytes.resize(bytes.size() / 2);
            if (damage == "longer") bytes.push_back(0);
            if (damage == "gone") disk.files.erase(path);
            const auto loaded = load_checkpoint(disk, "c", newest->name);
            ASSERT_FALSE(loaded);
            EXPECT_EQ(loaded.error().kind(), ErrorKind::bad_input);
            EXPECT_NE(loaded.error().message().find(path), std::string::npos)
                << loaded.error().message();
            EXPECT_NE(loaded.error().message().find("(step 1) instead"), std::string::npos)
                << loaded.error().message();
            const auto other = load_newest_checkpoint(disk, "c");
            ASSERT_TRUE(other);
            EXPECT_EQ(other->summary.step, 1u);
            EXPECT_EQ(other->skipped.size(), 1u);
        }
    }
    disk = good;
    disk.files["c/" + newest->name + "/checkpoint.json"] = to_bytes("{\"format\": 3");
    EXPECT_EQ(load_newest_checkpoint(disk, "c")->summary.step, 1u);
    EXPECT_NE(load_checkpoint(disk, "c", newest->name).error().message().find("checkpoint.json"),
              std::string::npos);
}

// As if its chunks were there: 6 GB, of which one file is.
TEST(Checkpoint, takes_no_memory_for_a_state_that_is_only_announced) {
    MemoryDisk disk;
    const auto saved = save_checkpoint(disk, "c", checkpoint_of_step(1, 5'000'000));
    ASSERT_TRUE(saved);
    const std::string folder = "c/" + saved->name + "/";
    disk.files.erase(folder + "chunks-00001");
    disk.reads.clear();
    const auto gone = load_checkpoint(disk, "c", saved->name);
    ASSERT_FALSE(gone);
    EXPECT_NE(gone.error().message().find("chunks-00001"), std::string::npos);
    EXPECT_FALSE(disk.reads.contains(folder + "chunks-00000")) << "nothing was begun";
    disk.files[folder + "chunks-00001"] = Bytes(10);
    const auto cut = load_checkpoint(disk, "c", saved->name);
    ASSERT_FALSE(cut);
    EXPECT_NE(cut.error().message().find("too short: 10 bytes instead of"), std::string::npos)
        << cut.error().message();
    EXPECT_FALSE(disk.reads.contains(folder + "chunks-00000"));
}

TEST(Checkpoint, larger_than_the_memory_that_is_there_is_not_read) {
    MemoryDisk disk;
    const auto saved = save_checkpoint(disk, "c", checkpoint_of_step(1, 5'000'000));
    ASSERT_TRUE(saved);
    disk.reads.clear();
    constexpr std::uint64_t little = 10u << 20;
    for (const Error& error : {load_checkpoint(disk, "c", saved->name, little).error(),
                               load_newest_checkpoint(disk, "c", little).error()}) {
        EXPECT_EQ(error.kind(), ErrorKind::cannot_compute);
        EXPECT_NE(error.message().find("takes 19 MiB of memory"), std::string::npos)
            << error.message();
    }
    EXPECT_FALSE(disk.reads.contains("c/" + saved->name + "/chunks-00000"));
    EXPECT_TRUE(load_checkpoint(disk, "c", saved->name, 20u << 20));
}

TEST(Checkpoint, saving_over_a_damaged_one_mends_it) {
    MemoryDisk disk;
    const Checkpoint checkpoint = checkpoint_of_step(3, 1000);
    const auto summary = save_checkpoint(disk, "c", checkpoint);
    disk.files["c/" + summary->name + "/chunks-00000"][100] ^= 1;
    EXPECT_FALSE(load_checkpoint(disk, "c", summary->name));
    ASSERT_TRUE(save_checkpoint(disk, "c", checkpoint));
    EXPECT_TRUE(load_checkpoint(disk, "c", summary->name));
}

}  // namespace
}  // namespace dedloc::state
