#include "dedloc/run/run_file.h"

#include <gtest/gtest.h>

#include "dedloc/run/first_keys.h"
#include "dedloc/security/hash.h"

namespace dedloc::run {
namespace {

RunFile parsed(std::string_view text) {
    auto run = parse_run_file(text, "run.toml");
    EXPECT_TRUE(run) << to_string(run.error());
    return run ? *run : RunFile{};
}

std::string failure(std::string_view text) {
    const auto run = parse_run_file(text, "run.toml");
    EXPECT_FALSE(run) << text;
    if (run) return {};
    EXPECT_EQ(run.error().kind(), ErrorKind::bad_input);
    return run.error().message();
}

constexpr std::string_view full = R"(
# Everything away from its default.
name = "a \"quoted\" name"
protocol = "native"
[task]
kind = "weaving"
model = "tiny"
data = "/data/some where"
seed = 77
precision = "bf16"
[batch]
target = 4096
micro = 32
[optimizer]
kind = "lamb"
weight_decay = 0.01
gradient_norm_max = 1
momentum = 0.5
nesterov = true
larc = true
larc_clip = false
larc_trust = 0.001
larc_epsilon = 1e-9
beta1 = 0.8
beta2 = 0.99
epsilon = 1e-6
debias = false
norm_clamp = 10
moments_8bit = true
[schedule]
kind = "cosine"
peak = 0.00176
warmup_steps = 100
warmup_start = 0.0001
total_steps = 1000
final_fraction = 0.1
[averaging]
codec = "fp32"
part_elements_max = 4096
group_max = 16
round_deadline_min = "1500ms"
round_deadline_max = "3min"
quorum_timeout = "0.5h"
voter_after_contributions = 3
norm_max = 400
delayed = true
leave_out_slow = false
[stop]
steps = 1000
samples = 1000000
accuracy = 0.9
[checkpoint]
every = 7
[evaluate]
every = 3
)";

TEST(RunFile, reads_every_field) {
    const RunFile run = parsed(full);
    EXPECT_EQ(run.name, "a \"quoted\" name");
    EXPECT_EQ(run.task.data, "/data/some where");
    EXPECT_EQ(run.task.seed, 77u);
    EXPECT_EQ(run.task.precision, "bf16");
    EXPECT_EQ(run.batch.target, 4096u);
    EXPECT_EQ(run.optimizer.kind, optim::OptimizerKind::lamb);
    EXPECT_EQ(run.optimizer.gradient_norm_max, 1.0);
    EXPECT_TRUE(run.optimizer.nesterov);
    EXPECT_FALSE(run.optimizer.debias);
    EXPECT_EQ(run.optimizer.schedule.kind, optim::ScheduleKind::cosine);
    EXPECT_EQ(run.optimizer.schedule.peak, 0.00176);
    EXPECT_EQ(run.averaging.codec, codec::CodecId::fp32);
    EXPECT_EQ(run.averaging.round_deadline_min, 1500ms);
    EXPECT_EQ(run.averaging.round_deadline_max, 180s);
    EXPECT_EQ(run.averaging.quorum_timeout, 30min);
    EXPECT_EQ(run.averaging.voter_after_contributions, 3u);
    EXPECT_EQ(run.averaging.norm_max, 400.0);
    EXPECT_TRUE(run.averaging.delayed);
    EXPECT_FALSE(run.averaging.leave_out_slow);
    EXPECT_EQ(run.stop.accuracy, 0.9);
    EXPECT_EQ(run.checkpoint_every, 7u);
    EXPECT_EQ(run.evaluate_every, 3u);
}

TEST(RunFile, has_keys_of_larc_lamb_and_warm_up_only_with_them) {
    const std::string plain = to_toml(parsed("name = \"x\""));
    for (const char* key : {"larc_clip", "moments_8bit", "warmup_start"})
        EXPECT_EQ(plain.find(key), std::string::npos) << key;
    EXPECT_FALSE(parse_run_file("name = \"x\"\n[optimizer]\nmoments_8bit = true\n", "x.toml"));
    const RunFile run = parsed(
        "name = \"x\"\n[optimizer]\nkind = \"sgd\"\nlarc = true\nlarc_clip = false\n"
        "[schedule]\nwarmup_steps = 5\nwarmup_start = 0.01\n");
    EXPECT_FALSE(run.optimizer.larc_clip);
    EXPECT_EQ(run.optimizer.schedule.warmup_start, 0.01);
}

TEST(RunFile, canonical_text_gives_the_same_run_and_hash) {
    for (const std::string_view text : {full, std::string_view("name = \"x\"")}) {
        const RunFile run = parsed(text);
        const std::string canonical = to_toml(run);
        const RunFile again = parsed(canonical);
        EXPECT_EQ(to_toml(again), canonical);
        EXPECT_EQ(run_hash(again), run_hash(run));
        EXPECT_TRUE(differences(run, again).empty());
    }
}

TEST(RunFile, every_field_of_the_full_example_differs_from_the_default) {
    // Guards reading, writing and comparing against a field that one of them forgets: all but
    // the protocol, of which there is one, must show up.
    const auto sentences = differences(parsed("name = \"x\""), parsed(full));
    EXPECT_EQ(sentences.size(), 44u);
}

TEST(RunFile, a_micro_batch_may_be_left_to_each_peer) {
    const RunFile run = parsed("name = \"x\"\n[batch]\nmicro = \"auto\"\n[local]\nbatch = 24\n");
    EXPECT_EQ(run.batch.micro, micro_auto);
    EXPECT_NE(to_toml(run).find("micro = \"auto\"\n"), std::string::npos);
    EXPECT_EQ(parsed(to_toml(run)).batch.micro, micro_auto);
    EXPECT_EQ(differences(run, parsed("name = \"x\"\n[local]\nbatch = 64\n")).front(),
              "batch.micro: \"auto\" here, 64 there");
    EXPECT_EQ(failure("name = \"x\"\n[batch]\nmicro = 0\n"),
              "run.toml:3:9: 'batch.micro' must be from 1 to 4294967296, not 0");
    EXPECT_EQ(failure("name = \"x\"\n[batch]\nmicro = \"many\"\n"),
              "run.toml:3:9: 'batch.micro' must be a whole number, or \"auto\"");
}

TEST(RunFile, names_the_precisions_it_knows) {
    EXPECT_EQ(failure("name = \"x\"\n[task]\nprecision = \"fp8\"\n"),
              "run.toml:3:13: 'task.precision' must be \"fp32\", \"bf16\" or \"fp16\", not "
              "\"fp8\"");
    EXPECT_EQ(failure("name = \"x\"\n[task]\nprecision = 16\n"),
              "run.toml:3:13: 'task.precision' must be \"fp32\", \"bf16\" or \"fp16\"");
}

constexpr std::string_view local = R"(name = "l"
[batch]
target = 512
micro = 8
[optimizer]
nesterov = true
[schedule]
peak = 0.7
[local]
batch = 32
[local.optimizer]
kind = "adamw"
beta2 = 0.95
[local.schedule]
peak = 0.001
warmup_steps = 5
)";

TEST(RunFile, local_updates_have_an_optimizer_of_their_own) {
    const RunFile run = parsed(local);
    ASSERT_TRUE(run.local);
    EXPECT_EQ(run.local->batch, 32u);
    EXPECT_EQ(run.local->optimizer.kind, optim::OptimizerKind::adamw);
    EXPECT_EQ(run.local->optimizer.beta2, 0.95);
    EXPECT_EQ(run.local->optimizer.schedule.peak, 0.001);
    EXPECT_EQ(run.local->optimizer.schedule.warmup_steps, 5u);
    EXPECT_EQ(run.optimizer.kind, optim::OptimizerKind::sgd);
    EXPECT_EQ(run.optimizer.schedule.peak, 0.7);
    EXPECT_EQ(run.optimizer.schedule.warmup_steps, 0u);
    const std::string canonical = to_toml(run);
    EXPECT_NE(canonical.find("\n[local.optimizer]\nkind = \"adamw\"\n"), std::string::npos);
    EXPECT_EQ(to_toml(parsed(canonical)), canonical);
    // The hash of a run without them is not touched.
    EXPECT_FALSE(parsed("name = \"l\"").local);
    EXPECT_EQ(to_toml(parsed("name = \"l\"")).find("local"), std::string::npos);
}

TEST(RunFile, two_runs_of_which_one_makes_local_updates_differ_in_one_sentence) {
    RunFile without = parsed(local);
    without.local.reset();
    EXPECT_EQ(differences(parsed(local), without),
              std::vector<std::string>({"local: a section here, none there"}));
    EXPECT_TRUE(differences(without, without).empty());
    RunFile other = parsed(local);
    other.local->optimizer.beta2 = 0.99;
    EXPECT_EQ(differences(parsed(local), other),
              std::vector<std::string>({"local.optimizer.beta2: 0.95 here, 0.99 there"}));
}

TEST(RunFile, says_what_is_wrong_with_local_updates_and_where) {
    const std::string start = "name = \"l\"\n[batch]\ntarget = 512\nmicro = 8\n";
    EXPECT_EQ(failure(start + "[local.optimizer]\nkind = \"adamw\"\n"),
              "run.toml:5:1: [local] needs 'batch', the samples of one inner step of one peer; "
              "write: batch = 64");
    EXPECT_EQ(failure(start + "[local]\nbatch = 12\n"),
              "run.toml:6:9: 'local.batch' (12) must be a multiple of 'batch.micro' (8)");
    EXPECT_EQ(failure(start + "[local]\nbatch = 0\n"),
              "run.toml:6:9: 'local.batch' must be from 1 to 4294967296, not 0");
    EXPECT_EQ(failure(start + "[local]\nbatch = \"many\"\n"),
              "run.toml:6:9: 'local.batch' must be a whole number");
    EXPECT_EQ(failure(start + "[local]\nbatch = 1024\n"),
              "run.toml:6:9: 'local.batch' (1024) must not exceed 'batch.target' (512), which is "
              "what all peers together compute between two averages");
    EXPECT_EQ(failure(start + "[local]\nbatch = 8\nsteps = 4\n"),
              "run.toml:7:1: unknown key 'local.steps'; did you mean 'stop.steps'?");
    EXPECT_EQ(failure(start + "[local]\nbatch = 8\n[local.optimiser]\nkind = \"sgd\"\n"),
              "run.toml:8:1: unknown key 'local.optimiser.kind'; did you mean "
              "'local.optimizer.kind'?");
    EXPECT_EQ(failure(start + "[local]\nbatch = 8\n[local.optimizer]\nkin = \"sgd\"\n"),
              "run.toml:8:1: unknown key 'local.optimizer.kin'; did you mean "
              "'local.optimizer.kind'?");
    EXPECT_EQ(failure(start + "[local]\nbatch = 8\noptimizer = \"sgd\"\n"),
              "run.toml:7:1: unknown key 'local.optimizer'; did you mean 'local.optimizer.kind'?");
    EXPECT_EQ(failure(start + "local = 8\n").substr(0, 31), "run.toml:5:1: unknown key 'batc");
    EXPECT_EQ(failure("local = 8\n" + start), "run.toml:1:1: unknown key 'local'");
    EXPECT_EQ(failure("\"batch.target\" = 8\n" + start).substr(0, 39),
              "run.toml:1:1: unknown key 'batch.target");
    EXPECT_EQ(
        failure(start + "[local]\nbatch = 8\n[local.schedule]\nkind = \"cosine\"\n"
                        "total_steps = 0\n"),
        "run.toml:9:15: the cosine schedule needs the step at which it has fallen to its end; "
        "write beside it, for instance: total_steps = 1000");
    EXPECT_EQ(failure(start + "[local]\nbatch = 8\n[local.optimizer]\nmomentum = 1\n"),
              "run.toml:8:12: 'local.optimizer.momentum' must be from 0 to 0.9999, not 1");
}

TEST(RunFile, local_steps_go_on_while_they_are_averaged_and_travel_sparsely) {
    const RunFile run = parsed(
        "name = \"r\"\n[local]\nbatch = 64\n[averaging]\ndelayed = true\ncodec = \"sparse\"\n");
    EXPECT_TRUE(run.local && run.averaging.delayed);
    EXPECT_EQ(run.averaging.codec, codec::CodecId::sparse);
    EXPECT_EQ(to_toml(parsed(to_toml(run))), to_toml(run));
}

TEST(RunFile, fragments_of_local_updates_are_written_only_where_there_are_some) {
    const RunFile run = parsed("name = \"r\"\n[local]\nbatch = 64\nfragments = 4\n");
    EXPECT_EQ(run.fragments(), 4u);
    EXPECT_EQ(parsed(to_toml(run)).fragments(), 4u);
    const RunFile without = parsed("name = \"r\"\n[local]\nbatch = 64\n");
    EXPECT_EQ(without.fragments(), 1u);
    EXPECT_EQ(to_toml(without).find("fragments"), std::string::npos);
    EXPECT_NE(run_hash(run), run_hash(without));
    EXPECT_EQ(parsed("name = \"r\"\n").fragments(), 1u);
}

TEST(RunFile, says_where_fragments_do_not_fit) {
    const std::string start = "name = \"r\"\n[local]\nbatch = 64\nfragments = 4\n";
    EXPECT_NE(failure(start + "[averaging]\ncodec = \"sparse\"\n")
                  .find("run.toml:4:13: 'local.fragments' and the codec \"sparse\" exclude each"),
              std::string::npos);
    EXPECT_NE(failure(start + "[optimizer]\nkind = \"lamb\"\n")
                  .find("moves each element by itself, and lamb needs whole tensors"),
              std::string::npos);
    EXPECT_NE(failure(start + "[optimizer]\nlarc = true\n").find("larc needs whole tensors"),
              std::string::npos);
    EXPECT_EQ(parsed(start + "[optimizer]\nkind = \"adamw\"\n").fragments(), 4u);
    EXPECT_NE(failure("name = \"r\"\n[local]\nbatch = 64\nfragments = 65\n").find("from 1 to 64"),
              std::string::npos);
}

TEST(RunFile, says_from_how_many_on_sparse_contributions_are_added) {
    const std::string start = "name = \"r\"\n[averaging]\ncodec = \"sparse\"\n";
    const RunFile usual = parsed(start);
    EXPECT_EQ(usual.averaging.gather_max, codec::gather_max_usual);
    EXPECT_EQ(to_toml(usual).find("gather_max"), std::string::npos) << "runs keep their names";
    const RunFile few = parsed(start + "gather_max = 8\n");
    EXPECT_EQ(few.averaging.gather_max, 8u);
    EXPECT_NE(to_toml(few).find("gather_max = 8"), std::string::npos);
    EXPECT_NE(run_hash(usual), run_hash(few));
    EXPECT_NE(failure("name = \"r\"\n[averaging]\ngather_max = 8\n")
                  .find("run.toml:3:14: 'averaging.gather_max' is for the codec \"sparse\""),
              std::string::npos)
        << failure("name = \"r\"\n[averaging]\ngather_max = 8\n");
    EXPECT_FALSE(failure(start + "gather_max = 0\n").empty());
}

TEST(RunFile, says_where_a_sparse_codec_does_not_fit) {
    EXPECT_NE(failure("name = \"r\"\n[robust]\n[averaging]\ncodec = \"low_rank\"\n")
                  .find("[robust] and the codec \"low_rank\" exclude each other"),
              std::string::npos);
    EXPECT_NE(failure("name = \"r\"\n[averaging]\ncodec = \"low_rank\"\npart_elements_max = 9000\n")
                  .find("encodes 16384 elements at a time"),
              std::string::npos);
    EXPECT_NE(failure("name = \"r\"\n[robust]\n[averaging]\ncodec = \"sparse\"\n")
                  .find("[robust] and the codec \"sparse\" exclude each other"),
              std::string::npos);
    EXPECT_NE(failure("name = \"r\"\n[averaging]\ncodec = \"sparse\"\npart_elements_max = 1000\n")
                  .find("must be at least as many"),
              std::string::npos);
}

TEST(RunFile, a_robust_run_says_so_in_a_section_of_its_own) {
    const RunFile run = parsed("name = \"r\"\n[robust]\ntau = 2.5\nweight_cap = 3\n");
    ASSERT_TRUE(run.robust);
    EXPECT_EQ(run.robust->reducer, "centered_clip");
    EXPECT_EQ(run.robust->tau, 2.5);
    EXPECT_EQ(run.robust->iterations_max, 500u);
    EXPECT_EQ(run.robust->weight_cap, 3.0);
    EXPECT_EQ(to_toml(parsed(to_toml(run))), to_toml(run));
    EXPECT_NE(run_hash(run), run_hash(parsed("name = \"r\"")));
    EXPECT_EQ(to_toml(parsed("name = \"r\"")).find("robust"), std::string::npos);
    EXPECT_EQ(differences(run, parsed("name = \"r\"")).front(),
              "robust: a section here, none there");
}

TEST(RunFile, a_robust_run_checks_gradients_by_its_precision_unless_it_says_otherwise) {
    const RunFile run = parsed("name = \"r\"\n[robust]\n");
    ASSERT_TRUE(run.robust);
    EXPECT_EQ(run.robust->check, 0.0625);
    EXPECT_EQ(run.robust->tau, tau_auto);
    EXPECT_EQ(run.robust->trust_after, 32u);
    EXPECT_NE(to_toml(run).find("tau = \"auto\""), std::string::npos) << to_toml(run);
    EXPECT_EQ(parsed("name = \"r\"\n[robust]\ntau = \"auto\"\n").robust->tau, tau_auto);
    EXPECT_EQ(run.robust->probation, 3u);
    EXPECT_EQ(run.robust->quorum, "byzantine");
    EXPECT_EQ(recheck_tolerance(run), 2e-3);
    RunFile shorter = run;
    shorter.task.precision = "bf16";
    EXPECT_EQ(recheck_tolerance(shorter), 2e-2);
    shorter.robust->tolerance = 0.1;
    EXPECT_EQ(recheck_tolerance(shorter), 0.1);
}

TEST(RunFile, a_robust_run_with_local_updates_allows_for_what_inner_steps_make_of_rounding) {
    RunFile run = parsed("name = \"r\"\n[batch]\nmicro = 32\n[robust]\n[local]\nbatch = 64\n");
    EXPECT_EQ(recheck_tolerance(run), 5e-2);
    run.robust->tolerance = 0.01;
    EXPECT_EQ(recheck_tolerance(run), 0.01);
}

TEST(RunFile, says_what_is_wrong_with_a_robust_run) {
    EXPECT_NE(failure("name = \"r\"\n[robust]\n[averaging]\ndelayed = true\n")
                  .find("'averaging.delayed' and checks of gradients exclude each other"),
              std::string::npos);
    EXPECT_NE(failure("name = \"r\"\n[robust]\ncheck = 0.0\n").find("'robust.probation' needs"),
              std::string::npos);
    EXPECT_NE(failure("name = \"r\"\n[robust]\ntau = 0\n").find("'robust.tau' must be from"),
              std::string::npos);
    EXPECT_NE(failure("name = \"r\"\n[robust]\ntau = -1\n").find("robust.tau"), std::string::npos);
    EXPECT_NE(failure("name = \"r\"\n[robust]\nreducer = \"median\"\n").find("robust.reducer"),
              std::string::npos);
}

TEST(RunFile, a_robust_run_takes_local_updates_that_others_can_compute_again) {
    const std::string steps = "[local]\nbatch = 64\n";
    const auto with = [&](const std::string& more) { return "name = \"r\"\n[robust]\n" + more; };
    EXPECT_TRUE(parsed(with("[batch]\nmicro = 32\n" + steps)).is_checked());
    EXPECT_NE(failure(with("[batch]\nmicro = \"auto\"\n" + steps))
                  .find("[robust] with [local] needs a number for 'batch.micro'"),
              std::string::npos);
    EXPECT_NE(failure(with("[batch]\nmicro = 32\n" + steps + "fragments = 4\n"))
                  .find("'local.fragments' and [robust] exclude each other"),
              std::string::npos);
    for (const std::string codec : {"sparse", "low_rank"})
        EXPECT_NE(
            failure(with("[batch]\nmicro = 32\n[averaging]\ncodec = \"" + codec + "\"\n" + steps))
                .find("[robust] and the codec \"" + codec + "\" exclude each other"),
            std::string::npos);
    EXPECT_NE(failure(with("[batch]\nmicro = 32\n[averaging]\ndelayed = true\n" + steps))
                  .find("'averaging.delayed' and checks of gradients exclude each other"),
              std::string::npos);
    EXPECT_NE(
        failure(with("[batch]\nmicro = 32\n" + steps + "[local.optimizer]\nkind = \"muon\"\n"))
            .find("[robust] and inner steps by muon exclude each other"),
        std::string::npos);
    const std::string shorter = "[task]\nprecision = \"bf16\"\n[batch]\nmicro = 32\n" + steps;
    EXPECT_NE(failure(with(shorter)).find("needs a 'robust.tolerance' of your own"),
              std::string::npos);
    EXPECT_EQ(recheck_tolerance(parsed(with("tolerance = 0.1\n" + shorter))), 0.1);
    // Where nobody computes anything again, peers may keep moments and cut as they like.
    EXPECT_FALSE(parsed(with("check = 0.0\nprobation = 0\n[batch]\nmicro = \"auto\"\n" + steps))
                     .is_checked());
}

// A task's section, as a task declares it.
struct PotteryKeys {
    std::uint64_t jars = 3;
    double heat = 0.5;
    bool glazed = false;
    std::string clay = "red";
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit("jars", self.jars, Integers{1, 100}, "how many");
        visit("heat", self.heat, Numbers{0, 1});
        visit("glazed", self.glazed);
        visit("clay", self.clay, Choice{{"red", "white"}});
    }
};

const bool pottery_is_registered = [] {
    const auto check = [](const TaskConfig& task) -> Ok {
        const auto keys = keys_of<PotteryKeys>(task, "kiln");
        if (keys.clay == "white" && keys.heat < 0.2)
            return make_error(ErrorKind::bad_input, "kiln.heat: white clay needs 0.2");
        return {};
    };
    register_sections("pottery", {section_schema<PotteryKeys>("kiln")}, check);
    return true;
}();

constexpr std::string_view pottery = R"(name = "a"
[task]
kind = "pottery"
[kiln]
glazed = true
heat = 1
)";

TEST(RunFile, a_task_has_sections_of_its_own_with_defaults_and_rules) {
    const RunFile run = parsed(pottery);
    const auto keys = keys_of<PotteryKeys>(run.task, "kiln");
    EXPECT_EQ(keys.jars, 3u);
    EXPECT_EQ(keys.heat, 1.0);
    EXPECT_TRUE(keys.glazed);
    const std::string canonical = to_toml(run);
    EXPECT_NE(canonical.find("precision = \"fp32\"\n\n[kiln]\nheat = 1.0\nglazed = true\n\n"
                             "[batch]\n"),
              std::string::npos)
        << canonical;
    EXPECT_EQ(to_toml(parsed(canonical)), canonical);
    EXPECT_EQ(differences(parsed("name = \"a\"\n[task]\nkind = \"pottery\"\n"), run),
              (std::vector<std::string>{"kiln.heat: 0.5 here, 1.0 there",
                                        "kiln.glazed: false here, true there"}));
    const std::string start = "name = \"a\"\n[task]\nkind = \"pottery\"\n[kiln]\n";
    EXPECT_EQ(failure(start + "jars = 0\n"),
              "run.toml:5:8: 'kiln.jars' must be from 1 to 100, not 0");
    EXPECT_EQ(failure(start + "clay = \"blue\"\n"),
              "run.toml:5:8: 'kiln.clay' must be \"red\" or \"white\", not \"blue\"");
    EXPECT_NE(failure(start + "jar = 2\n").find("did you mean 'kiln.jars'?"), std::string::npos);
    EXPECT_NE(failure(start + "clay = \"white\"\nheat = 0.1\n").find("white clay needs 0.2"),
              std::string::npos);
}

// An older dedloc reads the files of a newer one that has more keys, and hashes them alike.
TEST(RunFile, a_key_that_came_later_is_written_only_where_it_says_something) {
    const std::string plain = to_toml(parsed("name = \"a\"\n[task]\nkind = \"pottery\"\n"));
    EXPECT_EQ(plain.find("kiln"), std::string::npos);
    const std::string as_by_default =
        "name = \"a\"\n[task]\nkind = \"pottery\"\n[kiln]\njars = 3\nheat = 0.5\n";
    EXPECT_EQ(to_toml(parsed(as_by_default)), plain);
    const RunFile other = parsed("name = \"a\"\n[task]\nkind = \"pottery\"\n[kiln]\njars = 4\n");
    EXPECT_NE(to_toml(other).find("[kiln]\njars = 4\n\n"), std::string::npos);
    EXPECT_EQ(differences(parsed(plain), other),
              std::vector<std::string>{"kiln.jars: 3 here, 4 there"});
}

TEST(RunFile, what_every_dedloc_knows_is_always_written) {
    const RunFile run = parsed(
        "name = \"a\"\n[local]\nbatch = 64\n[local.optimizer]\nkind = \"adamw\"\n"
        "[averaging]\ncodec = \"adaptive\"\n");
    const std::string canonical = to_toml(run);
    for (const char* key : {"codec_threshold = 65536",
                            "leave_out_slow = true",
                            "seed = 1",
                            "[local.schedule]",
                            "format = 1",
                            "accuracy = 0.0"})
        EXPECT_NE(canonical.find(key), std::string::npos) << key << " of\n" << canonical;
    EXPECT_FALSE(is_first_key("kiln.jars"));
    EXPECT_FALSE(is_first_key("averaging.leave_out"));
    EXPECT_TRUE(is_first_key("local.optimizer.beta1"));
}

// Keys that are not written while they have their default differ, too.
TEST(RunFile, differences_name_keys_that_only_one_file_has) {
    const RunFile clipped = parsed("name = \"x\"\n[optimizer]\nkind = \"sgd\"\nlarc = true\n");
    RunFile scaled = clipped;
    scaled.optimizer.larc_clip = false;
    EXPECT_EQ(differences(clipped, scaled),
              std::vector<std::string>{"optimizer.larc_clip: true here, false there"});
}

TEST(RunFile, only_its_task_has_a_section) {
    EXPECT_NE(failure("name = \"a\"\n[kiln]\njars = 2\n").find("unknown key"), std::string::npos);
    EXPECT_EQ(to_toml(parsed("name = \"a\"")).find("kiln"), std::string::npos);
    EXPECT_EQ(differences(parsed("name = \"a\""), parsed(pottery)).size(), 1u);
}

TEST(RunFile, a_program_without_the_task_keeps_its_sections_in_canonical_files) {
    std::string canonical = to_toml(parsed(pottery));
    const std::string known = "kind = \"pottery\"";
    canonical.replace(canonical.find(known), known.size(), "kind = \"weaving\"");
    const RunFile run = parsed(canonical);
    ASSERT_EQ(run.task.sections.size(), 1u);
    EXPECT_EQ(run.task.sections[0].name, "kiln");
    EXPECT_EQ(to_toml(run), canonical);
    EXPECT_EQ(run_hash(run), security::sha256(as_bytes(canonical)));
    EXPECT_NE(
        failure("name = \"a\"\n[task]\nkind = \"weaving\"\n[kiln]\njars = 2\n").find("unknown"),
        std::string::npos)
        << "a person's file says what the task does not know";
}

TEST(RunFile, sections_of_an_unknown_task_are_bounded) {
    std::string canonical = to_toml(parsed("name = \"a\"\n[task]\nkind = \"weaving\"\n"));
    canonical += "\n[loom]\n";
    for (std::size_t i = 0; i <= task_keys_max; ++i) canonical += fmt::format("k{} = {}\n", i, i);
    EXPECT_NE(failure(canonical).find("unknown key"), std::string::npos);
}

TEST(RunFile, comments_and_order_do_not_change_the_hash) {
    const RunFile a = parsed("name = \"x\"\n[batch]\nmicro = 32\ntarget = 64 # hello\n");
    const RunFile b = parsed("batch.target = 64\nbatch.micro = 32\nname = 'x'\n");
    EXPECT_EQ(run_hash(a), run_hash(b));
    EXPECT_NE(run_hash(a), run_hash(parsed("name = \"x\"")));
}

TEST(RunFile, unknown_keys_are_named_with_place_and_neighbour) {
    EXPECT_EQ(failure("name = \"x\"\n[optimzer]\nkind = \"sgd\"\n"),
              "run.toml:3:1: unknown key 'optimzer.kind'; did you mean 'optimizer.kind'?");
    EXPECT_EQ(failure("name = \"x\"\n[batch]\n  targt = 5\n"),
              "run.toml:3:3: unknown key 'batch.targt'; did you mean 'batch.target'?");
    EXPECT_EQ(failure("name = \"x\"\nfoo = 5\n"), "run.toml:2:1: unknown key 'foo'");
    EXPECT_EQ(failure("name = \"x\"\ntarget = 5\n"),
              "run.toml:2:1: unknown key 'target'; did you mean 'batch.target'?");
    EXPECT_EQ(failure("name = \"x\"\nbatch = 5\n").substr(0, 33),
              "run.toml:2:1: unknown key 'batch'");
}

TEST(RunFile, wrong_types_say_what_to_write) {
    EXPECT_EQ(failure("name = \"x\"\n[batch]\ntarget = \"many\"\n"),
              "run.toml:3:10: 'batch.target' must be a whole number");
    EXPECT_EQ(failure("name = \"x\"\n[batch]\ntarget = 1.5\n"),
              "run.toml:3:10: 'batch.target' must be a whole number");
    EXPECT_EQ(failure("name = 5"), "run.toml:1:8: 'name' must be a text in quotes");
    EXPECT_EQ(failure("name = \"x\"\n[averaging]\nquorum_timeout = 10\n"),
              "run.toml:3:18: 'averaging.quorum_timeout' must be a duration in quotes like "
              "\"10s\" or \"500ms\"");
    EXPECT_EQ(failure("name = \"x\"\n[optimizer]\nnesterov = 1\n"),
              "run.toml:3:12: 'optimizer.nesterov' must be true or false");
    EXPECT_NE(failure("name = \"x\"\n[optimizer]\nkind = \"adam\"\n").find("adamw"),
              std::string::npos);
    EXPECT_NE(failure("name = \"x\"\n[averaging]\ncodec = \"fp8\"\n").find("fp16"),
              std::string::npos);
    EXPECT_EQ(failure("name = \"x\"\nprotocol = \"hivemind\"\n"),
              "run.toml:2:12: 'protocol' must be \"native\", not \"hivemind\"");
}

TEST(RunFile, adaptive_codecs_have_a_threshold_and_others_none) {
    const auto run = parse_run_file("name = \"x\"\n[averaging]\ncodec = \"adaptive\"\n", "x");
    ASSERT_TRUE(run);
    EXPECT_EQ(run->averaging.codec, std::nullopt);
    EXPECT_EQ(run->averaging.codec_threshold, 65536u);
    EXPECT_NE(to_toml(*run).find("codec = \"adaptive\"\ncodec_threshold = 65536\n"),
              std::string::npos);
    RunFile other = *run;
    other.averaging.codec_threshold = 8192;
    const auto again = parse_run_file(to_toml(other), "x");
    ASSERT_TRUE(again);
    EXPECT_EQ(again->averaging.codec_threshold, 8192u);
    EXPECT_NE(run_hash(*run), run_hash(other));
    EXPECT_EQ(differences(*run, other),
              std::vector<std::string>{"averaging.codec_threshold: 65536 here, 8192 there"});
    RunFile plain;
    plain.name = "x";
    EXPECT_EQ(to_toml(plain).find("codec_threshold"), std::string::npos);
    EXPECT_EQ(differences(*run, plain),
              std::vector<std::string>{"averaging.codec: \"adaptive\" here, \"fp16\" there"});
    const std::string text = "name = \"x\"\n[averaging]\ncodec_threshold = 8192\n";
    EXPECT_NE(failure(text).find("run.toml:3:1: unknown key 'averaging.codec_threshold'"),
              std::string::npos)
        << failure(text);
    EXPECT_NE(failure("name = \"x\"\n[averaging]\ncodec = \"adaptive\"\ncodec_threshold = 100\n")
                  .find("'averaging.codec_threshold' must be from 4096"),
              std::string::npos);
    EXPECT_NE(failure("name = \"x\"\n[averaging]\ncodec = \"fp8\"\n").find("or adaptive"),
              std::string::npos);
}

TEST(RunFile, every_codec_of_a_round_has_its_word) {
    for (const std::string_view word : {"fp32", "fp16", "bf16", "blockwise8"}) {
        const std::string text = fmt::format("name = \"x\"\n[averaging]\ncodec = \"{}\"\n", word);
        const auto run = parse_run_file(text, "run.toml");
        ASSERT_TRUE(run) << word;
        EXPECT_EQ(codec::to_string(*run->averaging.codec), word);
    }
}

TEST(RunFile, impossible_values_are_refused) {
    EXPECT_EQ(failure("name = \"x\"\n[batch]\ntarget = 0\n"),
              "run.toml:3:10: 'batch.target' must be from 1 to 4294967296, not 0");
    EXPECT_EQ(failure("name = \"x\"\n[batch]\ntarget = -5\n"),
              "run.toml:3:10: 'batch.target' must be from 1 to 4294967296, not -5");
    EXPECT_EQ(failure("name = \"x\"\n[schedule]\npeak = nan\n"),
              "run.toml:3:8: 'schedule.peak' must be from 0 to 1000, not nan");
    EXPECT_EQ(failure("name = \"x\"\n[averaging]\nquorum_timeout = \"1ms\"\n"),
              "run.toml:3:18: 'averaging.quorum_timeout' must be from \"1s\" to \"86400s\", "
              "not \"1ms\"");
    EXPECT_EQ(failure("name = \"\""), "run.toml:1:8: 'name' must have 1 to 64 letters, not 0");
    EXPECT_NE(failure("[batch]\ntarget = 100\n").find("'name' is missing"), std::string::npos);
    EXPECT_EQ(failure("name = \"x\"\n[batch]\ntarget = 32\nmicro = 64\n"),
              "run.toml:4:9: 'batch.micro' (64) must not exceed 'batch.target' (32)");
    EXPECT_EQ(failure("name = \"x\"\n[averaging]\nround_deadline_min = \"5min\"\n"),
              "run.toml:3:22: 'averaging.round_deadline_min' (\"300s\") must not exceed "
              "'averaging.round_deadline_max' (\"120s\")");
    EXPECT_NE(failure("name = \"x\"\n[schedule]\nkind = \"cosine\"\ntotal_steps = 0\n")
                  .find("run.toml:4:15: "),
              std::string::npos);
    EXPECT_NE(failure("numerics = 999\nname = \"x\"").find("the version of dedloc that"),
              std::string::npos);
}

// Rows of another version would be taken for lies.
TEST(RunFile, with_robust_says_how_rounds_are_proved) {
    const std::string key = "robust_numerics = ";
    const auto plain = parse_run_file("name = \"x\"\n", "run.toml");
    const auto robust = parse_run_file("name = \"x\"\n[robust]\n", "run.toml");
    ASSERT_TRUE(plain && robust);
    EXPECT_EQ(to_toml(*plain).find(key), std::string::npos);
    EXPECT_NE(to_toml(*robust).find(key), std::string::npos);
    EXPECT_NE(failure(key + "1\nname = \"x\"\n[robust]\n").find("the version of dedloc that"),
              std::string::npos);
}

// An older peer would refuse the plans of such a round.
TEST(RunFile, with_a_sparse_codec_says_how_rounds_gather) {
    const std::string key = "gathered_numerics = ";
    const auto plain = parse_run_file("name = \"x\"\n", "run.toml");
    ASSERT_TRUE(plain);
    EXPECT_EQ(to_toml(*plain).find(key), std::string::npos);
    for (const char* codec : {"sparse", "low_rank"}) {
        const std::string text = fmt::format("name = \"x\"\n[averaging]\ncodec = \"{}\"\n", codec);
        const auto gathers = parse_run_file(text, "run.toml");
        ASSERT_TRUE(gathers) << gathers.error().message();
        EXPECT_NE(to_toml(*gathers).find(key), std::string::npos);
        EXPECT_TRUE(parse_run_file(to_toml(*gathers), "run.toml"));
        EXPECT_NE(failure(key + "1\n" + text).find("the version of dedloc that"),
                  std::string::npos);
    }
}

// A newer dedloc may have new keys as well: what is wrong is the version.
TEST(RunFile, of_another_version_is_said_before_unknown_keys) {
    for (const char* version : {"format", "numerics", "optimizer_numerics"})
        for (const int number : {999, 0, -1}) {
            const std::string said = failure(
                fmt::format("{} = {}\nname = \"x\"\n[averaging]\nnew_key = 1\n", version, number));
            EXPECT_TRUE(said.starts_with(fmt::format("run.toml:1:{}: '{}' is {} in this file",
                                                     std::string(version).size() + 4,
                                                     version,
                                                     number)))
                << said;
            EXPECT_NE(said.find("the version of dedloc that"), std::string::npos) << said;
        }
}

TEST(RunFile, broken_toml_has_a_place_too) {
    EXPECT_TRUE(failure("name = \"x\n").starts_with("run.toml:1:"));
    EXPECT_TRUE(failure("name = \"x\"\n[batch\n").starts_with("run.toml:2:"));
    EXPECT_TRUE(failure("name = \"x\"\nname = \"y\"\n").starts_with("run.toml:2:"));
    EXPECT_NE(failure(std::string(run_file_bytes_max + 1, ' ')).find("too many"),
              std::string::npos);
}

TEST(RunFile, letters_beyond_ascii_live_in_texts_and_comments) {
    const std::string kitchen = "name = \"K\u00fcche \u20ac \U0001f600\" # \u00fc\n";
    const RunFile run = parsed(kitchen);
    EXPECT_EQ(run.name, "K\u00fcche \u20ac \U0001f600");
    EXPECT_EQ(run_hash(parsed(to_toml(run))), run_hash(run));
    EXPECT_EQ(failure("name = \"x\"\n\u00fcber = 1\n"),
              "run.toml:2:1: letters beyond ASCII belong in double quotes");
    EXPECT_EQ(parsed("\xEF\xBB\xBFname = \"a\"").name, "a") << "some editors write a mark";
    EXPECT_EQ(failure("name = \"\xc3\x28\""), "run.toml:1:9: this is not UTF-8");
    EXPECT_EQ(failure("name = \"\xed\xa0\x80\""), "run.toml:1:9: this is not UTF-8");
    EXPECT_EQ(failure("name = \"\xc3"), "run.toml:1:9: this is not UTF-8");
}

// All found by the fuzzer: the parser does not survive them.
TEST(RunFile, what_the_parser_would_stumble_over_is_refused_before_it) {
    EXPECT_FALSE(failure("\xd1\x9f").empty());
    EXPECT_EQ(failure(std::string("[\0]", 3)),
              "run.toml:1:1: after '[' comes the name of a section");
    EXPECT_EQ(failure("name = \"x\"\n[#]\n"),
              "run.toml:2:1: after '[' comes the name of a section");
    EXPECT_EQ(failure("J=[999,9,}}}}"), "run.toml:1:3: lists have no place here");
    EXPECT_EQ(failure("J = {a = 1}"),
              "run.toml:1:5: braces have no place here; a section begins with a line [name]");
    EXPECT_EQ(failure("[[[l@+"), "run.toml:1:1: after '[' comes the name of a section");
    EXPECT_FALSE(failure("J=0e'e\xef\xb9\xbf''''ednd").empty());
    EXPECT_EQ(failure("name = \"\"\"x\"\"\"\n"),
              "run.toml:1:8: texts stay on one line, between single quotes");
    EXPECT_EQ(failure("name = \"a\x01\"\n"),
              "run.toml:1:10: control characters have no place here");
}

// A name is shown to everybody who is asked to join.
TEST(RunFile, what_a_terminal_obeys_is_in_no_name) {
    for (const char* mark : {"\xc2\x9b", "\\u009b", "\xe2\x80\xae"}) {  // CSI, right to left
        const std::string said = failure(fmt::format("name = \"a{}b\"", mark));
        EXPECT_TRUE(said.starts_with("run.toml:1:8: 'name' must not contain control")) << said;
    }
    EXPECT_EQ(parsed("name = \"J\xc3\xbcrgen \xe2\x80\xa6\"").name, "J\xc3\xbcrgen \xe2\x80\xa6");
}

TEST(RunFile, differences_are_sentences) {
    RunFile here = parsed("name = \"x\"");
    RunFile there = here;
    there.batch.target = 2048;
    there.optimizer.schedule.peak = 0.25;
    const std::vector<std::string> expected = {"batch.target: 1024 here, 2048 there",
                                               "schedule.peak: 0.1 here, 0.25 there"};
    EXPECT_EQ(differences(here, there), expected);
}

}  // namespace
}  // namespace dedloc::run
