#include "dedloc/audit/audit.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>

#include "dedloc/audit/chain_book.h"
#include "dedloc/audit/event_names.h"
#include "dedloc/base/columns.h"
#include "dedloc/base/file.h"
#include "dedloc/base/printable.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/replica/certificate_log.h"
#include "dedloc/security/identity.h"

namespace dedloc::audit {
namespace {

namespace fs = std::filesystem;

constexpr double rounding = 1e-6;  // of sums of fractions
constexpr std::size_t audit_name_columns = 16;

// Samples that are in on the other chain and not in on the winning one. What was committed before
// the winner's `first_step`, where it was resumed or its logs begin, is in the state it began from.
double orphaned(const SampleAccounts& winner,
                const std::vector<const Link*>& loser,
                const std::set<Digest>& in_winner,
                std::uint64_t first_step) {
    double samples = 0;
    for (const Link* link : loser) {
        if (!link->plan || in_winner.contains(link->digest)) continue;
        if (link->decision.instance.step < first_step) continue;
        const consensus::RoundPlan& plan = *link->plan;
        for (std::size_t i = 0; i < plan.members.size(); ++i) {
            double in = 0;
            for (std::size_t p = 0; p < plan.parts.size() && p < link->decision.parts.size(); ++p)
                if (link->decision.parts[p].includes(i))
                    in += consensus::included_samples(plan.members[i].input,
                                                      plan.parts[p].range(),
                                                      consensus::vector_count(plan));
            const consensus::ElementRange moved = consensus::moved_range(plan);
            const auto kept = [&](const consensus::CounterRange& of) {
                return winner.mass(plan.members[i].peer, of, moved);
            };
            const consensus::MemberInput& input = plan.members[i].input;
            samples += std::max(0.0, in - kept(input.fresh) - kept(input.carried));
        }
    }
    return samples;
}

std::uint64_t vector_count_of(const ChainBook& book) {
    for (const auto& [digest, link] : book.links())
        if (link.plan) return consensus::vector_count(*link.plan);
    return 0;
}

void add_accounts(AuditReport& report,
                  const SampleAccounts& accounts,
                  const AuditOptions& options) {
    report.peers = accounts.accounts();
    for (const auto& [peer, account] : report.peers) {
        report.samples_committed += account.in;
        const double lost = account.left_out + account.skipped;
        (options.killed.contains(peer) ? report.samples_unfinished : report.samples_lost) += lost;
        report.samples_unfinished += account.unfinished;
    }
    if (report.samples_lost < rounding) report.samples_lost = 0;
}

// The steps before the one at which `chain` was resumed, oldest first: of a chain that came to that
// step, of several the best.
std::vector<const Link*> before_resume(const ChainBook& book,
                                       const std::vector<Digest>& tips,
                                       const std::vector<const Link*>& chain) {
    const consensus::Decision& first = chain.front()->decision;
    const std::uint64_t resumed_at = first.instance.step;
    if (first.kind != consensus::DecisionKind::genesis || resumed_at == 0) return {};
    for (const Digest& tip : tips) {
        std::vector<const Link*> earlier = book.chain(tip);
        if (earlier.front() == chain.front() || earlier.front()->decision.run != first.run)
            continue;
        std::erase_if(earlier, [resumed_at](const Link* link) {
            return link->decision.instance.step >= resumed_at;
        });
        const bool reaches = std::ranges::any_of(earlier, [resumed_at](const Link* link) {
            return link->plan && link->decision.instance.step + 1 == resumed_at;
        });
        if (reaches) return earlier;
    }
    return {};
}

// Adds the peers whose samples are in the states that the winner was resumed from. What is missing
// there was lost or carried before, and is not asked for again.
void add_resumed_from(AuditReport& report,
                      const ChainBook& book,
                      const std::vector<Digest>& tips,
                      std::vector<const Link*> chain,
                      std::uint64_t vector_count) {
    for (std::size_t resumed = 0; resumed < tips.size(); ++resumed) {
        chain = before_resume(book, tips, chain);
        if (chain.empty()) return;
        SampleAccounts accounts(vector_count);
        for (const Link* link : chain)
            if (link->plan) accounts.add_commit(link->decision, *link->plan);
        for (const auto& [peer, account] : accounts.accounts()) {
            report.peers[peer].in += account.in;
            report.peers[peer].contributions += account.contributions;
            report.samples_committed += account.in;
        }
    }
}

constexpr std::size_t log_bytes_max = std::size_t{1} << 30;

// The log of one peer, which may have gone on in further files.
Result<PeerLog> read_log(const std::vector<fs::path>& files) {
    PeerLog log{files.front().string(), {}, {}};
    for (const fs::path& path : files) {
        const auto content = base::read_file(path.string(), log_bytes_max);
        if (!content) return Error(ErrorKind::bad_input, content.error().message());
        for (Bytes& certificate : replica::read_certificate_log(base::as_bytes(*content)))
            log.certificates.push_back(std::move(certificate));
    }
    return log;
}

// The files of the log of the peer whose folder this is, oldest first; none if it is no such.
std::vector<fs::path> log_files(const fs::path& folder) {
    std::error_code code;
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder, code))
        names.push_back(entry.path().filename().string());
    std::vector<fs::path> files;
    for (const std::string& name : replica::certificate_files(names))
        files.push_back(folder / name);
    return files;
}

// Files in a path that a user names: those of one peer's log each.
std::vector<std::vector<fs::path>> peers_at(const fs::path& path) {
    std::error_code code;
    if (!fs::is_directory(path, code)) return {{path}};
    if (std::vector<fs::path> own = log_files(path); !own.empty()) return {std::move(own)};
    std::vector<std::vector<fs::path>> peers;
    for (const auto& entry : fs::directory_iterator(path, code))
        if (std::vector<fs::path> files = log_files(entry.path()); !files.empty())
            peers.push_back(std::move(files));
    std::sort(peers.begin(), peers.end());
    return peers;
}

// Peers of whose samples the most are in twice, lost or unfinished, the worst first; nothing where
// all samples of all peers are in.
std::string worst_peers(const AuditReport& report) {
    const auto badness = [](const PeerAccount& account) {
        return std::tuple(account.twice, account.left_out + account.skipped, account.unfinished);
    };
    using Row = std::pair<PeerId, PeerAccount>;
    std::vector<Row> rows;
    for (const auto& [peer, account] : report.peers)
        if (account.twice + account.left_out + account.skipped + account.unfinished > rounding)
            rows.emplace_back(peer, account);
    if (rows.empty()) return {};
    std::ranges::stable_sort(
        rows, [&](const Row& a, const Row& b) { return badness(a.second) > badness(b.second); });
    const std::size_t shown = std::min(rows.size(), audit_rows_max);
    std::string text = fmt::format(
        "of {} of {} peers not every sample is in exactly once{}:\n"
        "  {}  {:>12}{:>12}{:>12}{:>12}{:>12}  peer\n",
        rows.size(),
        report.peers.size(),
        shown < rows.size() ? fmt::format("; the worst {}", shown) : "",
        base::left_in("name", audit_name_columns),
        "in",
        "twice",
        "left out",
        "skipped",
        "unfinished");
    for (std::size_t i = 0; i < shown; ++i) {
        const auto& [peer, account] = rows[i];
        const auto name = report.names.find(peer);
        text += fmt::format(
            "  {}  {:>12.2f}{:>12.2f}{:>12.2f}{:>12.2f}{:>12.2f}  {}\n",
            base::left_in(name == report.names.end() ? "-" : base::printable_columns(name->second),
                          audit_name_columns),
            account.in,
            account.twice,
            account.left_out,
            account.skipped,
            account.unfinished,
            peer.text());
    }
    return text;
}

}  // namespace

AuditReport audit_logs(const std::vector<PeerLog>& logs,
                       const security::Verifier& verifier,
                       const AuditOptions& options) {
    ChainBook book(verifier);
    for (const PeerLog& log : logs)
        for (const Bytes& certificate : log.certificates) (void)book.add(log.name, certificate);
    book.check_chains();
    AuditReport report;
    report.logs = logs.size();
    report.certificates = book.links().size();
    report.commits = book.commits();
    report.aborts = book.aborts();
    report.branches = book.branches();
    report.disagreements = book.disagreements();
    report.problems = book.problems();
    KeptEvidence evidence;
    for (const PeerLog& log : logs) {
        evidence.pieces.insert(log.evidence.pieces.begin(), log.evidence.pieces.end());
        if (log.evidence.run && !evidence.run) evidence.run = log.evidence.run;
    }
    OrderReport orders = audit_orders(book, evidence, verifier);
    report.orders = orders.orders;
    report.orders_proved = orders.proved;
    report.order_words = std::move(orders.words);
    for (std::string& problem : orders.problems) report.problems.push_back(std::move(problem));
    const std::vector<Digest> tips = book.tips();
    const std::uint64_t count = vector_count_of(book);
    std::optional<SampleAccounts> winner;
    std::uint64_t first_step = 0;  // of the winner
    std::set<Digest> in_winner;
    for (const Digest& tip : tips) {
        const auto chain = book.chain(tip);
        SampleAccounts accounts(count);
        for (const Link* link : chain)
            if (link->plan) accounts.add_commit(link->decision, *link->plan);
        double twice = 0;
        for (const auto& [peer, account] : accounts.accounts()) twice += account.twice;
        report.samples_twice = std::max(report.samples_twice, twice);
        for (std::string& words : accounts.twice_in_words(5))
            report.problems.push_back(std::move(words));
        if (winner) {
            report.samples_orphaned += orphaned(*winner, chain, in_winner, first_step);
            continue;
        }
        for (const Link* link : chain) {
            in_winner.insert(link->digest);
            report.steps += link->plan.has_value();
        }
        first_step = chain.front()->decision.instance.step;
        add_accounts(report, accounts, options);
        add_resumed_from(report, book, tips, chain, count);
        winner = std::move(accounts);
    }
    return report;
}

Result<std::vector<PeerLog>> read_logs(const std::vector<std::string>& paths) {
    std::vector<PeerLog> logs;
    for (const std::string& path : paths) {
        const std::vector<std::vector<fs::path>> peers = peers_at(path);
        if (peers.empty())
            return make_error(ErrorKind::bad_input,
                              "{} holds no {}: name a peer's folder, or the folder of several",
                              path,
                              replica::certificates_file);
        for (const std::vector<fs::path>& files : peers) {
            DEDLOC_TRY(PeerLog log, read_log(files));
            add_evidence(files.front().parent_path().string(), log.evidence);
            logs.push_back(std::move(log));
        }
    }
    return logs;
}

Result<AuditReport> audit_folders(const std::vector<std::string>& paths,
                                  const AuditOptions& options) {
    DEDLOC_TRY(const std::vector<PeerLog> logs, read_logs(paths));
    const security::IdentityVerifier verifier;
    AuditReport report = audit_logs(logs, verifier, options);
    for (const PeerLog& log : logs)
        add_names_in_events(fs::path(log.name).parent_path(), report.names);
    return report;
}

std::string to_json(const AuditReport& report) {
    nlohmann::ordered_json json;
    json["logs"] = report.logs;
    json["certificates"] = report.certificates;
    json["commits"] = report.commits;
    json["aborts"] = report.aborts;
    json["branches"] = report.branches;
    json["steps"] = report.steps;
    json["samples_committed"] = report.samples_committed;
    json["samples_twice"] = report.samples_twice;
    json["samples_lost"] = report.samples_lost;
    json["samples_unfinished"] = report.samples_unfinished;
    json["samples_orphaned"] = report.samples_orphaned;
    json["disagreements"] = report.disagreements;
    json["orders"] = report.orders;
    json["orders_proved"] = report.orders_proved;
    json["problems"] = report.problems;
    json["peers"] = nlohmann::ordered_json::object();
    for (const auto& [peer, account] : report.peers) {
        nlohmann::ordered_json& one = json["peers"][peer.text()];
        if (const auto name = report.names.find(peer); name != report.names.end())
            one["name"] = name->second;
        one["contributions"] = account.contributions;
        one["in"] = account.in;
        one["twice"] = account.twice;
        one["left_out"] = account.left_out;
        one["skipped"] = account.skipped;
        one["unfinished"] = account.unfinished;
    }
    return monitor::json_line(json);
}

std::string to_text(const AuditReport& report) {
    std::string text = fmt::format(
        "{} logs, {} certificates: {} commits, {} aborts, {} branches\n"
        "winning chain: {} steps, {:.0f} samples of {} peers\n"
        "samples twice {:.2f}, lost {:.2f}, unfinished {:.2f}, on losing branches {:.2f}\n",
        report.logs,
        report.certificates,
        report.commits,
        report.aborts,
        report.branches,
        report.steps,
        report.samples_committed,
        report.peers.size(),
        report.samples_twice,
        report.samples_lost,
        report.samples_unfinished,
        report.samples_orphaned);
    for (const std::string& words : report.order_words) text += "  " + words + "\n";
    if (report.orders > 0)
        text += fmt::format("{} of {} orders are proved by evidence on disk\n",
                            report.orders_proved,
                            report.orders);
    text += worst_peers(report);
    for (const std::string& problem : report.problems) text += "  ! " + problem + "\n";
    if (!report.clean()) return text + "THE RUN'S PROMISES ARE BROKEN\n";
    if (!report.loses_more_than(0)) return text + "everything holds\n";
    return text + fmt::format(
                      "nothing is in twice, nobody disagrees; {:.2f} samples are lost: "
                      "expected only of peers that were killed (--killed ID) or slept\n",
                      report.samples_lost);
}

}  // namespace dedloc::audit
