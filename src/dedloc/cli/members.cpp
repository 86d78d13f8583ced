// dedloc members: whom the organiser on this machine has invited, or has met after others let them
// in, what came of it, and who is revoked. Names and devices stand in its book, samples in
// certificates; its peer need not run.

#include <map>
#include <nlohmann/json.hpp>

#include "dedloc/base/columns.h"
#include "dedloc/base/printable.h"
#include "dedloc/cli/commands.h"
#include "dedloc/cli/organiser_commands.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"

namespace dedloc::cli {
namespace {

constexpr std::size_t name_columns = 24;

struct MemberRow {
    std::string name;
    std::size_t devices = 0;
    std::size_t invitations_open = 0;
    double samples = 0;
    WallSeconds last_seen = 0;  // 0: never in a step
    std::string let_in_by{};    // another organiser
    bool organises = false;
    bool revoked = false;
};

std::vector<MemberRow> rows_of(const admission::InviteBook& book,
                               const monitor::Participation& report) {
    std::map<std::string, const monitor::PersonReport*> seen;
    for (const monitor::PersonReport& person : report.persons) seen[person.name] = &person;
    std::vector<MemberRow> rows;
    for (const auto& [name, person] : book.people()) {
        MemberRow row{.name = name,
                      .devices = person.devices(),
                      .invitations_open = person.codes.size() - person.redeemed(),
                      .let_in_by = person.let_in_by,
                      .organises = person.organises,
                      .revoked = person.revoked};
        if (const auto found = seen.find(name); found != seen.end()) {
            row.samples = found->second->samples;
            row.last_seen = found->second->last_seen;
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

std::string age(WallSeconds then, WallSeconds now) {
    return then == 0 ? "never" : admission::duration_in_words(now - then) + " ago";
}

void say_rows(const std::vector<MemberRow>& rows, WallSeconds now) {
    peer::say(stdout,
              "{}{:>8}{:>9}{:>14}{:>16}\n",
              base::left_in("person", name_columns),
              "devices",
              "invited",
              "samples",
              "seen");
    for (const MemberRow& row : rows)
        peer::say(stdout,
                  "{}{:>8}{:>9}{:>14.0f}{:>16}{}{}{}\n",
                  base::left_in(base::printable_columns(row.name), name_columns),
                  row.devices,
                  row.invitations_open,
                  row.samples,
                  age(row.last_seen, now),
                  row.organises ? "  organises" : "",
                  row.revoked ? "  revoked" : "",
                  row.let_in_by.empty()
                      ? ""
                      : "  let in by " + base::printable_columns(row.let_in_by, name_columns));
}

}  // namespace

int run_members(const MembersOptions& options) {
    auto peer = organiser_folder(options.directory);
    if (!peer) return peer::report(peer.failure());
    const auto book = read_book(peer->path, peer->run);
    if (!book) return peer::report(peer::failure(book.error()));
    // Before the first step there is no history.
    monitor::Participation participation;
    if (const auto history = monitor::read_history(peer->path))
        participation = monitor::participation_of(history->steps, history->persons);
    const std::vector<MemberRow> rows = rows_of(*book, participation);
    if (!options.json) {
        say_rows(rows, peer::wall_seconds());
        return 0;
    }
    nlohmann::ordered_json json{{"run", peer->run_name}};
    json["members"] = nlohmann::ordered_json::array();
    for (const MemberRow& row : rows)
        json["members"].push_back({{"name", row.name},
                                   {"devices", row.devices},
                                   {"invitations_open", row.invitations_open},
                                   {"samples", row.samples},
                                   {"last_seen", row.last_seen},
                                   {"organises", row.organises},
                                   {"let_in_by", row.let_in_by},
                                   {"revoked", row.revoked}});
    peer::say(stdout, "{}\n", monitor::json_line(json));
    return 0;
}

}  // namespace dedloc::cli
