// AuthorityRun: who has a say in an invited run, in real processes. A co-organiser lets somebody
// in; clocks of the organiser and of a member leap by a day to each side for ten seconds; a peer's
// folder is copied and both copies take part; the co-organiser is revoked and signs on by herself;
// the organiser comes back by `join` and by `host --resume` beside the run that went on.
//
// Thread: one. Cost: six processes, some two minutes.

#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/process/invited_run.h"

namespace dedloc::lab {

class AuthorityRun final : public InvitedRun {
  public:
    using InvitedRun::InvitedRun;

    void run();
    nlohmann::ordered_json result() const { return told_; }

  private:
    void on_event(const PeerProcess& peer, const events::Event& event) override;
    PeerPlace with_clock(const std::string& name) const;
    void set_clock(const std::string& name, long seconds) const;
    PeerProcess* peer_called(const std::string& name);
    bool start_run();
    void let_in_by_another();
    void leap_clocks();
    void use_a_key_twice();
    void revoke_the_co_organiser();
    void refuse_her_guest();
    void come_back(const std::vector<std::string>& words, const std::string& how);
    void check_one_branch();

    std::set<std::string> told_twice_;  // peers that heard that their key is used twice
    nlohmann::ordered_json told_;
};

}  // namespace dedloc::lab
