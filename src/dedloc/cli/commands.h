// Every subcommand: its options and the function that runs it. main.cpp fills the options in from
// the command line (as people_commands.cpp does) and returns the number to the shell.
//
// Rules of all commands: results on standard output, failures as one sentence on standard error
// and an exit code (exit_codes.h); with --json the last line of standard output is one object.

#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_options.h"

namespace dedloc::cli {

struct InitOptions {
    std::string task;                     // empty: what a run file without a task trains
    std::string output;                   // empty: <task>.toml; "-": standard output
    bool force = false;                   // overwrite
    std::string size{};                   // empty: the one to start from
    bool robust = false;                  // with a section [robust]
    bool home = false;                    // few bytes, for lines at home
    int peers = 8;                        // of a run at home
    std::string weights{};                // of a folder of Hugging Face's, in place of a size
    std::vector<std::string> settings{};  // section.key=value
};
int run_init(const InitOptions& options);

struct CheckOptions {
    std::string run_file;
    std::string device = "auto";
    std::string data_directory{};
    int threads = 0;
    int samples = 2;    // to show
    int peers = 16;     // of the predicted round
    double mbit = 100;  // a second, up and down, of each of them
    bool json = false;
};
int run_check(const CheckOptions& options);

struct TokenizerTrainOptions {
    std::string input = "kjv";     // text/source.h
    std::string recipe{};          // text/recipe.h; the following win
    std::string kind{};            // unigram, byte_bpe
    std::uint64_t vocabulary = 0;  // 0: as the recipe says
    std::string normalization{};
    std::string rules{};
    bool split_digits = false;
    std::uint64_t megabytes = 0;  // of text at most; 0: text/tokenizer_training.h
    std::string data_directory{};
    std::string output{};
    bool force = false;  // overwrite
    bool json = false;
};
int run_tokenizer_train(const TokenizerTrainOptions& options);

struct TokenizerShowOptions {
    std::string file{};
    std::string text{};  // to part into pieces
    bool json = false;
};
int run_tokenizer_show(const TokenizerShowOptions& options);

struct DataEmojiOptions {
    std::string folder{};
    std::string language = "en";  // of the captions, as CLDR calls it
    std::uint32_t side = 64;      // pixels
    bool force = false;           // overwrite
    bool json = false;
};
int run_data_emoji(const DataEmojiOptions& options);

struct CheckNetworkOptions {
    std::string join_string;          // whose peers to ask
    std::vector<std::string> listen;  // as for host and join
    bool no_port_mapping = false;
    double seconds_max = 40;
    bool json = false;
};
int run_check_network(const CheckNetworkOptions& options);

struct RelayOptions {
    std::string join_string;  // the run to help; empty: whoever knows the address
    std::vector<std::string> listen;
    std::vector<std::string> announce;
    std::string relay_for;  // members, anyone; empty: members of the run, if there is one
    bool no_port_mapping = false;
    std::string congestion_control;  // as for host and join
    peer::CapOptions caps;
    std::string directory;
    double seconds = 0;  // 0: until Ctrl-C
    bool json = false;
};
int run_relay(const RelayOptions& options);

struct VersionOptions {
    bool json = false;
    std::string check;  // a file of a release, beside its SHA256SUMS
};
int run_version(const VersionOptions& options);
std::string version_line();

struct InviteOptions {
    std::string directory;   // empty: any running peer of this user
    std::string name{};      // of the person; empty: a string for anybody, as the peer writes it
    std::string list{};      // a file of names, one a line
    double days = 7;         // until the code ends
    bool organiser = false;  // may let others in, too
    bool json = false;
};
int run_invite(const InviteOptions& options);

struct MembersOptions {
    std::string directory;  // of an organiser's peer; empty: the one that runs here
    bool json = false;
};
int run_members(const MembersOptions& options);

struct RevokeOptions {
    std::string name;
    std::string directory;
    bool json = false;
};
int run_revoke(const RevokeOptions& options);

struct ReportOptions {
    std::vector<std::string> folders;  // of a peer; several are compared
    std::string output;  // folder for the files; empty: `report` in the peer's, or `compared` here
    std::string every;   // "24h": again and again, until Ctrl-C
    bool json = false;
};
int run_report(const ReportOptions& options);

struct WhyOptions {
    std::string what;       // a peer's folder, or a join string
    std::string directory;  // for a string of a run that lets in by invitation: the peer's folder
    double seconds = 30;    // to look at most, from outside
    bool json = false;
};
int run_why(const WhyOptions& options);

struct EvalOptions {
    std::string checkpoint;   // a checkpoint's folder, or a folder of them: the newest
    std::string join_string;  // of the run, whose servers have the model's experts; empty: none
    std::string directory{};  // of the peer that the string is for, in an invited run
    std::string device = "auto";
    std::string data_directory;
    std::string perplexity_file{};  // text of the user's own, instead of the held-out data
    std::string choices_file{};     // questions with choices, likewise
    int threads = 0;
    bool json = false;
};
int run_eval(const EvalOptions& options);

struct FineTuneOptions {
    std::vector<std::string> checkpoints;
    std::string task = "classification";  // or ner
    std::string data;                     // labelled text (text/labelled.h)
    std::string evaluation_data;          // of its own file; else a part of `data`
    std::string test_data;
    std::string split = "chance";  // or names: those of the test are in no other split
    std::uint64_t train_max = 0;   // texts; 0: all
    std::uint64_t seeds = 5;
    bool random = false;  // the same model without what it learned, too
    std::int64_t length = 128;
    double rate = 1e-5;
    std::uint64_t epochs = 20;
    std::uint64_t batch = 128;
    std::uint64_t patience = 3;
    std::string device = "auto";
    std::string data_directory;
    int threads = 0;
    bool json = false;
};
int run_finetune(const FineTuneOptions& options);

struct ExportOptions {
    std::string checkpoint;
    std::string directory;
    std::string data_directory{};
    bool json = false;
};
int run_export(const ExportOptions& options);

struct SampleOptions {
    std::string checkpoint;   // as for eval; or ...
    std::string join_string;  // ... a run that is under way
    std::string directory{};  // of the peer that the string is for, in an invited run
    std::vector<std::string> prompts;
    std::string prompts_file;    // one a line
    std::string watch_prompts;   // the same, for a page at each newer state
    double refresh = 10;         // seconds between two looks for one
    std::size_t count = 0;       // of each prompt; 0: 16 pictures, or one text
    std::uint64_t tokens = 200;  // of a text at most
    std::int64_t top_k = 0;      // 0: all codes
    double top_p = 1;
    double temperature = 1;
    std::optional<double> guidance{};  // of pictures; empty: the run file's
    std::uint64_t seed = 1;
    std::string output;  // empty: grid.png; of texts the terminal
    std::string device = "auto";
    int threads = 0;
    bool json = false;
};
int run_sample(const SampleOptions& options);

struct ServeApiOptions {
    std::string checkpoint;   // as for sample; or ...
    std::string join_string;  // ... a run that is under way, which is followed
    std::string directory{};  // of the peer that the string is for, in an invited run
    std::string address = "127.0.0.1";
    int port = 8490;
    double refresh = 60;  // seconds between two looks for a newer state
    std::string device = "auto";
    int threads = 0;
    double seconds = 0;  // 0: until Ctrl-C
    bool json = false;
};
int run_serve_api(const ServeApiOptions& options);

struct HostOptions {
    peer::PeerOptions peer;
    std::string run_file;
    std::string resume;                 // a folder of checkpoints, or a peer's folder
    std::string from;                   // the same: a new run begins with its model
    std::string weights;                // the same with a folder of Hugging Face's
    bool open = false;                  // no run secret: whoever knows an address may join
    std::string admit;                  // secret, open, list; empty: as the run file says
    double token_hours = 6;             // of an invited run
    std::vector<std::string> settings;  // of the run file: section.key=value
};
int run_host(const HostOptions& options);
// Words that do not go together, or are missing.
std::optional<peer::Failure> what_is_not_said(const HostOptions& options);

struct JoinOptions {
    peer::PeerOptions peer;
    std::string join_string;
};
int run_join(const JoinOptions& options);

struct AssistOptions {
    std::string join_string;
    std::vector<std::string> listen;
    std::vector<std::string> announce;
    std::vector<std::string> relays;
    std::string relay_for = "members";  // anyone, nobody
    bool no_port_mapping = false;
    std::string directory;
    std::string name;
    std::string congestion_control;  // of TCP: cubic, bbr; empty: the system's
    peer::CapOptions caps;
    double plan_up = 0;  // as for host and join
    double plan_down = 0;
    int memory_mib = 256;  // of contributions that wait for slower members'
    bool json = false;
    bool plain = false;
    bool quiet = false;
};
int run_assist(const AssistOptions& options);

struct ServeOptions {
    std::string join_string;
    std::vector<std::string> listen;
    std::vector<std::string> announce;
    std::vector<std::string> relays;
    std::string relay_for = "members";
    bool no_port_mapping = false;
    std::string directory;
    std::string name;
    std::string congestion_control;
    peer::CapOptions caps;
    double plan_up = 0;
    double plan_down = 0;
    int threads = 0;
    int memory_mib = 512;  // of experts
    double seconds = 0;    // 0: until Ctrl-C or the end of the run
    bool json = false;
    bool plain = false;
    bool quiet = false;
};
int run_serve(const ServeOptions& options);

struct FindOptions {
    std::string name;  // of the run
    std::string at;    // a join string, or an address with /p2p/<id> of a relay or a peer
    std::string directory;
    bool json = false;
};
int run_find(const FindOptions& options);

struct WatchOptions {
    std::string join_string;
    std::string directory;  // of a run that lets in by invitation: the peer's folder
    double seconds = 0;     // 0: until Ctrl-C or the end of the run
    bool json = false;
    bool plain = false;
    std::string web;             // where the page is (web/run_page.h); empty: none
    std::string tensorboard;     // a folder for event files; empty: none
    bool print_plan = false;     // a file for run_plan instead of the view, after `seconds` (10)
    std::uint64_t elements = 0;  // for it: numbers in the averaged vector; 0: as the run says
};
int run_watch(const WatchOptions& options);

struct ControlOptions {
    std::string action;     // pause, resume, limit, publish
    std::string directory;  // of the peer; empty: the only one that runs here
    peer::CapOptions caps;  // limit
    bool json = false;
};
int run_control(const ControlOptions& options);

struct ReplayOptions {
    std::string folder;  // of a peer
    std::string web = "auto";
    std::string tensorboard;  // a folder that gets an event file of the whole run; empty: none
    double speed = 0;         // 0: all of it in a minute
    double seconds = 0;       // 0: until Ctrl-C
};
int run_replay(const ReplayOptions& options);

struct ServiceOptions {
    std::string action;  // install, remove, run
    std::string join_string;
    std::string directory;
    std::string name;
    std::string data_directory;
    std::string hours;          // "22:00-07:00"; empty: always
    double idle_minutes = 0;    // that nobody must have used the machine; 0: it does not matter
    int processor_percent = 0;  // of one processor; 0: no cap
    int threads = 0;
    bool agrees = false;  // PeerOptions::agrees
    peer::CapOptions caps;
};
int run_service(const ServiceOptions& options, const std::string& program);

struct DemoOptions {
    std::string run_file;   // empty: the built-in one (examples/demo.toml)
    std::string directory;  // empty: a temporary folder that is removed on success
    int peers = 4;
    double seconds_max = 600;
    bool keep = false;  // the folder
    bool json = false;
    bool plain = false;
};
int run_demo(const DemoOptions& options, const std::string& program);

struct PlanOptions {
    std::string file;    // either a file ...
    std::string setup;   // ... or the name of a network that comes with the program
    std::string svg;     // file for the drawing
    bool print = false;  // the set-up's file, to start from
    bool json = false;
};
int run_plan(const PlanOptions& options);

}  // namespace dedloc::cli
