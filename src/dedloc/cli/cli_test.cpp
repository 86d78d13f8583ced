#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <unistd.h>

#include "dedloc/cli/checkpoint_source.h"
#include "dedloc/cli/commands.h"
#include "dedloc/cli/demo_script.h"
#include "dedloc/cli/join_string_source.h"
#include "dedloc/cli/trainer_watch.h"
#include "dedloc/cli/use_watch.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/peer/checkpoint_hook.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/join_offer.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/warm_start.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/run/join_string.h"
#include "dedloc/run/run_file.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/identity.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/text_section.h"
#include "dedloc/templates/run_templates.h"

namespace dedloc::cli {
namespace {

class Folder {
  public:
    Folder() {
        std::string pattern = "/tmp/dedloc-cli-XXXXXX";
        path_ = mkdtemp(pattern.data());
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string file(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

std::string content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string repository(const std::string& path) { return DEDLOC_TEST_DATA "/../" + path; }

TEST(ExitCodes, the_page_says_what_the_table_says) {
    const std::string page = content_of(repository("docs/exit-codes.md"));
    ASSERT_FALSE(page.empty());
    for (const peer::ExitCodeMeaning& row : peer::exit_code_table()) {
        const std::string line =
            fmt::format("| {} | {} | {} |", static_cast<int>(row.code), row.name, row.meaning);
        EXPECT_NE(page.find(line), std::string::npos) << line;
    }
}

TEST(ExitCodes, kinds_of_errors_have_their_codes) {
    EXPECT_EQ(peer::code_for(Error(ErrorKind::bad_input, "")), peer::ExitCode::bad_input);
    EXPECT_EQ(peer::code_for(Error(ErrorKind::timeout, "")), peer::ExitCode::unreachable);
    EXPECT_EQ(peer::code_for(Error(ErrorKind::conflict, "")), peer::ExitCode::different_run);
    EXPECT_EQ(peer::code_for(Error(ErrorKind::not_found, "")), peer::ExitCode::data_missing);
    EXPECT_EQ(peer::code_for(Error(ErrorKind::local_fault, "")), peer::ExitCode::disk);
    EXPECT_EQ(peer::code_for(Error(ErrorKind::cannot_compute, "")), peer::ExitCode::cannot_compute);
}

TEST(RunTemplates, are_valid_and_the_demo_is_the_example) {
    const auto text = templates::run_template(run::default_task().kind);
    ASSERT_TRUE(text);
    const auto run = run::parse_run_file(*text, "template");
    ASSERT_TRUE(run) << run.error().message();
    // Only the name and the end are not the default.
    run::RunFile plain;
    plain.task = run::default_task();
    plain.name = run->name;
    plain.stop = run->stop;
    EXPECT_EQ(run::differences(*run, plain), std::vector<std::string>{});
    EXPECT_EQ(content_of(repository("examples/demo.toml")), templates::demo_run_file());
    EXPECT_TRUE(run::parse_run_file(templates::demo_run_file(), "demo"));
    EXPECT_FALSE(templates::run_template("nothing"));
}

TEST(RunTemplates, have_one_for_loops_of_ones_own) {
    const auto text = templates::run_template("own_loop");
    ASSERT_TRUE(text);
    const auto file = run::parse_run_file(*text, "own_loop.toml");
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ(file->task.kind, "own_loop");
    EXPECT_EQ(file->batch.micro, 1u);
}

// The templates' hashes must never change: run.toml files, checkpoints and join strings hold them.
TEST(RunTemplates, of_every_task_have_the_canonical_form_of_the_first_version) {
    const std::string folder = repository("tests/vectors/run_files");
    for (const std::string& task : tasks::task_kinds()) {
        const auto text = templates::run_template(task);
        ASSERT_TRUE(text) << task;
        const auto run = run::parse_run_file(*text, task);
        ASSERT_TRUE(run) << run.error().message();
        const std::string path = folder + "/" + task + ".canonical";
        if (!std::filesystem::exists(path)) continue;  // a task that is younger
        EXPECT_EQ(run::to_toml(*run), content_of(path)) << task;
    }
}

TEST(RunFiles, have_the_canonical_form_and_hash_of_the_first_version) {
    std::size_t compared = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(repository("tests/vectors/run_files"))) {
        if (entry.path().extension() != ".toml") continue;
        const auto run = run::parse_run_file(content_of(entry.path().string()), "run.toml");
        ASSERT_TRUE(run) << entry.path() << to_string(run.error());
        const std::string canonical =
            content_of(std::filesystem::path(entry.path()).replace_extension("canonical").string());
        EXPECT_EQ(run::to_toml(*run), canonical) << entry.path();
        EXPECT_EQ(run::run_hash(*run), security::sha256(as_bytes(canonical)));
        ++compared;
    }
    EXPECT_EQ(compared, 5u);
}

// The section that the templates show commented out, as somebody would bring it in.
std::string with_local_updates(const std::string& text) {
    std::string out;
    bool inside = false;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        std::string line = text.substr(begin, end - begin);
        inside = (inside && line.starts_with("# ")) || line == "# [local]";
        out += (inside ? line.substr(2) : line) + "\n";
        begin = end + 1;
    }
    return out;
}

TEST(RunTemplates, local_updates_need_only_be_uncommented) {
    for (const std::string& task : tasks::task_kinds()) {
        if (tasks::find_task(task)->run_template.local_example.empty()) continue;
        const auto text = templates::run_template(task);
        ASSERT_TRUE(text);
        const auto run = run::parse_run_file(with_local_updates(*text), "template");
        ASSERT_TRUE(run) << run.error().message();
        ASSERT_TRUE(run->local) << task;
        EXPECT_EQ(run->local->optimizer.kind, optim::OptimizerKind::adamw);
        EXPECT_LT(run->local->optimizer.schedule.peak, 0.01);
    }
}

TEST(RunTemplates, home_has_local_steps_sparse_rounds_and_computes_beside_them) {
    std::size_t written = 0;
    for (const std::string& task : tasks::task_kinds()) {
        const auto text = templates::run_template(task, {}, 16);
        const bool is_local = !tasks::find_task(task)->run_template.local_example.empty();
        ASSERT_EQ(text.has_value(), is_local) << task;
        if (!is_local) continue;
        const auto run = run::parse_run_file(*text, "template");
        ASSERT_TRUE(run) << run.error().message() << "\n" << *text;
        ASSERT_TRUE(run->local) << task;
        EXPECT_TRUE(run->averaging.is_sparse() && run->averaging.delayed) << task;
        EXPECT_EQ(run->batch.target, 30 * 16 * run->local->batch) << task;
        EXPECT_EQ(run->optimizer.kind, optim::OptimizerKind::sgd);
        EXPECT_DOUBLE_EQ(run->optimizer.schedule.peak, 1.4);
        EXPECT_EQ(run->local->optimizer.kind, optim::OptimizerKind::adamw);
        // No second, commented-out [local] beside it.
        EXPECT_EQ(text->find("# [local]"), std::string::npos) << task;
        EXPECT_NE(text->find("say far less: docs/few-bytes.md"), std::string::npos) << task;
        // About as many samples.
        const auto plain = run::parse_run_file(*templates::run_template(task), "template");
        const auto samples = [](const run::RunFile& one) {
            return static_cast<double>(one.stop.steps) * static_cast<double>(one.batch.target);
        };
        EXPECT_LT(samples(*run), samples(*plain) * 1.01 + static_cast<double>(run->batch.target));
        ++written;
    }
    EXPECT_GE(written, 3u);
    EXPECT_TRUE(templates::run_template("own_loop", {}, 8));
}

TEST(DemoScript, does_each_act_once_and_in_order) {
    DemoScript script(100);
    EXPECT_FALSE(script.due(24));
    EXPECT_EQ(script.due(25), Act::kill);
    EXPECT_FALSE(script.due(26));
    EXPECT_EQ(script.due(90), Act::leave);
    EXPECT_EQ(script.due(90), Act::join);
    EXPECT_FALSE(script.due(100));
    EXPECT_TRUE(script.finished());
}

TEST(PeerDirectory, numbers_peers_of_one_machine_and_gives_identities_back) {
    const Folder folder;
    ::setenv("XDG_STATE_HOME", folder.path().c_str(), 1);
    Digest run;
    run.bytes.fill(0xab);
    PeerId first_id;
    const peer::OpeningOptions options{.directory = {}, .listen = {"none"}, .announce = {}};
    {
        auto first = peer::open_node(run, options);
        ASSERT_TRUE(first) << first.failure().message;
        EXPECT_EQ(first->directory, folder.path() + "/dedloc/abababab/1");
        auto second = peer::open_node(run, options);
        ASSERT_TRUE(second) << second.failure().message;
        EXPECT_EQ(second->directory, folder.path() + "/dedloc/abababab/2");
        first_id = first->node->id();
        EXPECT_NE(first_id, second->node->id());

        EXPECT_FALSE(peer::running_peer(first->directory));  // no join string yet
        ASSERT_TRUE(peer::write_private_file(first->directory + "/join.txt", "dedloc1abc\n"));
        const auto running = peer::running_peers(folder.path() + "/dedloc");
        ASSERT_EQ(running.size(), 1u);
        EXPECT_EQ(running[0].join_string, "dedloc1abc");
        EXPECT_EQ(peer::peer_at_work_beside(second->directory), first->directory);
        EXPECT_EQ(peer::peer_at_work_beside(first->directory), "")
            << "the other has no join string yet";

        const peer::OpeningOptions same{
            .directory = first->directory, .listen = {"none"}, .announce = {}};
        const auto taken = peer::open_node(run, same);
        ASSERT_FALSE(taken);
        EXPECT_EQ(taken.failure().code, peer::ExitCode::identity_in_use);
    }
    EXPECT_TRUE(peer::running_peers(folder.path() + "/dedloc").empty());
    auto again = peer::open_node(run, options);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->node->id(), first_id);
    ::unsetenv("XDG_STATE_HOME");
}

// A kill leaves it, and `host --resume` in that folder makes a secret of its own.
TEST(PeerDirectory, the_join_string_of_who_had_the_folder_before_is_gone) {
    const Folder folder;
    ASSERT_TRUE(peer::write_private_file(folder.file("join.txt"), "dedloc1abc\n"));
    const peer::OpeningOptions options{
        .directory = folder.path(), .listen = {"none"}, .announce = {}};
    auto opened = peer::open_node(Digest{}, options);
    ASSERT_TRUE(opened) << opened.failure().message;
    EXPECT_FALSE(peer::running_peer(folder.path()));
    ASSERT_TRUE(peer::write_private_file(folder.file("join.txt"), "dedloc1def\n"));
    ASSERT_FALSE(peer::open_node(Digest{}, options)) << "it is taken";
    EXPECT_EQ(peer::running_peer(folder.path()).value().join_string, "dedloc1def");
}

TEST(PeerDirectory, a_folder_belongs_to_one_run) {
    const Folder folder;
    const peer::OpeningOptions options{.directory = folder.path(), .listen = {"none"}};
    const run::RunFile run =
        run::parse_run_file(*templates::run_template(run::default_task().kind), "template").value();
    ASSERT_TRUE(peer::write_private_file(folder.file("run.toml"), run::to_toml(run)));
    EXPECT_TRUE(peer::open_node(Digest{}, options)) << "a run file alone is no peer's";
    ASSERT_TRUE(peer::open_node(run::run_hash(run), options));
    EXPECT_TRUE(peer::open_node(Digest{}, options)) << "`find --dir` takes part in no run";
    const auto another = peer::open_node(Digest{{7}}, options);
    ASSERT_FALSE(another);
    EXPECT_EQ(another.failure().code, peer::ExitCode::bad_input);
    EXPECT_NE(another.failure().message.find("another run, '" + run.name), std::string::npos)
        << another.failure().message;
}

TEST(PeerDirectory, files_are_private_and_whole) {
    const Folder folder;
    const std::string path = folder.file("secret");
    ASSERT_TRUE(peer::write_private_file(path, "one"));
    ASSERT_TRUE(peer::write_private_file(path, "two"));
    EXPECT_EQ(content_of(path), "two");
    const auto mode = std::filesystem::status(path).permissions();
    EXPECT_EQ(mode, std::filesystem::perms(0600));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
    EXPECT_FALSE(peer::write_private_file("/nonexistent/folder/x", "y"));
    EXPECT_FALSE(peer::read_text_file(path, 2));
}

TEST(NodeOpening, says_by_its_code_what_is_wrong) {
    const Folder folder;
    const peer::OpeningOptions first{
        .directory = folder.file("a"), .listen = {"127.0.0.1:0"}, .announce = {}};
    auto opened = peer::open_node(Digest{}, first);
    ASSERT_TRUE(opened) << opened.failure().message;
    const auto addresses =
        opened->node->run_on_network_thread([&] { return opened->node->host().addresses(); });
    ASSERT_EQ(addresses.size(), 1u);
    const peer::OpeningOptions second{
        .directory = folder.file("b"), .listen = addresses, .announce = {}};
    const auto busy = peer::open_node(Digest{}, second);
    ASSERT_FALSE(busy);
    EXPECT_EQ(busy.failure().code, peer::ExitCode::port) << busy.failure().message;
    ASSERT_TRUE(peer::write_private_file(folder.file("file"), "x"));
    const peer::OpeningOptions third{
        .directory = folder.file("file/c"), .listen = {}, .announce = {}};
    const auto no_folder = peer::open_node(Digest{}, third);
    ASSERT_FALSE(no_folder);
    EXPECT_EQ(no_folder.failure().code, peer::ExitCode::disk);
    const peer::OpeningOptions fourth{
        .directory = folder.file("d"), .listen = {"x:y"}, .announce = {}};
    EXPECT_EQ(peer::open_node(Digest{}, fourth).failure().code, peer::ExitCode::bad_input);
}

TEST(NodeOpening, whoever_announces_an_address_needs_a_port_that_stays) {
    const std::vector<std::string> listen = {"/ip4/0.0.0.0/tcp/0"};
    const std::string why = peer::announced_in_vain({"/ip4/203.0.113.7/tcp/4001"}, listen);
    EXPECT_NE(why.find("/ip4/203.0.113.7/tcp/4001"), std::string::npos) << why;
    EXPECT_NE(why.find("--listen 0.0.0.0:4001"), std::string::npos) << why;
    EXPECT_NE(
        peer::announced_in_vain({"/ip6/2001:db8::1/tcp/4001"}, {}).find("--listen '[::]:4001'"),
        std::string::npos);
    EXPECT_EQ(peer::announced_in_vain({}, listen), "");
    EXPECT_EQ(peer::announced_in_vain({"/ip4/203.0.113.7/tcp/4001"}, {"/ip4/0.0.0.0/tcp/5001"}), "")
        << "a router may pass it on to another port";
}

TEST(NodeOpening, options_are_checked_before_anything_that_takes_long) {
    const Folder folder;
    const auto refused = [](const peer::OpeningOptions& options) {
        const auto checked = peer::check_opening(options);
        return checked ? checked->code : peer::ExitCode::ok;
    };
    EXPECT_FALSE(
        peer::check_opening({.directory = folder.file("not made"), .listen = {"127.0.0.1:0"}}));
    EXPECT_FALSE(std::filesystem::exists(folder.file("not made")));
    ASSERT_TRUE(peer::write_private_file(folder.file("file"), "x"));
    EXPECT_EQ(refused({.directory = folder.file("file/c")}), peer::ExitCode::disk);
    EXPECT_EQ(refused({.listen = {"0.0.0.0:x"}}), peer::ExitCode::bad_input);
    EXPECT_EQ(refused({.listen = {"localhost:4001"}}), peer::ExitCode::bad_input);
    EXPECT_EQ(refused({.announce = {"/ip4/203.0.113/tcp/4001"}}), peer::ExitCode::bad_input);
    EXPECT_EQ(refused({.relays = {"/ip4/203.0.113.7/tcp/4001"}}), peer::ExitCode::bad_input);
    const std::string relay =
        "/ip4/203.0.113.7/tcp/4001/p2p/12D3KooWPGiEvE985RVrma87U9qw1YDLcCJDQ9FXCWyaqmUz4KYX";
    EXPECT_FALSE(peer::check_opening({.relays = {relay}}));
    EXPECT_EQ(refused({.listen = {"none"}, .relays = {relay}}), peer::ExitCode::bad_input)
        << "nobody would get in";
    EXPECT_EQ(refused({.congestion_control = "telepathy"}), peer::ExitCode::bad_input);
    EXPECT_EQ(refused({.caps = {.max_up = "fast", .max_down = {}}}), peer::ExitCode::bad_input);
    // With two mistakes the one whose test takes longer is told later.
    HostOptions host;
    host.run_file = folder.file("missing.toml");
    host.peer.listen = {"here"};
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_host(host), 2);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("'here'"), std::string::npos) << said;
}

std::string at_peer(const std::string& address) {
    const Bytes seed(security::ed25519_seed_bytes, 1);
    return address + "/p2p/" + security::Identity::from_seed(seed).value().id().text();
}

std::string string_with(const std::vector<std::string>& addresses) {
    run::JoinString join;
    join.run.bytes.fill(1);
    for (const std::string& address : addresses) join.addresses.push_back(at_peer(address));
    return run::to_text(join);
}

const std::string at_home = string_with({"/ip4/192.168.1.5/tcp/4001"});
const std::string from_outside =
    string_with({"/ip4/203.0.113.7/tcp/4001", "/ip4/192.168.1.5/tcp/4001"});

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
}

TEST(JoinOffer, waits_for_the_router_and_shows_what_it_opened) {
    peer::JoinOffer offer;
    EXPECT_EQ(joined(offer.observe(100, at_home, {.is_asking = true})), "");
    EXPECT_EQ(joined(offer.observe(104, at_home, {.is_asking = true})), "");
    EXPECT_TRUE(offer.is_held());
    const std::string said = joined(offer.observe(104.5, from_outside, {}));
    EXPECT_NE(said.find("join " + from_outside), std::string::npos) << said;
    EXPECT_EQ(said.find("leads only"), std::string::npos) << said;
    EXPECT_FALSE(offer.is_held());
    EXPECT_EQ(joined(offer.observe(110, at_home, {})), "");
}

TEST(JoinOffer, says_once_that_a_string_leads_nowhere_and_shows_a_later_one_that_does) {
    peer::JoinOffer offer;
    EXPECT_EQ(joined(offer.observe(100, at_home, {.is_asking = true})), "");
    const std::string said = joined(offer.observe(105, at_home, {.is_asking = true}));
    EXPECT_NE(said.find("join " + at_home), std::string::npos) << said;
    EXPECT_NE(said.find("leads only into this machine's own network"), std::string::npos) << said;
    EXPECT_NE(said.find("--listen 0.0.0.0:PORT --announce PUBLIC:PORT"), std::string::npos) << said;
    EXPECT_EQ(joined(offer.observe(110, at_home, {})), "");
    const std::string again = joined(offer.observe(115, from_outside, {}));
    EXPECT_NE(again.find("join " + from_outside), std::string::npos) << again;
    EXPECT_EQ(joined(offer.observe(120, from_outside, {})), "");
    EXPECT_NE(joined(peer::JoinOffer().observe(1, "dedloc1", {})).find("names no address"),
              std::string::npos);
}

TEST(JoinOffer, shows_at_once_what_needs_no_help) {
    const std::string here = string_with({"/ip4/127.0.0.1/tcp/4001"});
    const std::string relayed =
        string_with({at_peer("/ip4/203.0.113.9/tcp/4001") + "/p2p-circuit"});
    const std::string named = string_with({"/dns4/example.org/tcp/4001"});
    for (const std::string& string : {here, relayed, named, from_outside}) {
        const std::string said =
            joined(peer::JoinOffer().observe(1, string, {.is_asking = string != here}));
        EXPECT_NE(said.find("join " + string), std::string::npos);
        EXPECT_EQ(said.find("leads only"), std::string::npos) << said;
    }
    const std::string announced =
        joined(peer::JoinOffer().observe(1, at_home, {.announced = true}));
    EXPECT_EQ(announced.find("leads only"), std::string::npos);
    // A user that named a relay did not mean this machine alone.
    const std::string alone =
        joined(peer::JoinOffer().observe(1, here, {.relays_given = true, .is_asking = false}));
    EXPECT_NE(alone.find("leads only"), std::string::npos);
}

// A task that learns from text.
std::string text_task() {
    for (const std::string& name : tasks::task_kinds())
        for (const run::SectionSchema& section : tasks::find_task(name)->sections)
            if (section.name == tasks::text_section_name) return name;
    return {};
}

TEST(JoinOffer, says_that_others_need_the_runs_own_data) {
    run::TaskConfig task = run::default_task();
    EXPECT_EQ(peer::own_data(task), "") << "pictures";
    task.kind = text_task();
    for (const char* packaged : {"kjv", "kjv?weight=2", "no source"}) {
        task.data = packaged;
        EXPECT_EQ(peer::own_data(task), "") << packaged;
    }
    task.data = "kjv, text:books";
    const std::string said =
        joined(peer::JoinOffer().observe(1, from_outside, {.own_data = peer::own_data(task)}));
    EXPECT_NE(said.find("join " + from_outside + " --data FOLDER\n"), std::string::npos) << said;
    EXPECT_NE(said.find("this run's data (kjv, text:books)"), std::string::npos) << said;
    const std::string plain = joined(peer::JoinOffer().observe(1, from_outside, {}));
    EXPECT_EQ(plain.find("--data"), std::string::npos) << plain;
}

TEST(JoinOffer, says_that_somebody_has_to_serve_the_experts) {
    const std::string said =
        joined(peer::JoinOffer().observe(1, from_outside, {.has_experts = true}));
    EXPECT_NE(said.find("serve " + from_outside + "\n"), std::string::npos) << said;
    const std::string plain = joined(peer::JoinOffer().observe(1, from_outside, {}));
    EXPECT_EQ(plain.find("serve"), std::string::npos) << plain;
}

TEST(CalledAs, others_have_the_program_where_readme_has_it) {
    EXPECT_EQ(peer::as_others_call_it("dedloc"), "dedloc");
    for (const char* here : {"build/gpu/bin/dedloc", "/opt/d/build/release/bin/dedloc"})
        EXPECT_EQ(peer::as_others_call_it(here), "build/release/bin/dedloc");
}

TEST(JoinStringSource, takes_it_from_the_argument_a_file_or_the_first_line_of_standard_input) {
    const Folder folder;
    EXPECT_EQ(join_argument_from("dedloc1abc")->text, "dedloc1abc");
    ASSERT_TRUE(peer::write_private_file(folder.file("join.txt"), from_outside + "\n"));
    const auto of_file = join_argument_from("@" + folder.file("join.txt"));
    ASSERT_TRUE(of_file);
    EXPECT_TRUE(run::parse_join_string(of_file->text));
    EXPECT_FALSE(join_argument_from(folder.file("join.txt"))) << "@ is missing";
    const auto of_folder = join_argument_from(folder.path());
    ASSERT_TRUE(of_folder);
    EXPECT_EQ(of_folder->text, from_outside);
    EXPECT_EQ(of_folder->directory, folder.path());
    EXPECT_EQ(join_argument_from("dedloc-peer-gone").error().message(),
              "dedloc-peer-gone: there is no such folder, and it is no join string");
    EXPECT_NE(join_argument_from(folder.file("gone")).error().message().find("no such folder"),
              std::string::npos);
    EXPECT_EQ(join_argument_from("@" + folder.file("nothing")).error().kind(),
              ErrorKind::bad_input);
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const std::string lines = from_outside + "\nm";
    ASSERT_EQ(::write(ends[1], lines.data(), lines.size()), static_cast<ssize_t>(lines.size()));
    EXPECT_EQ(join_argument_from("-", ends[0])->text, from_outside);
    char next = 0;
    ASSERT_EQ(::read(ends[0], &next, 1), 1);
    EXPECT_EQ(next, 'm') << "what comes after the line is somebody else's";
    const std::string endless(20'000, 'a');
    ASSERT_EQ(::write(ends[1], endless.data(), endless.size()), 20'000);
    EXPECT_FALSE(join_argument_from("-", ends[0]));
    ::close(ends[0]);
    ::close(ends[1]);
    EXPECT_FALSE(join_argument_from("-", ::open("/dev/null", O_RDONLY | O_CLOEXEC)));
}

class WarmStartTest : public testing::Test {
  protected:
    static run::Layout layout(std::uint64_t parameters) {
        run::Layout layout;
        layout.parameters.push_back({.name = "all", .offset = 0, .count = parameters});
        layout.parameters_count = parameters;
        layout.buffers_count = 1;
        return layout;
    }
    static run::RunFile run(optim::OptimizerKind kind) {
        run::RunFile run;
        run.name = "later";
        run.optimizer.kind = kind;
        return run;
    }
    // The outcome of a run with SGD.
    static peer::WarmSource learned() {
        peer::WarmSource source{.path = "step-7"};
        source.optimizer = run(optim::OptimizerKind::sgd).optimizer;
        state::SnapshotInfo info;
        info.step = 7;
        info.samples = 700;
        source.state =
            state::Snapshot::make(
                info, {{"parameters", {1, 2, 3}}, {"momentum", {4, 5, 6}}, {"buffers", {9}}})
                .value();
        return source;
    }
    static std::vector<float> section(const peer::WarmStart& start, const char* name) {
        return start.state->find(name)->values;
    }
};

TEST_F(WarmStartTest, a_new_run_has_the_old_numbers_and_counts_from_zero) {
    const run::RunFile later = run(optim::OptimizerKind::sgd);
    const auto start = peer::warm_start(later, layout(3), learned());
    ASSERT_TRUE(start) << start.error().message();
    EXPECT_EQ(section(*start, "parameters"), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(section(*start, "momentum"), (std::vector<float>{4, 5, 6}));
    EXPECT_EQ(section(*start, "buffers"), std::vector<float>{9});
    EXPECT_EQ(start->state->step(), 0u);
    EXPECT_EQ(start->state->info().samples, 0u);
    EXPECT_TRUE(replica::check_state(later, layout(3), *start->state));
    EXPECT_NE(start->told.find("moments are taken, too"), std::string::npos) << start->told;
}

TEST_F(WarmStartTest, another_optimizer_and_one_that_counts_steps_begin_anew) {
    const auto adamw = peer::warm_start(run(optim::OptimizerKind::adamw), layout(3), learned());
    ASSERT_TRUE(adamw);
    EXPECT_EQ(section(*adamw, "exp_avg"), std::vector<float>(3, 0));
    EXPECT_NE(adamw->told.find("it was sgd and is adamw now"), std::string::npos) << adamw->told;
    peer::WarmSource source = learned();
    source.optimizer->kind = optim::OptimizerKind::adamw;
    const auto again = peer::warm_start(run(optim::OptimizerKind::adamw), layout(3), source);
    ASSERT_TRUE(again);
    EXPECT_NE(again->told.find("counts its steps from 0"), std::string::npos) << again->told;
    source.optimizer.reset();
    EXPECT_TRUE(peer::warm_start(run(optim::OptimizerKind::sgd), layout(3), source));
}

TEST_F(WarmStartTest, another_model_is_refused_with_both_sizes) {
    const auto start = peer::warm_start(run(optim::OptimizerKind::sgd), layout(4), learned());
    ASSERT_FALSE(start);
    EXPECT_EQ(start.error().kind(), ErrorKind::bad_input);
    EXPECT_NE(start.error().message().find("has 3 parameters and 1 buffers"), std::string::npos);
    EXPECT_NE(start.error().message().find("has 4 and 1"), std::string::npos);
}

// The model's embeddings are of that tokenizer's pieces: with another one of the same size it would
// train, and know nothing of what it learned.
TEST_F(WarmStartTest, a_model_of_words_keeps_its_tokenizer) {
    const auto of_words = [](const std::string& hash) {
        run::TaskConfig task;
        task.kind = text_task();
        task.set_section(
            run::section_from(tasks::text_section_name, tasks::TextKeys{.tokenizer_hash = hash}));
        return task;
    };
    const std::string own(64, 'a');
    const std::string other(64, 'b');
    peer::WarmSource source = learned();
    source.task = of_words(own);
    run::TaskConfig open = of_words("none");
    ASSERT_TRUE(peer::inherit(open, source));
    EXPECT_EQ(tasks::text_keys(open).tokenizer_hash, own);
    EXPECT_TRUE(peer::inherit(open, source)) << "named by the run file, too";
    run::TaskConfig another = of_words(other);
    const Ok refused = peer::inherit(another, source);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), ErrorKind::bad_input);
    EXPECT_NE(refused.error().message().find("knows the tokenizer " + own +
                                             ", the run file names " + other),
              std::string::npos)
        << refused.error().message();

    source.task.reset();  // a run file of another version
    EXPECT_TRUE(peer::inherit(another, source)) << "the user's word";
    open = of_words("none");
    const Ok unknown = peer::inherit(open, source);
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().message().find("copy text.tokenizer_hash from its run.toml"),
              std::string::npos)
        << unknown.error().message();
    run::TaskConfig pictures = run::default_task();
    EXPECT_TRUE(peer::inherit(pictures, source));
}

TEST(CheckpointSource, says_what_is_not_there) {
    const Folder folder;
    const auto nameless = find_checkpoint("");
    ASSERT_FALSE(nameless);
    EXPECT_EQ(nameless.error().kind(), ErrorKind::bad_input);
    const auto nothing = find_checkpoint(folder.file("nowhere"));
    ASSERT_FALSE(nothing);
    EXPECT_EQ(nothing.error().kind(), ErrorKind::bad_input);
    const auto empty = find_checkpoint(folder.path());
    ASSERT_FALSE(empty);
    EXPECT_EQ(empty.error().kind(), ErrorKind::bad_input);
    EXPECT_NE(empty.error().message().find("no checkpoint"), std::string::npos);
}

TEST(CheckpointSource, knows_the_folder_of_the_peer_that_saved_it) {
    const Folder folder;
    const std::string saved = folder.file("peer/checkpoints/step-000000000001-00000000");
    std::filesystem::create_directories(saved);
    EXPECT_EQ(peers_folder(saved), "") << "a copy of the checkpoints alone";
    ASSERT_TRUE(peer::write_private_file(folder.file("peer/identity.key"), "x"));
    EXPECT_EQ(peers_folder(saved), folder.file("peer"));
    EXPECT_EQ(peers_folder(folder.file("peer/step-000000000001-00000000")), "");
    if (::geteuid() == 0) return;  // who may write everywhere
    std::filesystem::permissions(folder.file("peer"), std::filesystem::perms(0500));
    EXPECT_EQ(peers_folder(saved), "") << "read-only";
    std::filesystem::permissions(folder.file("peer"), std::filesystem::perms(0700));
}

struct Told {
    peer::CheckpointHook::Tell tell() {
        return [this](const events::Any& what, const std::string& text) {
            all += fmt::format("{}: {}\n", events::Event{.what = what}.kind(), text);
        };
    }
    std::string all;
};

TEST(CheckpointHook, what_is_not_done_when_nobody_waits_any_more_is_told) {
    const Folder folder;
    Told told;
    peer::CheckpointHook hook({.command = "sleep 1000", .log_directory = folder.path()},
                              told.tell());
    hook.saved(folder.file("step-a"), 1, "a");
    hook.saved(folder.file("step-b"), 2, "b");
    ASSERT_TRUE(hook.busy());
    hook.finish(1000, [] { return true; });
    EXPECT_FALSE(hook.busy());
    EXPECT_NE(told.all.find("publish_failed: the state of step 1"), std::string::npos) << told.all;
    EXPECT_NE(told.all.find("publish_failed: the state of step 2"), std::string::npos) << told.all;
}

TEST(CheckpointHook, a_published_folder_has_what_the_peer_keeps_and_what_others_put_there) {
    namespace fs = std::filesystem;
    const Folder folder;
    const std::string kept = folder.file("peer/checkpoints");
    const std::string open = folder.file("public");
    Told told;
    peer::CheckpointHook hook({.publish_directory = open, .log_directory = folder.file("peer")},
                              told.tell());
    const auto save = [&](const std::string& name) {
        fs::create_directories(kept + "/" + name);
        ASSERT_TRUE(peer::write_private_file(kept + "/" + name + "/checkpoint.json", name));
        hook.saved(kept + "/" + name, 1, "hash");
        hook.finish(1000, [] { return false; });
    };
    fs::create_directories(open + "/step-0-theirs");
    fs::create_directories(open + "/.step-0-theirs.new");
    save("step-1-ours");
    fs::create_directories(open + "/.step-1-ours.new");  // half a copy, as a kill leaves it
    save("step-2-ours");
    fs::remove_all(kept + "/step-1-ours");
    save("step-3-ours");
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(open))
        names.insert(entry.path().filename().string());
    const std::set<std::string> expected{
        "latest", "step-0-theirs", ".step-0-theirs.new", "step-2-ours", "step-3-ours"};
    EXPECT_EQ(names, expected) << told.all;
    EXPECT_EQ(fs::read_symlink(open + "/latest"), "step-3-ours");
    EXPECT_EQ(content_of(open + "/step-3-ours/checkpoint.json"), "step-3-ours");
}

// A disk with room for so much only: `cp` refuses while there is a copy of this name.
class TightDisk {
  public:
    TightDisk(const Folder& folder, const std::string& copy) : before_(::getenv("PATH")) {
        const std::string programs = folder.file("programs");
        std::filesystem::create_directories(programs);
        std::ofstream(programs + "/cp") << "#!/bin/sh\n[ ! -e '" << copy << "' ] || exit 1\n"
                                        << "exec /bin/cp \"$@\"\n";
        std::filesystem::permissions(programs + "/cp", std::filesystem::perms(0700));
        ::setenv("PATH", (programs + ":" + before_).c_str(), 1);
    }
    ~TightDisk() { ::setenv("PATH", before_.c_str(), 1); }

  private:
    std::string before_;
};

TEST(CheckpointHook, what_the_peer_keeps_no_more_makes_room_but_for_the_newest_copy) {
    namespace fs = std::filesystem;
    const Folder folder;
    const std::string kept = folder.file("checkpoints");
    const std::string open = folder.file("public");
    Told told;
    peer::CheckpointHook hook({.publish_directory = open, .log_directory = folder.path()},
                              told.tell());
    const auto save = [&](const std::string& name) {
        fs::create_directories(kept + "/" + name);
        ASSERT_TRUE(peer::write_private_file(kept + "/" + name + "/checkpoint.json", name));
        hook.saved(kept + "/" + name, 1, "hash");
        hook.finish(1000, [] { return false; });
    };
    save("step-1");
    save("step-2");
    fs::remove_all(kept + "/step-1");
    {
        const TightDisk disk(folder, open + "/step-1");
        save("step-3");
    }
    EXPECT_EQ(told.all.find("publish_failed"), std::string::npos) << told.all;
    EXPECT_EQ(fs::read_symlink(open + "/latest"), "step-3");
    EXPECT_FALSE(fs::exists(open + "/step-1"));
    fs::remove_all(kept + "/step-3");
    {
        const TightDisk disk(folder, open + "/step-2");
        save("step-4");
    }
    EXPECT_NE(told.all.find("publish_failed"), std::string::npos) << told.all;
    EXPECT_TRUE(fs::exists(open + "/latest/checkpoint.json")) << "nothing newer is there";
}

TEST(CheckpointHook, a_copy_that_cannot_be_removed_stops_nothing_and_is_tried_again) {
    namespace fs = std::filesystem;
    const Folder folder;
    const std::string name = "step-1-ours";
    const std::string kept = folder.file("checkpoints/" + name);
    fs::create_directories(kept);
    // `rm` refuses this, whoever calls it.
    const std::string stuck = folder.file("public/step-0-old/.");
    fs::create_directories(stuck);
    ASSERT_TRUE(peer::write_private_file(folder.file("published"), stuck + "\n"));
    Told told;
    peer::CheckpointHook hook({.command = "touch \"$1/../../done\"",
                               .publish_directory = folder.file("public"),
                               .log_directory = folder.path()},
                              told.tell());
    ASSERT_TRUE(peer::write_private_file(kept + "/checkpoint.json", name));
    hook.saved(kept, 1, "hash");
    hook.finish(1000, [] { return false; });
    EXPECT_TRUE(told.all.starts_with("published: ")) << told.all;
    EXPECT_TRUE(fs::exists(folder.file("done")));
    EXPECT_EQ(content_of(folder.file("published")),
              stuck + "\n" + folder.file("public/" + name) + "\n");
}

TEST(CheckpointHook, a_slash_at_the_end_of_the_publish_folder_makes_no_other_folder_of_it) {
    namespace fs = std::filesystem;
    const Folder folder;
    Told told;
    const auto publish = [&](const std::string& to, const std::string& name) {
        const std::string kept = folder.file("checkpoints/" + name);
        fs::create_directories(kept);
        ASSERT_TRUE(peer::write_private_file(kept + "/checkpoint.json", name));
        peer::CheckpointHook hook({.publish_directory = to, .log_directory = folder.path()},
                                  told.tell());
        hook.saved(kept, 1, "hash");
        hook.finish(1000, [] { return false; });
    };
    publish(folder.file("public/"), "step-1-ours");
    fs::remove_all(folder.file("checkpoints/step-1-ours"));
    publish(folder.file("public"), "step-2-ours");
    EXPECT_FALSE(fs::exists(folder.file("public/step-1-ours"))) << told.all;
    EXPECT_TRUE(fs::exists(folder.file("public/step-2-ours"))) << told.all;
}

PeerId trainer_id(char name) {
    const Bytes seed(security::ed25519_seed_bytes, static_cast<std::uint8_t>(name));
    return security::Identity::from_seed(seed).value().id();
}

membership::Status trainer(char name, membership::Phase phase = membership::Phase::computing) {
    membership::Status status;
    status.peer = trainer_id(name);
    status.phase = phase;
    return status;
}

using News = TrainerWatch::News;

TEST(TrainerWatch, an_outage_is_said_once_and_outlived) {
    TrainerWatch watch(0);
    EXPECT_EQ(watch.observe(1, {trainer('a')}), News::none);
    EXPECT_EQ(watch.observe(61, {}), News::none);
    EXPECT_EQ(watch.observe(62, {}), News::silent);
    EXPECT_EQ(watch.observe(63, {}), News::none);
    EXPECT_EQ(watch.observe(11 * 3600, {}), News::none);
    EXPECT_EQ(watch.observe(11 * 3600, {trainer('a')}), News::back);
    EXPECT_EQ(watch.observe(11 * 3600 + 1, {trainer('a')}), News::none);
    EXPECT_EQ(watch.observe(23 * 3600 + 2, {}), News::gone);
}

TEST(TrainerWatch, who_never_heard_of_a_trainer_gives_up_soon) {
    membership::Status assistant = trainer('x');
    assistant.role = membership::Role::aggregator;
    TrainerWatch watch(0);
    EXPECT_EQ(watch.observe(60, {assistant}), News::none);
    EXPECT_EQ(watch.observe(61, {assistant}), News::gone);
}

TEST(TrainerWatch, a_run_whose_trainers_all_left_in_order_is_not_waited_for) {
    TrainerWatch watch(0);
    EXPECT_EQ(watch.observe(1, {trainer('a'), trainer('b')}), News::none);
    EXPECT_EQ(watch.observe(2, {trainer('a', membership::Phase::leaving), trainer('b')}),
              News::none);
    watch.left(trainer_id('b'));
    EXPECT_EQ(watch.observe(62, {}), News::none);
    EXPECT_EQ(watch.observe(63, {}), News::gone);
}

TEST(TrainerWatch, one_trainer_that_vanished_without_a_word_is_waited_for) {
    TrainerWatch watch(0);
    EXPECT_EQ(watch.observe(1, {trainer('a'), trainer('b')}), News::none);
    watch.left(trainer_id('b'));
    EXPECT_EQ(watch.observe(63, {}), News::silent);
}

using Use = UseWatch::News;

TEST(UseWatch, who_gets_no_part_hears_so_once_and_hears_when_that_changes) {
    UseWatch watch;
    EXPECT_EQ(watch.observe(500, 0), Use::none) << "it came at that step";
    EXPECT_EQ(watch.observe(509, 0), Use::none);
    EXPECT_EQ(watch.observe(510, 0), Use::unused);
    EXPECT_EQ(watch.observe(511, 0), Use::none);
    EXPECT_EQ(watch.observe(600, 0), Use::none);
    EXPECT_EQ(watch.observe(601, 3), Use::used);
    EXPECT_EQ(watch.observe(602, 6), Use::none);
    EXPECT_EQ(watch.observe(621, 6), Use::none) << "now and then it may be so";
    EXPECT_EQ(watch.observe(622, 6), Use::unused);
    EXPECT_EQ(watch.steps_without(622), 20u);
}

TEST(UseWatch, who_is_used_hears_nothing) {
    UseWatch watch;
    for (std::uint64_t step = 0; step < 100; ++step)
        EXPECT_EQ(watch.observe(step, step / 5), Use::none) << step;
}

TEST(NodeOpening, threads_bound_what_works_beside_the_gradients) {
    peer::PeerOptions peer;
    peer.threads = 2;
    EXPECT_EQ(peer::opening_options(peer).workers_count, 2u);
    const Folder folder;
    peer::OpeningOptions opening = peer::opening_options(peer);
    opening.directory = folder.path();
    opening.listen = {"none"};
    auto opened = peer::open_node(Digest{}, opening);
    ASSERT_TRUE(opened) << opened.failure().message;
    EXPECT_EQ(opened->node->environment().workers.threads_count(), 2u);
}

TEST(Commands, bad_input_has_its_exit_code) {
    const Folder folder;
    EXPECT_EQ(run_check({.run_file = folder.file("missing.toml"), .json = false}), 2);
    ASSERT_TRUE(peer::write_private_file(folder.file("bad.toml"), "name = \"x\"\nfoo = 1\n"));
    EXPECT_EQ(run_check({.run_file = folder.file("bad.toml"), .json = false}), 2);
    EXPECT_EQ(run_init({.task = "nothing", .output = folder.file("x"), .force = false}), 2);
    EXPECT_EQ(run_init({.task = {}, .output = folder.file("x.toml"), .force = false}), 0);
    EXPECT_EQ(run_init({.task = {}, .output = folder.file("x.toml"), .force = false}), 2);
    EXPECT_EQ(run_invite({.directory = folder.path(), .json = false}), 3);
    // The system's error for a name that no folder can hold is not that there is no such file.
    const std::string too_long = folder.file(std::string(300, 'x'));
    EXPECT_EQ(run_init({.task = {}, .output = too_long, .force = false}), 6);
}

TEST(Commands, the_check_of_the_network_needs_a_folder_for_temporary_files) {
    const char* before = ::getenv("TMPDIR");
    const std::string kept = before != nullptr ? before : "";
    ::setenv("TMPDIR", "/dev/null/nowhere", 1);
    testing::internal::CaptureStderr();
    CheckNetworkOptions options;
    options.join_string = at_home;
    EXPECT_EQ(run_check_network(options), 6);
    if (before != nullptr)
        ::setenv("TMPDIR", kept.c_str(), 1);
    else
        ::unsetenv("TMPDIR");
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("TMPDIR"), std::string::npos) << said;
}

}  // namespace
}  // namespace dedloc::cli
