// InvitedRun: an organiser and people whom it lets in, as real processes on this machine. What goes
// wrong is noted as a sentence; the caller goes on or not.
//
// Thread: one. Every wait is bounded.

#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/process/peer_process.h"

namespace dedloc::lab {

inline constexpr double admission_begin_timeout_s = 60;
inline constexpr double admission_refusal_timeout_s = 45;

class InvitedRun {
  public:
    InvitedRun(std::string program, std::string folder)
        : program_(std::move(program)), folder_(std::move(folder)) {}
    virtual ~InvitedRun() = default;

    bool good() const { return problems_.empty(); }
    const std::vector<std::string>& problems() const { return problems_; }

  protected:
    void fail(std::string sentence) { problems_.push_back(std::move(sentence)); }
    // Reads what all logs say since the last look.
    void poll();
    virtual void on_event(const PeerProcess& peer, const events::Event& event) = 0;
    bool wait_for(double seconds, const std::string& what, const std::function<bool()>& done);
    // All make so many more steps.
    bool wait_for_steps(const std::string& what, std::uint64_t steps);
    // A command of the organiser's, or of another's in that folder; what it printed.
    std::optional<std::string> command(std::vector<std::string> words,
                                       const std::string& directory = {});
    // The organiser is peers_.front().
    bool start_organiser(PeerPlace place = {});
    // A person, invited with `options` from `directory`: the organiser's, if it is empty.
    PeerProcess* start_person(const std::string& name,
                              std::vector<std::string> options = {},
                              const std::string& directory = {},
                              PeerPlace place = {});
    void forget(const PeerProcess& peer);
    PeerProcess& organiser() { return *peers_.front(); }
    const std::string& program() const { return program_; }
    const std::string& folder() const { return folder_; }
    // With which somebody was invited.
    const std::string& string_of(const std::string& name) { return strings_[name]; }

    std::vector<std::unique_ptr<PeerProcess>> peers_;

  private:
    std::string program_;
    std::string folder_;
    std::map<std::string, std::string> strings_;
    std::vector<std::string> problems_;
};

double steady_s();
std::string content_of_file(const std::string& path);

}  // namespace dedloc::lab
