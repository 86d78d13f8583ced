#include "tests/process/authority_run.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <thread>

#include "dedloc/admission/admission_client.h"
#include "dedloc/security/identity_file.h"
#include "dedloc/wire/message.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;

constexpr double leap_lasts_s = 10;
constexpr long leap_s = 26 * 3600;  // beyond any token
constexpr std::uint64_t steps_on = 3;
constexpr auto authority_glance = std::chrono::milliseconds(50);
constexpr const char* co_organiser = "bea";
constexpr const char* her_guest = "cid";

double wall_clock_s() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

void write_file(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

void AuthorityRun::on_event(const PeerProcess& peer, const events::Event& event) {
    if (event.is<events::KeyUsedTwice>()) told_twice_.insert(peer.name());
}

PeerProcess* AuthorityRun::peer_called(const std::string& name) {
    for (const auto& peer : peers_)
        if (peer->name() == name) return peer.get();
    return nullptr;
}

PeerPlace AuthorityRun::with_clock(const std::string& name) const {
    set_clock(name, 0);
    const std::string library = fs::path(program()).parent_path().string() + "/libleaping_clock.so";
    PeerPlace place;
    place.prefix = {"/usr/bin/env",
                    "LD_PRELOAD=" + library,
                    fmt::format("DEDLOC_LEAP_FILE={}/{}.leap", folder(), name)};
    return place;
}

void AuthorityRun::set_clock(const std::string& name, long seconds) const {
    std::error_code error;
    fs::create_directories(folder(), error);
    write_file(fmt::format("{}/{}.leap", folder(), name), fmt::format("{:<20}", seconds));
}

bool AuthorityRun::start_run() {
    if (!start_organiser(with_clock("organiser"))) return false;
    if (start_person(co_organiser, {"--organiser"}) == nullptr) return false;
    if (start_person("ana") == nullptr) return false;
    if (start_person("ben", {}, {}, with_clock("ben")) == nullptr) return false;
    return wait_for_steps("four peers made no steps", steps_on);
}

void AuthorityRun::let_in_by_another() {
    const PeerProcess* const bea = peer_called(co_organiser);
    if (bea == nullptr || start_person(her_guest, {}, bea->directory()) == nullptr) return;
    if (!wait_for_steps("a co-organiser's guest made no steps", steps_on)) return;
    const auto members = command({"members", "--json"});
    if (!members) return;
    const nlohmann::json told = nlohmann::json::parse(*members);
    for (const nlohmann::json& row : told.at("members"))
        if (row.at("name") == her_guest && row.at("let_in_by") == co_organiser) return;
    fail("the organiser does not see whom a co-organiser let in: " + *members);
}

void AuthorityRun::leap_clocks() {
    double slowest = 0;
    for (const char* who : {"organiser", "ben"})
        for (const long seconds : {leap_s, -leap_s}) {
            set_clock(who, seconds);
            const double until = steady_s() + leap_lasts_s;
            while (steady_s() < until) {
                poll();
                std::this_thread::sleep_for(authority_glance);
            }
            set_clock(who, 0);
            const double right = steady_s();
            if (!wait_for_steps(
                    fmt::format("after the clock of {} was wrong not all made steps", who),
                    steps_on))
                return;
            slowest = std::max(slowest, steady_s() - right);
        }
    told_["steps_again_after_leap_s"] = slowest;
}

void AuthorityRun::use_a_key_twice() {
    const PeerProcess* const ana = peer_called("ana");
    const std::string copy = folder() + "/ana-copy";
    std::error_code error;
    fs::create_directories(copy, error);
    for (const char* file : {"identity.key", admission::token_file})
        fs::copy_file(ana->directory() + "/" + file, copy + "/" + file, error);
    auto second = PeerProcess::start(program(), {"join", string_of("ana")}, folder(), "ana-copy");
    if (!second) return fail(second.error().message());
    peers_.push_back(*std::move(second));
    (void)wait_for(admission_begin_timeout_s, "one key at two places was not told to both", [&] {
        return told_twice_.contains("ana") && told_twice_.contains("ana-copy");
    });
    PeerProcess& ended = *peers_.back();
    ended.process().send(SIGKILL);
    (void)ended.process().wait_for(admission_refusal_timeout_s);
    forget(ended);
    (void)wait_for_steps("not all made steps after one key was used twice", steps_on);
}

// The co-organiser signs for a guest by herself, with the right that she was given.
void AuthorityRun::refuse_her_guest() {
    const std::string hers = folder() + "/" + co_organiser;
    const auto identity = security::load_or_create_identity(hers);
    std::ifstream file(hers + "/" + admission::token_file, std::ios::binary);
    const std::string token{std::istreambuf_iterator<char>(file), {}};
    const auto admitted = wire::decode<admission::Admitted>(as_bytes(token));
    if (!identity || !admitted || !admitted->delegation)
        return fail("the co-organiser's folder holds no right to let people in");
    const std::string directory = folder() + "/mallory";
    auto guest = security::load_or_create_identity(directory);
    if (!guest) return fail(guest.error().message());
    const security::IdentitySigner signer(identity->identity());
    admission::Admitted own;
    own.token = admission::encode_token(
        *admission::issue_token(signer,
                                admitted->delegation->run,
                                {.subject = "mallory", .holder = guest->identity().id()},
                                wall_clock_s() - 3600,
                                admitted->delegation));
    const Bytes bytes = wire::encode(own);
    write_file(directory + "/" + admission::token_file, as_text(bytes));
    {
        const auto unlocked = *std::move(guest);  // the process takes it
    }
    auto process =
        PeerProcess::start(program(), {"join", organiser().join_string()}, folder(), "mallory");
    if (!process) return fail(process.error().message());
    const bool ended = (*process)->process().wait_for(admission_refusal_timeout_s);
    const std::string said = (*process)->last_error();
    told_["guest_of_a_revoked_organiser"] = said;
    if (!ended || (*process)->process().end()->exit_code == 0 ||
        said.find(co_organiser) == std::string::npos)
        fail("somebody whom a revoked co-organiser let in was not refused: " + said);
}

void AuthorityRun::revoke_the_co_organiser() {
    PeerProcess* const bea = peer_called(co_organiser);
    if (bea == nullptr || !command({"revoke", co_organiser})) return;
    if (!wait_for(admission_refusal_timeout_s, "the revoked co-organiser did not end", [bea] {
            return !bea->process().running();
        }))
        return;
    forget(*bea);
    if (!wait_for_steps("those whom she had let in did not go on", steps_on)) return;
    refuse_her_guest();
    PeerProcess* const guest = peer_called(her_guest);
    if (guest == nullptr || !command({"revoke", her_guest})) return;
    (void)wait_for(admission_refusal_timeout_s, "her guest, revoked, did not end", [guest] {
        return !guest->process().running();
    });
    forget(*guest);
}

void AuthorityRun::come_back(const std::vector<std::string>& words, const std::string& how) {
    organiser().process().send(SIGINT);
    if (!organiser().process().wait_for(admission_refusal_timeout_s))
        return fail("the organiser did not leave");
    if (const Ok again = organiser().restart(words); !again) return fail(again.error().message());
    const double began = steady_s();
    if (!wait_for_steps("the organiser did not come back by " + how, steps_on)) return;
    told_["organiser_back_by_" + how + "_s"] = steady_s() - began;
    if (start_person("guest-" + how) == nullptr) return;
    (void)wait_for_steps("whom the organiser let in after it came back made no steps", steps_on);
}

// All make the same steps from now on, and none alone. A peer that was cut off for as long as the
// quorum waits may have gone on by itself meanwhile: that branch ends where they meet.
void AuthorityRun::check_one_branch() {
    poll();
    std::map<const PeerProcess*, std::size_t> made;
    for (const auto& peer : peers_) made[peer.get()] = peer->steps().size();
    if (!wait_for_steps("not all went on after the organiser came back", steps_on)) return;
    if (!wait_for(admission_begin_timeout_s, "not all had a part in one step", [this] {
            return organiser().steps().back().members == peers_.size();
        }))
        return;
    std::map<std::uint64_t, std::string> hashes;
    for (const auto& peer : peers_)
        if (const auto differing = peer->differing_steps(made[peer.get()], hashes);
            !differing.empty())
            fail(fmt::format("{} made step {} another way", peer->name(), differing.front()));
}

void AuthorityRun::run() {
    if (!start_run()) return;
    let_in_by_another();
    if (good()) leap_clocks();
    if (good()) use_a_key_twice();
    if (good()) revoke_the_co_organiser();
    if (good()) come_back({"join", organiser().directory()}, "join");
    if (good()) come_back({"host", "--resume", organiser().directory()}, "resume");
    if (good()) check_one_branch();
}

}  // namespace dedloc::lab
