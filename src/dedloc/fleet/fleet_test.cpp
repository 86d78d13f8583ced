// A fleet is read strictly, and what is written from it says what it should: whether sbatch's,
// Kubernetes' and the shells' parsers accept it is for tests/fleet and tests/process.

#include "dedloc/fleet/fleet.h"

#include <gtest/gtest.h>

#include "dedloc/fleet/fleet_writer.h"
#include "dedloc/fleet/script_words.h"
#include "dedloc/fleet/yaml.h"
#include "dedloc/run/join_string.h"
#include "dedloc/security/identity.h"

namespace dedloc::fleet {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* run_text = "name = \"Our run\"\n[batch]\ntarget = 64\nmicro = 8\n";

Fleet hosting() {
    Fleet fleet;
    fleet.run_file = run_text;
    return fleet;
}

Fleet joining() {
    Fleet fleet;
    const Bytes seed(security::ed25519_seed_bytes, 3);
    const PeerId peer = security::Identity::from_seed(seed).value().id();
    run::JoinString join;
    join.run.bytes.fill(7);
    join.secret = Bytes(run::run_secret_bytes, 7);
    join.addresses = {"/ip4/192.0.2.1/tcp/4001/p2p/" + peer.text()};
    fleet.join_string = run::to_text(join);
    return fleet;
}

std::string written(std::string_view kind, const Fleet& fleet, std::string_view name) {
    for (const FleetKind& one : fleet_kinds()) {
        if (one.name != kind) continue;
        const auto texts = write_fleet(one, fleet);
        EXPECT_TRUE(texts) << texts.error().message();
        for (const FleetText& text : *texts)
            if (text.name == name) return text.text;
    }
    return {};
}

TEST(FleetFile, says_what_options_of_the_same_names_say) {
    Fleet fleet;
    const Ok read = read_fleet_file(
        fleet, "# ours\npeers = 16\npartition = \"spot\"\nyes = true\n", "fleet.toml");
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(fleet.peers, 16u);
    EXPECT_EQ(fleet.partition, "spot");
    EXPECT_TRUE(fleet.agrees);
    ASSERT_TRUE(set_field(fleet, "peers", "3"));
    EXPECT_EQ(fleet.peers, 3u);
}

TEST(FleetFile, a_wrong_line_is_named_with_what_was_meant) {
    const auto message = [](std::string_view text) {
        Fleet fleet;
        const Ok read = read_fleet_file(fleet, text, "fleet.toml");
        EXPECT_FALSE(read);
        EXPECT_EQ(read.error().kind(), ErrorKind::bad_input);
        return read.error().message();
    };
    EXPECT_EQ(message("\npeer = 2\n"),
              "fleet.toml:2:1: there is nothing called 'peer' in a fleet; did you mean 'peers'?");
    EXPECT_EQ(message("peers = 0\n"), "fleet.toml:1:1: 'peers' must be a whole number, 1 to 10000");
    EXPECT_NE(message("[slurm]\npeers = 2\n").find("no sections"), std::string::npos);
    EXPECT_NE(message("spot = \"azure\"\n").find("gke, eks or aks"), std::string::npos);
    EXPECT_NE(message("preemption-notice = \"alibaba\"\n").find("aws, gcp, azure"),
              std::string::npos);
}

// Other letters than those of names and paths could be commands of a shell, or options of sbatch
// and ssh.
TEST(FleetFile, no_text_gets_out_of_its_word) {
    Fleet fleet;
    for (const char* text :
         {"", "a b", "$(reboot)", "a;b", "'", "a\nb", "-oProxyCommand=x", "`x`"}) {
        EXPECT_FALSE(set_field(fleet, "folder", text)) << text;
        EXPECT_FALSE(set_field(fleet, "machines", text)) << text;
        EXPECT_FALSE(set_field(fleet, "partition", text)) << text;
    }
    EXPECT_FALSE(set_field(fleet, "time", "12:00:00\n#SBATCH --wrap=x"));
    EXPECT_TRUE(set_field(fleet, "name", "it's \"ours\" $(x)"));
    fleet.run_file = run_text;
    const std::string script = written("slurm", fleet, "peers.sbatch");
    EXPECT_NE(script.find("#SBATCH --job-name=it-s-ours-x-peers\n"), std::string::npos) << script;
    EXPECT_EQ(shell_line({"--name", "it's"}), "--name 'it'\\''s'");
}

TEST(ScriptWords, labels_are_names_for_machines) {
    EXPECT_EQ(label_of("Our run"), "our-run");
    EXPECT_EQ(label_of("42"), "run-42");
    EXPECT_EQ(label_of("…"), "dedloc");
    EXPECT_EQ(label_of(std::string(100, 'a')).size(), 40u);
}

TEST(FleetWriter, a_fleet_begins_a_run_or_joins_one) {
    Fleet both = hosting();
    both.join_string = joining().join_string;
    for (const Fleet& fleet : {Fleet{}, both})
        EXPECT_FALSE(write_fleet(fleet_kinds().front(), fleet));
    Fleet wrong = hosting();
    wrong.run_file = "nam = \"x\"\n";
    EXPECT_FALSE(write_fleet(fleet_kinds().front(), wrong));
}

TEST(FleetWriter, the_join_string_is_for_its_owner_and_stands_in_no_script) {
    Fleet fleet = joining();
    fleet.machines = "a,b";
    for (const FleetKind& kind : fleet_kinds()) {
        const auto texts = write_fleet(kind, fleet);
        ASSERT_TRUE(texts) << texts.error().message();
        int secrets = 0;
        for (const FleetText& text : *texts) {
            if (text.text.find(fleet.join_string) == std::string::npos) continue;
            ++secrets;
            EXPECT_EQ(text.name, "join.txt");
            EXPECT_EQ(text.access, FleetText::Access::owner);
        }
        EXPECT_EQ(secrets, 1);
    }
}

TEST(FleetWriter, slurm_asks_for_a_signal_before_the_time_is_over) {
    Fleet fleet = joining();
    fleet.peers = 16;
    fleet.partition = "spot";
    fleet.gpus = 1;
    fleet.preemption_notice = "aws";
    const std::string script = written("slurm", fleet, "peers.sbatch");
    for (const char* line : {"#SBATCH --array=0-15\n",
                             "#SBATCH --signal=TERM@90\n",
                             "#SBATCH --requeue\n",
                             "#SBATCH --partition=spot\n",
                             "#SBATCH --gres=gpu:1\n",
                             "--preemption-notice aws"})
        EXPECT_NE(script.find(line), std::string::npos) << line << "\n" << script;
    EXPECT_EQ(written("slurm", fleet, "host.sbatch"), "");
}

TEST(FleetWriter, the_host_goes_on_from_its_checkpoints_and_hears_no_notice) {
    Fleet fleet = hosting();
    fleet.machines = "a,b";
    fleet.preemption_notice = "gcp";
    for (const auto& [kind, name] :
         {std::pair{"slurm", "host.sbatch"}, std::pair{"kubernetes", "host.yaml"}}) {
        const std::string text = written(kind, fleet, name);
        EXPECT_NE(text.find("--resume"), std::string::npos) << text;
        EXPECT_NE(text.find("--publish"), std::string::npos) << text;
        EXPECT_EQ(text.find("preemption-notice"), std::string::npos) << text;
    }
}

TEST(FleetWriter, ssh_needs_machines) {
    const auto none = write_ssh(joining());
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().message().find("--machines"), std::string::npos);
}

TEST(Yaml, texts_stay_texts_and_scripts_can_be_read) {
    const json value{{"yes", "no"},
                     {"number", "12"},
                     {"lines", "one\n\ntwo: 'three'\n"},
                     {"list", {{{"a", 1}, {"b", json::array()}}, "c"}},
                     {"deep", {{"er", {{"x", true}}}}},
                     {"odd", " a\nb\n"}};
    EXPECT_EQ(to_yaml(value),
              "\"yes\": \"no\"\n"
              "number: \"12\"\n"
              "lines: |\n"
              "  one\n"
              "\n"
              "  two: 'three'\n"
              "list:\n"
              "  - a: 1\n"
              "    b: []\n"
              "  - \"c\"\n"
              "deep:\n"
              "  er:\n"
              "    x: true\n"
              "odd: \" a\\nb\\n\"\n");
    EXPECT_EQ(to_yaml(std::vector<json>{{{"a", 1}}, {{"b", 2}}}), "a: 1\n---\nb: 2\n");
}

}  // namespace
}  // namespace dedloc::fleet
