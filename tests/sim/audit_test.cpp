// The audit must find every mistake that is put into a chain by hand, and nothing in a sound one.

#include "dedloc/audit/audit.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

#include "dedloc/audit/event_names.h"
#include "dedloc/monitor/event_log.h"

#include "tests/common/temporary_folder.h"
#include "tests/sim/hand_made_chain.h"

namespace dedloc::lab {
namespace {

using namespace audit;

AuditReport audit_of(const std::vector<const HandMadeChain*>& chains,
                     const AuditOptions& options = {}) {
    const security::ToyVerifier verifier;
    std::vector<PeerLog> logs;
    for (const HandMadeChain* chain : chains) logs.push_back({"log", chain->certificates()});
    return audit_logs(logs, verifier, options);
}

TEST(Audit, a_sound_chain_is_clean) {
    HandMadeChain chain;
    chain.commit({{0, fresh(0, 10)}, {1, fresh(0, 20)}});
    chain.abort();
    chain.commit({{0, fresh(10, 16)}, {1, fresh(20, 30)}});
    const AuditReport report = audit_of({&chain, &chain});
    EXPECT_TRUE(report.clean()) << to_text(report);
    EXPECT_EQ(report.logs, 2u);
    EXPECT_EQ(report.certificates, 4u);
    EXPECT_EQ(report.commits, 2u);
    EXPECT_EQ(report.aborts, 1u);
    EXPECT_DOUBLE_EQ(report.samples_committed, 46);
    EXPECT_DOUBLE_EQ(report.samples_lost, 0);
}

TEST(Audit, a_sample_in_two_steps_is_counted_twice) {
    HandMadeChain chain;
    chain.commit({{0, fresh(0, 10)}});
    chain.commit({{0, fresh(8, 12)}});
    const AuditReport report = audit_of({&chain});
    EXPECT_FALSE(report.clean());
    EXPECT_DOUBLE_EQ(report.samples_twice, 2);
}

TEST(SampleAccounts, tell_what_is_in_on_a_range) {
    HandMadeChain chain;
    chain.commit({{0, fresh(0, 8), true, false}});
    const security::ToyVerifier verifier;
    ChainBook book(verifier);
    for (const Bytes& certificate : chain.certificates()) book.add("log", certificate);
    SampleAccounts accounts(hand_elements);
    for (const Link* link : book.chain(book.tips().front()))
        if (link->plan) accounts.add_commit(link->decision, *link->plan);
    EXPECT_DOUBLE_EQ(accounts.mass(chain.peer(0), {0, 8}), 4);
    EXPECT_DOUBLE_EQ(accounts.mass(chain.peer(0), {0, 8}, consensus::ElementRange{0, 4}), 4);
    EXPECT_DOUBLE_EQ(accounts.mass(chain.peer(0), {0, 8}, consensus::ElementRange{2, 4}), 2);
    EXPECT_DOUBLE_EQ(accounts.mass(chain.peer(0), {4, 8}, consensus::ElementRange{4, 4}), 0);
}

TEST(Audit, a_carried_range_that_was_in_already_is_counted_twice_by_its_fraction) {
    HandMadeChain chain;
    chain.commit({{0, fresh(0, 8), true, false}});
    // Elements 4..8 were left out; 2..6 are carried: 2..4 are in twice, 6..8 are lost.
    chain.commit({{0, fresh_and_carried(8, 16, {0, 8}, {2, 4})}});
    chain.commit({{0, fresh(16, 18)}});
    const AuditReport report = audit_of({&chain});
    EXPECT_DOUBLE_EQ(report.samples_twice, 8 * 2.0 / 8);
    EXPECT_DOUBLE_EQ(report.samples_lost, 8 * 2.0 / 8);
}

TEST(Audit, what_is_left_out_and_carried_in_the_next_step_is_not_lost) {
    HandMadeChain chain;
    chain.commit({{0, fresh(0, 8), true, false}, {1, fresh(0, 4)}});
    chain.commit({{0, fresh_and_carried(8, 16, {0, 8}, {4, 4})}, {1, fresh(4, 8)}});
    const AuditReport report = audit_of({&chain});
    EXPECT_TRUE(report.clean()) << to_text(report);
    EXPECT_DOUBLE_EQ(report.samples_lost, 0);
    EXPECT_DOUBLE_EQ(report.samples_committed, 24);
}

TEST(Audit, gaps_are_lost_and_last_contributions_unfinished) {
    HandMadeChain chain;
    chain.commit({{0, fresh(0, 10)}, {1, fresh(0, 10)}});
    chain.commit({{0, fresh(15, 20)}, {1, fresh(10, 20), true, false}});
    AuditReport report = audit_of({&chain});
    EXPECT_DOUBLE_EQ(report.samples_lost, 5);
    EXPECT_DOUBLE_EQ(report.samples_unfinished, 5);
    AuditOptions options;
    options.killed.insert(chain.peer(0));
    report = audit_of({&chain}, options);
    EXPECT_DOUBLE_EQ(report.samples_lost, 0);
    EXPECT_DOUBLE_EQ(report.samples_unfinished, 10);
}

TEST(Audit, who_lost_samples_is_not_told_that_everything_holds) {
    HandMadeChain chain;
    chain.commit({{0, fresh(0, 10)}});
    chain.commit({{0, fresh(15, 20)}});
    AuditReport report = audit_of({&chain});
    EXPECT_TRUE(report.clean());
    EXPECT_EQ(to_text(report).find("everything holds"), std::string::npos) << to_text(report);
    EXPECT_NE(to_text(report).find("5.00 samples are lost"), std::string::npos) << to_text(report);
    EXPECT_TRUE(report.loses_more_than(0));
    EXPECT_TRUE(report.loses_more_than(4.9));
    EXPECT_FALSE(report.loses_more_than(5));
    AuditOptions options;
    options.killed.insert(chain.peer(0));
    report = audit_of({&chain}, options);
    EXPECT_NE(to_text(report).find("everything holds"), std::string::npos) << to_text(report);
}

std::size_t lines_with(const std::string& text, std::string_view word) {
    std::size_t count = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (line.find(word) != std::string::npos) ++count;
    return count;
}

TEST(Audit, lists_the_peers_whose_samples_are_not_in_the_worst_first) {
    HandMadeChain chain(14);
    // In turn, as a chain made by hand has at most eight members in a step. The first twelve skip
    // 1, 2, … samples; the others none.
    for (std::size_t first : {0u, 7u}) {
        std::vector<HandMember> before;
        std::vector<HandMember> after;
        for (std::size_t i = first; i < first + 7; ++i) {
            before.push_back({i, fresh(0, 10)});
            after.push_back({i, i < 12 ? fresh(11 + i, 50) : fresh(10, 50)});
        }
        chain.commit(before);
        chain.commit(after);
    }
    AuditReport report = audit_of({&chain});
    report.names[chain.peer(11)] = "w\x1b[2Jorst";
    const std::string text = to_text(report);
    EXPECT_NE(text.find("of 12 of 14 peers"), std::string::npos) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    std::size_t at = 0;
    for (std::size_t i = 11; i >= 2; --i) {
        const std::size_t next = text.find(chain.peer(i).text());
        ASSERT_NE(next, std::string::npos) << i << "\n" << text;
        EXPECT_GT(next, at) << text;
        at = next;
    }
    EXPECT_EQ(text.find(chain.peer(1).text()), std::string::npos) << "ten are enough";
    EXPECT_EQ(lines_with(text, "w?[2Jorst"), 1u) << text;
    const auto json = nlohmann::json::parse(to_json(report));
    EXPECT_EQ(json["peers"][chain.peer(11).text()]["skipped"], 12);
    EXPECT_TRUE(json["peers"][chain.peer(11).text()].contains("name"));
    EXPECT_FALSE(json["peers"][chain.peer(1).text()].contains("name"));
}

TEST(Audit, lists_nobody_where_all_samples_are_in) {
    HandMadeChain chain;
    chain.commit({{0, fresh(0, 10)}});
    chain.commit({{0, fresh(10, 20)}});
    const AuditReport report = audit_of({&chain});
    EXPECT_EQ(to_text(report).find(chain.peer(0).text()), std::string::npos) << to_text(report);
}

TEST(Audit, names_are_those_that_event_logs_tell_of_who_left) {
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder);
    const HandMadeChain chain(4);
    const auto line = [&](events::Any what, std::size_t who, std::string text) {
        return monitor::to_json_line({.time = 1,
                                      .peer = chain.peer(who),
                                      .step = 1,
                                      .text = std::move(text),
                                      .what = std::move(what)}) +
               "\n";
    };
    std::ofstream(folder->path() + "/events.1.jsonl", std::ios::binary)
        << line(events::PeerLost{}, 0, "old is gone without a word");
    std::ofstream(folder->path() + "/events.jsonl", std::ios::binary)
        << line(events::PeerLost{}, 0, "anna is gone without a word") << "not JSON, \"peer_lost\n"
        << line(events::PeerLeft{}, 1, "who left left")
        << line(events::PeerLeft{}, 2, chain.peer(2).short_text() + " left")
        << line(events::PeerJoined{}, 3, "somebody left") << "{\"kind\":\"peer_le";
    std::map<PeerId, std::string> names;
    add_names_in_events(folder->path(), names);
    add_names_in_events(folder->path() + "/nowhere", names);
    EXPECT_EQ(
        names,
        (std::map<PeerId, std::string>{{chain.peer(0), "anna"}, {chain.peer(1), "who left"}}));
}

TEST(Audit, two_decisions_of_one_step_are_a_disagreement) {
    HandMadeChain one;
    HandMadeChain other;
    one.commit({{0, fresh(0, 10)}});
    other.commit({{0, fresh(0, 11)}});
    const AuditReport report = audit_of({&one, &other});
    EXPECT_EQ(report.disagreements, 1u);
    EXPECT_FALSE(report.clean());
}

TEST(Audit, a_run_resumed_from_an_older_checkpoint_is_clean) {
    HandMadeChain old;
    old.commit({{0, fresh(0, 10)}});
    HandMadeChain resumed = old;
    old.commit({{0, fresh(10, 20)}});
    old.commit({{0, fresh(20, 30)}});
    resumed.resume();
    resumed.abort();
    resumed.commit({{0, fresh(100, 120)}});
    resumed.commit({{0, fresh(120, 140)}});
    const AuditReport report = audit_of({&old, &resumed});
    EXPECT_TRUE(report.clean()) << to_text(report);
    EXPECT_DOUBLE_EQ(report.samples_committed, 50) << "those before it are in its state";
    EXPECT_DOUBLE_EQ(report.peers.at(old.peer(0)).in, 50);
    EXPECT_DOUBLE_EQ(report.samples_lost, 0);
    EXPECT_DOUBLE_EQ(report.samples_orphaned, 20);  // those after the checkpoint
}

TEST(Audit, two_decisions_that_follow_one_certificate_are_found_in_a_resumed_run_too) {
    HandMadeChain old;
    old.commit({{0, fresh(0, 10)}});
    HandMadeChain one = old;
    one.resume();
    one.commit({{0, fresh(10, 20)}});
    HandMadeChain other = one;
    one.commit({{0, fresh(20, 30)}});
    other.commit({{0, fresh(20, 31)}});
    other.commit({{0, fresh(31, 40)}});
    const AuditReport report = audit_of({&old, &one, &other});
    EXPECT_EQ(report.disagreements, 1u);
    EXPECT_FALSE(report.clean());
}

TEST(Audit, what_the_first_kept_commit_carries_is_not_lost) {
    HandMadeChain chain;
    chain.commit({{0, fresh(0, 8), true, false}, {1, fresh(0, 4)}});
    chain.commit({{0, fresh_and_carried(8, 16, {0, 8}, {4, 4})}, {1, fresh(4, 8), true, false}});
    chain.commit({{0, fresh(16, 24)}, {1, fresh(8, 12)}});
    std::vector<Bytes> kept = chain.certificates();
    kept.erase(kept.begin(), kept.begin() + 2);  // the start and the first commit
    const security::ToyVerifier verifier;
    const AuditReport report = audit_logs({{"log", kept}}, verifier);
    EXPECT_TRUE(report.clean()) << to_text(report);
    EXPECT_DOUBLE_EQ(report.samples_lost, 2);  // of the other, who did not carry them
}

TEST(Audit, a_minority_of_votes_is_a_problem) {
    HandMadeChain chain(5);
    chain.commit({{0, fresh(0, 10)}}, {}, 2);
    EXPECT_FALSE(audit_of({&chain}).clean());
}

TEST(Audit, bytes_that_are_no_certificate_are_a_problem) {
    const security::ToyVerifier verifier;
    const AuditReport report = audit_logs({{"log", {Bytes{1, 2, 3}}}}, verifier);
    EXPECT_FALSE(report.clean());
}

TEST(Audit, a_log_of_several_files_is_one_peers) {
    const auto folder =
        std::filesystem::temp_directory_path() / fmt::format("dedloc-audit-{}", ::getpid());
    const auto write = [&](const char* peer, const char* name, ByteView certificate) {
        std::filesystem::create_directories(folder / peer);
        Bytes bytes;
        base::put_u32_le(bytes, static_cast<std::uint32_t>(certificate.size()));
        base::append(bytes, certificate);
        std::ofstream(folder / peer / name, std::ios::binary) << as_text(bytes);
    };
    write("a", "certificates.10.log", Bytes{3});
    write("a", "certificates.9.log", Bytes{2});
    write("b", "certificates.log", Bytes{1});
    std::filesystem::create_directories(folder / "checkpoints");
    const auto logs = read_logs({folder.string()});
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(logs);
    ASSERT_EQ(logs->size(), 2u);
    EXPECT_EQ((*logs)[0].certificates, (std::vector<Bytes>{{2}, {3}}));
    EXPECT_EQ((*logs)[1].certificates, (std::vector<Bytes>{{1}}));
}

TEST(Audit, a_folder_without_logs_says_what_is_missing) {
    const auto report = audit_folders({"/nonexistent"});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind(), ErrorKind::bad_input);
}

}  // namespace
}  // namespace dedloc::lab
