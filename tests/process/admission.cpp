#include "tests/process/admission.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "dedloc/admission/admission_client.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/run/join_string.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/identity_file.h"
#include "dedloc/wire/message.h"

#include "tests/common/exit_codes.h"
#include "tests/process/authority_run.h"
#include "tests/process/invited_run.h"
#include "tests/process/process_folder.h"
#include "tests/process/token_forge.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t steps_first = 4;  // before anybody is refused
constexpr std::uint64_t steps_after = 6;  // after the revocation
constexpr std::uint64_t steps_until_out = 2;
// Between two steps while others are refused; a lost round would cost its deadline.
constexpr double gap_max_s = 8;
constexpr const char* revoked_member = "dora";

struct RefusalSeen {
    std::string peer;  // whom it is about
    std::string text;
};

class AdmissionRun final : public InvitedRun {
  public:
    using InvitedRun::InvitedRun;

    void run();
    nlohmann::ordered_json result() const;

  private:
    void on_event(const PeerProcess& peer, const events::Event& event) override;
    bool start_run();
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

    std::vector<RefusalSeen> refusals_seen_;
    std::map<std::string, std::string> sentences_;  // by the intruder's name
    double gap_most_s_ = 0;
    std::uint64_t organisers_step_ = 0;
    std::uint64_t revoked_at_ = 0;
    std::uint64_t last_step_with_revoked_ = 0;
};

// From when the organiser has taken the revocation, a second at most after `dedloc revoke` asked
// for it, the steps count.
void AdmissionRun::on_event(const PeerProcess& peer, const events::Event& event) {
    if (event.is<events::AdmissionRefused>())
        refusals_seen_.push_back({event.peer.text(), event.text});
    if (&peer != peers_.front().get()) return;
    if (const auto step = step_in(event)) organisers_step_ = step->step;
    const auto* revoked = event.as<events::Revoked>();
    if (revoked && revoked->person == revoked_member) revoked_at_ = organisers_step_;
}

bool AdmissionRun::start_run() {
    if (!start_organiser()) return false;
    for (const char* name : {"ana", "ben", revoked_member})
        if (start_person(name) == nullptr) return false;
    return wait_for(admission_begin_timeout_s, "four peers made no steps together", [this] {
        return std::ranges::all_of(peers_, [this](const auto& peer) {
            return peer->step() >= steps_first && peer->steps().back().members == peers_.size();
        });
    });
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
    auto process = PeerProcess::start(program(), {"join", string}, folder(), name);
    if (!process) return fail(process.error().message());
    PeerProcess& intruder = **process;
    const bool ended = intruder.process().wait_for(admission_refusal_timeout_s);
    const std::string said = intruder.last_error();
    sentences_[name] = said;
    if (!ended || intruder.process().end()->exit_code == 0)
        return fail(fmt::format("{} was not refused: {}", name, said));
    if (said.find(words) == std::string::npos)
        fail(fmt::format("{} was told something else than '{}': {}", name, words, said));
    const std::string sentence = said.substr(0, said.find_last_not_of('\n') + 1);
    if (!sentence.starts_with("dedloc: ") || sentence.find('\n') != std::string::npos)
        fail(fmt::format("{} was not told in one sentence: {}", name, said));
    (void)wait_for(admission_refusal_timeout_s, name + " was attributed by nobody", [&] {
        return std::ranges::any_of(refusals_seen_, [&](const RefusalSeen& seen) {
            return seen.peer == own.text() && seen.text.find(words) != std::string::npos;
        });
    });
}

void AdmissionRun::refuse(const Intruder& intruder, const std::string& string) {
    const std::string directory = folder() + "/" + intruder.name;
    auto identity = security::load_or_create_identity(directory);
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
    refuse({"replayed-code", "was used on another device"}, string_of("ana"));
    refuse({"invented-code", "gave out no such invitation"},
           string_with_code(security::secure_random(run::invitation_code_bytes)));
    refuse({"revoked-invitation", "the invitation of eve was revoked"}, *unused);
}

void AdmissionRun::revoke_member() {
    if (!command({"revoke", revoked_member})) return;
    PeerProcess& dora = *peers_.back();
    (void)wait_for(admission_refusal_timeout_s, "the revoked member did not end", [&dora] {
        return !dora.process().running();
    });
    if (dora.last_error().find("revoked the admission of dora") == std::string::npos)
        fail("the revoked member was not told so: " + dora.last_error());
    (void)wait_for(
        admission_begin_timeout_s, "the others made no steps after the revocation", [this] {
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
    for (const auto& [name, sentence] : sentences_) refusals[name] = sentence;
    return {{"failures", problems().size()},
            {"refusals", refusals.size()},
            {"sentences", refusals},
            {"gap_most_s", gap_most_s_},
            {"revoked_at_step", revoked_at_},
            {"last_step_with_revoked", last_step_with_revoked_},
            {"problems", problems()}};
}

}  // namespace

int run_admission(const AdmissionCommand& command) {
    const auto folder = process_folder(command.directory, "admission");
    if (!folder) return exit_after(folder.error());
    const std::string program = command.program.empty() ? dedloc_program() : command.program;
    AdmissionRun run(program, *folder + "/admission");
    run.run();
    AuthorityRun authority(program, *folder + "/authority");
    authority.run();
    nlohmann::ordered_json result = run.result();
    result["authority"] = authority.result();
    std::vector<std::string> problems = run.problems();
    problems.insert(problems.end(), authority.problems().begin(), authority.problems().end());
    result["failures"] = problems.size();
    result["problems"] = problems;
    for (const std::string& problem : problems)
        fmt::print(stderr, "dedloc-lab admission: {}\n", problem);
    fmt::print("{}\n", command.json ? monitor::json_line(result) : result.dump(2));
    const bool good = problems.empty();
    end_process_folder(*folder, !good || !command.directory.empty());
    return good ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
