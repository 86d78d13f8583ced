#include "tests/process/admission.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "dedloc/admission/admission_client.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/p2p/identity_file.h"
#include "dedloc/run/join_string.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

#include "tests/common/exit_codes.h"
#include "tests/process/bowl_run.h"
#include "tests/process/peer_process.h"
#include "tests/process/process_folder.h"
#include "tests/process/token_forge.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;

constexpr double begin_patience_s = 60;
constexpr double refusal_patience_s = 45;
constexpr std::uint64_t steps_first = 4;  // before anybody is refused
constexpr std::uint64_t steps_after = 6;  // after the revocation
constexpr std::uint64_t steps_until_out = 2;
// Between two steps while others are refused; a lost round would cost its deadline.
constexpr double gap_max_s = 8;
constexpr const char* revoked_member = "dora";
constexpr auto admission_glance = std::chrono::milliseconds(20);

const BowlRun admission_bowl = {.name = "invited", .elements = 20'000, .milliseconds = 40};

double steady_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

std::string content_of_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

struct RefusalSeen {
    std::string peer;  // whom it is about
    std::string text;
};

class AdmissionRun {
  public:
    AdmissionRun(std::string program, std::string folder)
        : program_(std::move(program)), folder_(std::move(folder)) {}

    void run();
    nlohmann::ordered_json result() const;
    bool good() const { return problems_.empty(); }
    const std::vector<std::string>& problems() const { return problems_; }

  private:
    void fail(std::string sentence) { problems_.push_back(std::move(sentence)); }
    void look();
    void look_at_organiser(const events::Event& event);
    bool wait_for(double seconds, const std::string& what, const std::function<bool()>& done);
    std::optional<std::string> command(std::vector<std::string> words);
    bool start_run();
    bool start_member(const std::string& name);
    void refuse_all();
    void refuse(const Intruder& intruder, const std::string& string);
    void check_refusal(const std::string& name,
                       const std::string& words,
                       const std::string& string,
                       const PeerId& own);
    std::string string_of_member() const;
    std::string string_with_code(ByteView code) const;
    void revoke_member();
    void check_steps();
    PeerProcess& organiser() { return *peers_.front(); }

    std::string program_;
    std::string folder_;
    std::vector<std::unique_ptr<PeerProcess>> peers_;
    std::vector<RefusalSeen> refusals_seen_;
    std::map<std::string, std::string> sentences_;  // by the intruder's name
    std::vector<std::string> problems_;
    double gap_most_s_ = 0;
    std::uint64_t organisers_step_ = 0;
    std::uint64_t revoked_at_ = 0;
    std::uint64_t last_step_with_revoked_ = 0;
};

// From when it has taken the revocation, a second at most after `dedloc revoke` asked for it, the
// steps count.
void AdmissionRun::look_at_organiser(const events::Event& event) {
    if (const auto step = step_in(event)) organisers_step_ = step->step;
    const auto* revoked = event.as<events::Revoked>();
    if (revoked && revoked->person == revoked_member) revoked_at_ = organisers_step_;
}

void AdmissionRun::look() {
    for (const auto& peer : peers_)
        for (const events::Event& event : peer->look()) {
            if (event.is<events::AdmissionRefused>())
                refusals_seen_.push_back({event.peer.text(), event.text});
            if (peer == peers_.front()) look_at_organiser(event);
        }
}

bool AdmissionRun::wait_for(double seconds,
                            const std::string& what,
                            const std::function<bool()>& done) {
    const double until = steady_s() + seconds;
    for (;;) {
        look();
        if (done()) return true;
        if (steady_s() > until) {
            fail(fmt::format("{} within {:.0f} s; the organiser says: {}",
                             what,
                             seconds,
                             organiser().last_error()));
            return false;
        }
        std::this_thread::sleep_for(admission_glance);
    }
}

// A command of the organiser's; what it printed.
std::optional<std::string> AdmissionRun::command(std::vector<std::string> words) {
    const std::string out = folder_ + "/command";
    words.insert(words.begin(), program_);
    words.insert(words.end(), {"--dir", organiser().directory()});
    const runtime::ChildOptions options{
        .command = words, .output_file = out + ".out", .error_file = out + ".err", .niceness = 0};
    auto child = runtime::ChildProcess::start(options);
    if (!child || !child->wait_for(refusal_patience_s) || child->end()->exit_code != 0) {
        fail(fmt::format("dedloc {} failed: {}", words[1], content_of_file(out + ".err")));
        return std::nullopt;
    }
    return content_of_file(out + ".out");
}

bool AdmissionRun::start_run() {
    std::error_code error;
    fs::create_directories(folder_, error);
    const std::string run_file = folder_ + "/run.toml";
    std::ofstream(run_file) << bowl_run_text(admission_bowl);
    auto host =
        PeerProcess::start(program_, {"host", run_file, "--admit", "list"}, folder_, "organiser");
    if (!host) return fail(host.error().message()), false;
    peers_.push_back(*std::move(host));
    if (!wait_for(begin_patience_s, "the organiser printed no join string", [this] {
            return !organiser().join_string().empty();
        }))
        return false;
    for (const char* name : {"ana", "ben", revoked_member})
        if (!start_member(name)) return false;
    return wait_for(begin_patience_s, "four peers made no steps together", [this] {
        return std::ranges::all_of(peers_, [this](const auto& peer) {
            return peer->step() >= steps_first && peer->steps().back().members == peers_.size();
        });
    });
}

bool AdmissionRun::start_member(const std::string& name) {
    const auto string = command({"invite", name});
    if (!string) return false;
    auto peer = PeerProcess::start(program_, {"join", *string}, folder_, name);
    if (!peer) return fail(peer.error().message()), false;
    peers_.push_back(*std::move(peer));
    sentences_["string of " + name] = *string;
    return true;
}

// Leads to a member that lets nobody in: what it says of a token is what all members would.
std::string AdmissionRun::string_of_member() const {
    auto join = *run::parse_join_string(peers_[1]->join_string());
    std::erase_if(join.addresses, [this](const std::string& address) {
        const auto parts = run::split_peer_address(address);
        const auto own = run::parse_join_string(peers_[1]->join_string());
        const auto first = run::split_peer_address(own->addresses.front());
        return !parts || !first || parts->peer != first->peer;
    });
    return run::to_text(join);
}

std::string AdmissionRun::string_with_code(ByteView code) const {
    auto join = *run::parse_join_string(peers_.front()->join_string());
    join.code = to_bytes(code);
    return run::to_text(join);
}

void AdmissionRun::check_refusal(const std::string& name,
                                 const std::string& words,
                                 const std::string& string,
                                 const PeerId& own) {
    auto process = PeerProcess::start(program_, {"join", string}, folder_, name);
    if (!process) return fail(process.error().message());
    PeerProcess& intruder = **process;
    const bool ended = intruder.process().wait_for(refusal_patience_s);
    const std::string said = intruder.last_error();
    sentences_[name] = said;
    if (!ended || intruder.process().end()->exit_code == 0)
        return fail(fmt::format("{} was not refused: {}", name, said));
    if (said.find(words) == std::string::npos)
        fail(fmt::format("{} was told something else than '{}': {}", name, words, said));
    const std::string sentence = said.substr(0, said.find_last_not_of('\n') + 1);
    if (!sentence.starts_with("dedloc: ") || sentence.find('\n') != std::string::npos)
        fail(fmt::format("{} was not told in one sentence: {}", name, said));
    (void)wait_for(refusal_patience_s, name + " was attributed by nobody", [&] {
        return std::ranges::any_of(refusals_seen_, [&](const RefusalSeen& seen) {
            return seen.peer == own.text() && seen.text.find(words) != std::string::npos;
        });
    });
}

void AdmissionRun::refuse(const Intruder& intruder, const std::string& string) {
    const std::string directory = folder_ + "/" + intruder.name;
    auto identity = p2p::load_or_create_identity(directory);
    if (!identity) return fail(identity.error().message());
    const PeerId own = identity->identity().id();
    if (intruder.token) {
        admission::Admitted admitted;
        admitted.token = intruder.token(own);
        const Bytes bytes = wire::encode(admitted);
        std::ofstream(directory + "/" + admission::token_file, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
    }
    {
        const auto unlocked = *std::move(identity);  // the process takes it
    }
    check_refusal(intruder.name, intruder.words, string, own);
}

void AdmissionRun::refuse_all() {
    const std::string key = content_of_file(organiser().directory() + "/authority.key");
    const auto authority = security::Identity::from_private_key(as_bytes(key));
    if (!authority) return fail(authority.error().message());
    const Digest run = run::parse_join_string(organiser().join_string())->run;
    const TokenForge forge(*authority, run);
    // Invited, and revoked before the invitation was used.
    const auto unused = command({"invite", "eve"});
    if (!unused || !command({"revoke", "eve"})) return;
    const std::string members = string_of_member();
    const std::string organisers = organiser().join_string();
    for (const Intruder& intruder : forge.intruders("eve"))
        refuse(intruder, intruder.name == "no-token" ? organisers : members);
    refuse(forge.late(), members);
    refuse({"replayed-code", "was used on another device"}, sentences_["string of ana"]);
    refuse({"invented-code", "gave out no such invitation"},
           string_with_code(security::secure_random(run::invitation_code_bytes)));
    refuse({"revoked-invitation", "the invitation of eve was revoked"}, *unused);
}

void AdmissionRun::revoke_member() {
    if (!command({"revoke", revoked_member})) return;
    PeerProcess& dora = *peers_.back();
    (void)wait_for(refusal_patience_s, "the revoked member did not end", [&dora] {
        return !dora.process().running();
    });
    if (dora.last_error().find("revoked the admission of dora") == std::string::npos)
        fail("the revoked member was not told so: " + dora.last_error());
    (void)wait_for(begin_patience_s, "the others made no steps after the revocation", [this] {
        return peers_[0]->step() > revoked_at_ + steps_after &&
               peers_[1]->step() > revoked_at_ + steps_after;
    });
}

void AdmissionRun::check_steps() {
    const auto history = monitor::read_history(organiser().directory());
    if (!history) return fail(history.error().message());
    PeerId dora;
    for (const auto& [peer, person] : history->persons)
        if (person == revoked_member) dora = peer;
    if (dora.is_empty()) return fail("no log says whose device the revoked one is");
    for (const monitor::CertifiedStep& step : history->steps)
        for (const auto& share : step.shares)
            if (share.peer == dora) last_step_with_revoked_ = step.step;
    if (revoked_at_ == 0) return fail("the organiser's log says nothing of the revocation");
    // The step under way then, and one that it may have announced itself for already.
    if (last_step_with_revoked_ > revoked_at_ + steps_until_out)
        fail(fmt::format("the member was revoked at step {}, and is in step {}",
                         revoked_at_,
                         last_step_with_revoked_));
    const std::vector<StepSeen>& seen = organiser().steps();
    for (std::size_t i = 1; i < seen.size(); ++i)
        if (seen[i].step > steps_first && seen[i].step <= revoked_at_)
            gap_most_s_ = std::max(gap_most_s_, seen[i].time - seen[i - 1].time);
    if (gap_most_s_ > gap_max_s)
        fail(fmt::format("{:.1f} s passed between two steps while others were refused",
                         gap_most_s_));
}

void AdmissionRun::run() {
    if (!start_run()) return;
    refuse_all();
    revoke_member();
    check_steps();
}

nlohmann::ordered_json AdmissionRun::result() const {
    nlohmann::ordered_json refusals;
    for (const auto& [name, sentence] : sentences_)
        if (!name.starts_with("string of")) refusals[name] = sentence;
    return {{"failures", problems_.size()},
            {"refusals", refusals.size()},
            {"sentences", refusals},
            {"gap_most_s", gap_most_s_},
            {"revoked_at_step", revoked_at_},
            {"last_step_with_revoked", last_step_with_revoked_},
            {"problems", problems_}};
}

}  // namespace

int run_admission(const AdmissionCommand& command) {
    const auto folder = process_folder(command.directory, "admission");
    if (!folder) return exit_after(folder.error());
    AdmissionRun run(command.program.empty() ? dedloc_program() : command.program, *folder);
    run.run();
    for (const std::string& problem : run.problems())
        fmt::print(stderr, "dedloc-lab admission: {}\n", problem);
    const nlohmann::ordered_json result = run.result();
    fmt::print("{}\n", command.json ? monitor::json_line(result) : result.dump(2));
    const bool good = run.good();
    end_process_folder(*folder, !good || !command.directory.empty());
    return good ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
