#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <future>
#include <gtest/gtest.h>
#include <set>
#include <sstream>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <termios.h>
#include <unistd.h>

#include "dedloc/base/log.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/monitor/run_view.h"
#include "dedloc/monitor/screen.h"
#include "dedloc/monitor/terminal_view.h"
#include "dedloc/security/identity.h"

namespace dedloc::monitor {
namespace {

using events::Event;
using membership::Phase;
using membership::Role;
using membership::Status;

PeerId id(std::uint8_t number) {
    const Bytes seed(security::ed25519_seed_bytes, number);
    return security::Identity::from_seed(seed).value().id();
}

Digest digest(std::uint8_t number) {
    Digest made;
    made.bytes.fill(number);
    return made;
}

Status status(std::uint8_t number, std::string name, std::uint64_t step, Phase phase) {
    Status made;
    made.peer = id(number);
    made.name = std::move(name);
    made.step = step;
    made.phase = phase;
    made.branch = digest(1);
    made.state_hash = digest(static_cast<std::uint8_t>(step));
    made.samples = 100;
    made.samples_per_s = 250;
    made.loss = 0.5;
    return made;
}

Event event(double time, events::Any what, std::string text, std::uint64_t step = 0) {
    return {.time = time, .step = step, .text = std::move(text), .what = std::move(what)};
}

run::RunFile run() {
    run::RunFile made;
    made.name = "demo";
    made.batch.target = 1000;
    made.stop.steps = 400;
    made.stop.accuracy = 0.88;
    return made;
}

RunView busy_view() {
    RunModel model(run(), id(1), 1000);
    for (std::uint64_t step = 1; step <= 142; ++step) {
        events::StepMade made;
        made.loss = 2.3 / (1 + static_cast<double>(step) / 20);
        model.add(event(1000 + static_cast<double>(step) / 2, made, "step made", step));
    }
    std::vector<Status> statuses = {status(1, "host", 142, Phase::computing),
                                    status(2, "peer-2", 142, Phase::averaging),
                                    status(3, "peer-3", 142, Phase::computing),
                                    status(4, "peer-4", 142, Phase::computing)};
    statuses[0].accuracy = 0.876;
    statuses[0].accuracy_step = 140;
    model.update(statuses, 1080);
    statuses.pop_back();
    statuses[2].state_hash = digest(99);
    Status newcomer = status(5, "peer-5", 0, Phase::downloading);
    newcomer.state_hash = {};
    newcomer.samples = 0;
    newcomer.samples_per_s = 0;
    newcomer.progress = 0.4;
    statuses.push_back(newcomer);
    model.add(event(1075, events::PeerJoined{}, "peer-5 joined"));
    model.add(event(1081, events::PeerLost{}, "peer-4 was lost: no answer for 4 s"));
    model.update(statuses, 1083);
    model.update(statuses, 1088);
    return model.view();
}

std::string as_text(const std::vector<Line>& lines) {
    std::string text = "\n";
    for (const Line& line : lines) text += to_text(line, /*colored=*/false) + "\n";
    return text;
}

TEST(TerminalView, shows_a_busy_run) {
    std::string expected = R"(
demo  run @RUN@  4 peers  2 states  yours 33 %                                               1:28
step 142 of 400  ▕███████░░░░░░░░░░░░░░░░░▏ 300 of 1000 samples                        750 samples/s
loss 0.2840 (yours) █▆▅▄▄▃▃▃▂▂▂▂▂▂▂▂▁▁▁▁▁▁▁▁  accuracy 87.6 % at step 140, goal 88.0 %

  peer    role         speed   step  doing              state
* host    trainer      250/s    142  computing 30 %     8e8e8e8e =
  peer-2  trainer      250/s    142  averaging          8e8e8e8e =
  peer-3  trainer      250/s    142  computing 30 %     63636363 differs
  peer-5  trainer          -      -  downloading 40 %   -
  peer-4  trainer          -      -  lost 5 s ago       -

1:15  peer-5 joined
1:21  peer-4 was lost: no answer for 4 s
)";
    const std::string mark = "@RUN@";
    expected.replace(expected.find(mark), mark.size(), run::run_hash(run()).short_hex());
    EXPECT_EQ(as_text(render(busy_view(), 100, 24, {})), expected);
}

TEST(TerminalView, says_whose_line_is_slowest) {
    RunView view = busy_view();
    const auto text = [&view] { return as_text(render(view, 120, 24, {})); };
    EXPECT_EQ(text().find("slowest line"), std::string::npos);  // none is known
    view.peers[0].upload_bytes_per_s = 5e6;
    EXPECT_EQ(text().find("slowest line"), std::string::npos);  // one line has no other beside it
    view.peers[1].upload_bytes_per_s = 1.25e6;
    view.peers[1].download_bytes_per_s = 12.5e6;
    EXPECT_NE(text().find("slowest line: peer-2, 10 Mb/s up"), std::string::npos) << text();
    view.peers[2].download_bytes_per_s = 0.5e6;
    EXPECT_NE(text().find("slowest line: peer-3, 4 Mb/s down"), std::string::npos) << text();
    view.peers[2].is_gone = true;
    EXPECT_NE(text().find("slowest line: peer-2"), std::string::npos);
    view.peers[1].role = membership::Role::relay;
    EXPECT_EQ(text().find("slowest line"), std::string::npos);
}

// The plan of a round that this peer led names whose line it waits for; what others planned it does
// not know, and says what is known of all lines.
TEST(TerminalView, says_whose_line_limits_a_round_that_this_peer_planned) {
    RunModel model(run(), id(1), 1000);
    std::vector<Status> statuses = {status(1, "host", 1, Phase::computing),
                                    status(2, "slow", 1, Phase::computing)};
    for (Status& each : statuses) each.upload_bytes_per_s = 1e6;
    model.update(statuses, 1001);
    model.add(event(1001,
                    events::PlanMade{.predicted_s = 0.31,
                                     .bottleneck = "upload",
                                     .bottleneck_peer = id(2).text(),
                                     .bottleneck_mbit = 8},
                    "planned"));
    const auto drawn = [&model] { return as_text(render(model.view(), 100, 20, {})); };
    EXPECT_EQ(drawn().find("limit:"), std::string::npos) << "the round is not over";
    model.add(event(1002, events::StepMade{}, "step made", 1));
    EXPECT_NE(drawn().find("limit: slow's upload, 8 Mb/s; the round of step 1 was planned to take "
                           "0.31 s"),
              std::string::npos)
        << drawn();
    statuses[1].upload_bytes_per_s = 0;
    model.update(statuses, 1002);
    EXPECT_NE(drawn().find("8 Mb/s (not measured yet);"), std::string::npos) << drawn();
    statuses[1].upload_bytes_per_s = 1e6;
    model.update(statuses, 1003);
    std::uint64_t step = 1;
    for (; step < limit_steps_max; ++step)  // others lead
        model.add(event(1003, events::StepMade{}, "step made", step + 1));
    EXPECT_NE(drawn().find("limit:"), std::string::npos);
    model.add(event(1004, events::StepMade{}, "step made", step + 1));
    EXPECT_EQ(drawn().find("limit:"), std::string::npos);
    EXPECT_NE(drawn().find("slowest line: host, 8 Mb/s up"), std::string::npos) << drawn();
}

TEST(TerminalView, names_who_is_banned_for_what_and_marks_a_banned_peers_row) {
    RunModel model(run(), id(1), 1000);
    const std::vector<Status> statuses = {status(1, "host", 90, Phase::computing),
                                          status(2, "mallory", 90, Phase::computing)};
    Event order = event(
        1001,
        events::OrderGiven{
            .order = "banned", .offence = "a wrong gradient", .evidence = std::string(64, 'b')},
        "mallory is banned",
        90);
    order.peer = id(2);
    model.add(order);
    model.update(statuses, 1002);
    const std::string text = as_text(render(model.view(), 100, 20, {}));
    EXPECT_NE(text.find("banned: mallory at step 90: a wrong gradient (evidence bbbbbbbbbbbb)"),
              std::string::npos)
        << text;
    const std::string row = text.substr(text.find("\n  mallory"));
    EXPECT_NE(row.substr(0, row.find('\n', 1)).find("banned"), std::string::npos) << text;
    RunView many = model.view();
    many.bans.resize(12, many.bans.front());
    EXPECT_NE(as_text(render(many, 100, 30, {})).find("10 more are banned"), std::string::npos);
    EXPECT_NE(as_text(render(many, 100, 10, {})).find("12 peers are banned"), std::string::npos);
}

TEST(TerminalView, fits_any_size) {
    RunView view = busy_view();
    for (int i = 0; i < 100; ++i) view.peers.push_back(view.peers[1]);
    view.protection = "protected: 100 peers at work";
    view.bans.assign(5, "banned: mallory at step 90: a wrong gradient (evidence bbbbbbbbbbbb)");
    view.limit = "limit: slow's upload, 8 Mb/s; the newest round was planned to take 0.31 s";
    for (std::size_t width = 1; width < 140; width += 3) {
        for (std::size_t height = 1; height < 60; height += 3) {
            const auto lines = render(view, width, height, {});
            EXPECT_LE(lines.size(), std::max(height, view_height_min));
            for (const Line& line : lines)
                EXPECT_LE(columns(to_text(line, /*colored=*/false)),
                          std::max(width, view_width_min));
        }
    }
    const std::string text = as_text(render(view, 80, 20, {}));
    EXPECT_NE(text.find("more peers"), std::string::npos);
    EXPECT_NE(text.find("peer-4 was lost"), std::string::npos);
}

TEST(TerminalView, has_an_ascii_look) {
    const std::string text = as_text(render(busy_view(), 80, 24, {.unicode = false}));
    for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 127));
    EXPECT_NE(text.find("[#######"), std::string::npos);
}

TEST(TerminalView, an_empty_run_is_drawn_too) {
    const RunModel model(run(), {}, 0);
    EXPECT_NE(as_text(render(model.view(), 80, 24, {})).find("not measured yet"),
              std::string::npos);
}

TEST(TerminalView, the_accuracy_stays_when_the_last_who_measured_it_has_gone) {
    RunModel model(run(), id(1), 0);
    std::vector<Status> statuses = {status(1, "host", 9, Phase::computing),
                                    status(2, "peer-2", 9, Phase::computing)};
    statuses[1].accuracy = 0.7;
    statuses[1].accuracy_step = 8;
    model.update(statuses, 1);
    statuses.pop_back();
    model.update(statuses, 2);
    EXPECT_NE(as_text(render(model.view(), 80, 24, {})).find("accuracy 70.0 % at step 8"),
              std::string::npos);
    statuses[0].accuracy = 0.6;
    statuses[0].accuracy_step = 4;
    model.update(statuses, 3);
    EXPECT_NE(as_text(render(model.view(), 80, 24, {})).find("accuracy 70.0 % at step 8"),
              std::string::npos)
        << "an older one does not take its place";
    // A peer that claims a far step is not believed for longer than it is here.
    statuses.push_back(status(3, "peer-3", 9, Phase::computing));
    statuses[1].accuracy = 0.99;
    statuses[1].accuracy_step = 8000;
    model.update(statuses, 4);
    EXPECT_NE(as_text(render(model.view(), 80, 24, {})).find("at step 8000"), std::string::npos);
    statuses.pop_back();
    model.update(statuses, 5);
    EXPECT_NE(as_text(render(model.view(), 80, 24, {})).find("accuracy 60.0 % at step 4"),
              std::string::npos);
}

TEST(TerminalView, who_differs_is_shown_though_not_all_peers_have_room) {
    RunModel model(run(), id(1), 0);
    std::vector<Status> statuses;
    for (std::uint8_t i = 1; i <= 40; ++i)
        statuses.push_back(status(i, fmt::format("a{:02}", i), 7, Phase::computing));
    statuses[4].samples_per_s = 300;
    statuses[39].name = "zz";
    statuses[39].samples_per_s = 1;
    statuses.push_back(status(50, "yy", 7, Phase::computing));  // will be lost
    model.update(statuses, 1);
    EXPECT_EQ(as_text(render(model.view(), 80, 24, {})).find("states"), std::string::npos);
    statuses.pop_back();
    statuses[39].state_hash = digest(99);
    model.update(statuses, 2);
    const std::string text = as_text(render(model.view(), 80, 24, {}));
    for (const char* shown : {"  2 states", "\n* a01 ", "\n  a05 ", "\n  yy ", "\n  zz "})
        EXPECT_NE(text.find(shown), std::string::npos) << shown << text;
}

TEST(TerminalView, losses_that_are_no_numbers_or_huge_are_no_level) {
    RunView view;
    view.losses = {1, std::nan(""), HUGE_VAL, 2};
    EXPECT_NE(as_text(render(view, 80, 24, {})).find("▁█"), std::string::npos);
    view.losses = {1, 1e308, 1e308, 2};
    for (int i = 0; i < 60; ++i) view.losses.push_back(1e308);
    EXPECT_NE(as_text(render(view, 80, 24, {})).find("▁▁▁▁"), std::string::npos);
}

TEST(TerminalView, times_of_events_are_whole_after_an_hour_too) {
    RunModel model(run(), {}, 0);
    model.add(event(3599, events::PeerJoined{}, "peer-2 joined"));
    model.add(event(5025, events::PeerJoined{}, "peer-3 joined"));
    const std::string text = as_text(render(model.view(), 80, 24, {}));
    EXPECT_NE(text.find("\n59:59    peer-2 joined\n1:23:45  peer-3 joined\n"), std::string::npos)
        << text;
}

TEST(TerminalView, a_sentence_goes_on_below_instead_of_losing_its_half) {
    RunModel model(run(), {}, 0);
    const std::string sentence =
        "--max-up is too small, it must be 3.5 at least: one gradient has 52 MB and takes 6.93 min "
        "at 1 Mb/s; raise it, or lend this machine with `dedloc assist`";
    model.add_note(1, sentence, Tone::bad);
    model.add_note(2, std::string(300, 'x') + " end", Tone::bad);
    const std::string text = as_text(render(model.view(), 60, 24, {}));
    EXPECT_NE(text.find("with `dedloc assist`\n"), std::string::npos) << text;
    EXPECT_NE(text.find("xxx~\n"), std::string::npos) << text;
    for (const Line& line : render(model.view(), 60, 24, {}))
        EXPECT_LE(columns(to_text(line, false)), 60u);
}

TEST(TerminalView, letters_of_all_scripts_leave_the_columns_where_they_are) {
    RunModel model(run(), {}, 0);
    const std::string names[] = {"Ra\u00fal",
                                 "\u5f20\u4f1f",
                                 "\u0e2a\u0e21\u0e0a\u0e32\u0e22",
                                 "\u0985\u09a8\u09bf\u09a4\u09be"};
    std::vector<Status> statuses;
    for (std::uint8_t i = 0; i < 4; ++i)
        statuses.push_back(status(static_cast<std::uint8_t>(i + 1), names[i], 7, Phase::computing));
    model.update(statuses, 1);
    std::set<std::size_t> places;
    for (const Line& line : render(model.view(), 80, 24, {})) {
        const std::string text = to_text(line, false);
        const std::size_t role = text.find("trainer");
        if (role != std::string::npos) places.insert(columns(text.substr(0, role)));
    }
    EXPECT_EQ(places.size(), 1u);
    for (const std::string& name : names)
        EXPECT_NE(as_text(render(model.view(), 80, 24, {})).find(name), std::string::npos);
}

TEST(TerminalView, colours_only_when_asked) {
    const Line line{{"good", Ink::green}, {" plain", Ink::plain}};
    EXPECT_EQ(to_text(line, true), "\x1b[32mgood\x1b[0m plain");
    EXPECT_EQ(to_text(line, false), "good plain");
}

TEST(TerminalView, plain_lines_say_everything_once) {
    RunModel model(run(), id(1), 0);
    PlainProgress seen;
    model.add(event(1, events::PeerJoined{}, "peer-2 joined"));
    model.update({status(1, "host", 1, Phase::computing)}, 2);
    const std::vector<std::string> first = {"   0:01  peer-2 joined",
                                            "   0:02  step 1 of 400  loss 0.5000  1 peer  250 "
                                            "samples/s"};
    EXPECT_EQ(plain_lines(model.view(), seen), first);
    EXPECT_TRUE(plain_lines(model.view(), seen).empty());
    model.add(event(1, events::PeerJoined{}, "peer-3 joined"));
    EXPECT_EQ(plain_lines(model.view(), seen).size(), 1u);
}

TEST(TerminalView, plain_lines_go_on_after_a_step_that_was_only_claimed) {
    RunModel model(run(), {}, 0);
    PlainProgress seen;
    model.update({status(1, "liar", std::uint64_t{1} << 60, Phase::computing)}, 1);
    EXPECT_EQ(plain_lines(model.view(), seen).size(), 1u);
    model.update({status(2, "b", 9, Phase::computing), status(3, "c", 9, Phase::computing)}, 2);
    EXPECT_EQ(plain_lines(model.view(), seen).size(), 1u);
    // Somebody who was ahead by one step leaves, and others come there: that was told.
    model.update({status(2, "b", 10, Phase::computing), status(3, "c", 9, Phase::computing)}, 3);
    EXPECT_EQ(plain_lines(model.view(), seen).size(), 1u);
    model.update({status(3, "c", 9, Phase::computing)}, 4);
    model.update({status(3, "c", 10, Phase::computing)}, 5);
    EXPECT_TRUE(plain_lines(model.view(), seen).empty());
}

TEST(RunModel, the_speed_is_that_of_the_last_steps_not_of_computing) {
    RunModel model(run(), {}, 0);
    std::vector<Status> statuses = {status(1, "a", 0, Phase::computing),
                                    status(2, "b", 0, Phase::averaging),
                                    status(3, "c", 0, Phase::computing)};
    Status waiting = status(4, "d", 0, Phase::waiting);
    const auto look = [&](std::uint64_t step, double now, bool with_waiting) {
        std::vector<Status> told = statuses;
        if (with_waiting) told.push_back(waiting);
        for (Status& each : told) {
            each.step = step;
            each.branch_samples = 1000 * static_cast<double>(step);
        }
        model.update(std::move(told), now);
        return model.view().samples_per_s;
    };
    EXPECT_EQ(look(0, 3, false), 750);
    EXPECT_EQ(look(0, 4, true), 750);
    EXPECT_EQ(look(1, 10, true), 750);  // when its first step began is not known
    for (std::uint64_t step = 2; step < 40; ++step)
        EXPECT_EQ(look(step, 10 * static_cast<double>(step), step % 2 == 0), 100) << step;
    EXPECT_EQ(look(39, 399, false), 100);
    // The next one would have been made long ago.
    EXPECT_EQ(look(39, 390 + 110, false), 50);
    // From now on a step takes a second: after ten of them nothing else counts.
    for (std::uint64_t step = 40; step <= 50; ++step)
        look(step, 500 + static_cast<double>(step), false);
    EXPECT_EQ(look(50, 550, false), 1000);
}

// Three compute 250 samples a second each, and a step of 1000 takes ten.
RunModel model_of_a_run_that_waits(std::vector<Status> statuses) {
    RunModel model(run(), {}, 0);
    for (std::uint64_t step = 9; step <= 12; ++step) {
        for (Status& each : statuses) {
            each.step = step;
            each.state_hash = digest(7);
            each.branch_samples = 1000 * static_cast<double>(step);
        }
        model.update(statuses, 10 * static_cast<double>(step));
    }
    return model;
}

TEST(TerminalView, says_the_own_share_and_the_time_to_the_end_where_there_is_room) {
    std::vector<Status> statuses = {status(1, "a", 0, Phase::computing),
                                    status(2, "b", 0, Phase::computing)};
    statuses[0].samples_per_s = 750;
    RunModel model(run(), id(1), 0);
    EXPECT_EQ(model.view().our_share, 0);
    for (std::uint64_t step = 9; step <= 12; ++step) {
        for (Status& each : statuses) {
            each.step = step;
            each.branch_samples = 1000 * static_cast<double>(step);
        }
        model.update(statuses, 10 * static_cast<double>(step));
        if (step == 9) {  // no speed is known yet
            EXPECT_EQ(model.view().seconds_left, 0);
        }
    }
    const RunView view = model.view();
    EXPECT_EQ(view.our_share, 0.75);
    EXPECT_EQ(view.seconds_left, 3880);  // 388 steps of ten seconds
    EXPECT_NE(as_text(render(view, 100, 24, {})).find("  yours 75 %"), std::string::npos);
    EXPECT_NE(as_text(render(view, 100, 24, {})).find("2:00, 1:04:40 to the end\n"),
              std::string::npos);
    EXPECT_EQ(as_text(render(view, 40, 24, {})).find("to the end"), std::string::npos);
}

TEST(TerminalView, says_how_much_of_what_is_computed_arrives_where_there_is_room) {
    const RunModel model = model_of_a_run_that_waits({status(1, "a", 0, Phase::computing),
                                                      status(2, "b", 0, Phase::averaging),
                                                      status(3, "c", 0, Phase::computing)});
    const RunView view = model.view();
    EXPECT_EQ(view.samples_per_s, 100);
    EXPECT_EQ(view.computed_per_s, 750);
    EXPECT_NE(as_text(render(view, 100, 24, {})).find(" 100 of 750 samples/s (13 %)\n"),
              std::string::npos);
    const std::string narrow = as_text(render(view, 80, 24, {}));
    EXPECT_NE(narrow.find("  100 samples/s\n"), std::string::npos) << narrow;
    PlainProgress seen;
    EXPECT_NE(plain_lines(view, seen).back().find("3 peers  100 of 750 samples/s (13 %)"),
              std::string::npos);
}

TEST(TerminalView, a_speed_beyond_belief_hides_nothing) {
    Status liar = status(2, "liar", 0, Phase::computing);
    liar.samples_per_s = 1e300;
    const RunModel model = model_of_a_run_that_waits({status(1, "a", 0, Phase::computing), liar});
    PlainProgress seen;
    EXPECT_TRUE(plain_lines(model.view(), seen).back().ends_with("  2 peers  100 samples/s"));
}

TEST(TerminalView, a_trainer_that_rests_is_said_to_rest) {
    Status helper = status(4, "helper", 0, Phase::waiting);
    helper.role = Role::aggregator;
    const RunModel model = model_of_a_run_that_waits({status(1, "a", 0, Phase::computing),
                                                      status(2, "b", 0, Phase::computing),
                                                      status(3, "slow", 0, Phase::waiting),
                                                      helper});
    EXPECT_EQ(model.view().peers[2].doing, "waiting");
    EXPECT_EQ(model.view().peers[3].doing, "resting");
    for (const std::size_t width : {80u, 100u})
        EXPECT_NE(
            as_text(render(model.view(), width, 24, {})).find("  resting            07070707 =\n"),
            std::string::npos)
            << as_text(render(model.view(), width, 24, {}));
}

TEST(RunModel, one_members_claim_moves_no_step) {
    RunModel model(run(), {}, 0);
    std::vector<Status> statuses = {status(1, "a", 9, Phase::computing),
                                    status(2, "b", 9, Phase::computing),
                                    status(3, "liar", std::uint64_t{1} << 60, Phase::computing)};
    statuses[2].branch_samples = 1e300;
    statuses[2].loss = 1e30;
    statuses[2].samples = std::uint64_t{1} << 62;
    statuses[2].state_hash = digest(66);
    const auto step_of_honest = [&](std::uint64_t step) {
        statuses[0].step = statuses[1].step = step;
        statuses[0].branch_samples = statuses[1].branch_samples = 100 * static_cast<double>(step);
    };
    model.update({statuses[2]}, 1);  // the first that is heard of
    EXPECT_EQ(model.view().step, std::uint64_t{1} << 60);
    step_of_honest(9);
    model.update(statuses, 2);
    EXPECT_EQ(model.view().step, 9u);
    step_of_honest(10);
    model.update(statuses, 3);
    EXPECT_EQ(model.view().step, 10u);
    EXPECT_EQ(model.view().samples_total, 1000);
    EXPECT_FALSE(run().stop.is_met(model.view().step, model.view().samples_total, 0));
    statuses.pop_back();
    step_of_honest(11);
    model.update(statuses, 4);
    const RunView view = model.view();
    EXPECT_EQ(view.step, 11u);
    EXPECT_EQ(view.loss, 0.5);
    EXPECT_EQ(view.losses, (std::vector<double>{0.5, 0.5}));
    // Newcomers and helpers stand nowhere; and when all have gone, the run is where it was.
    Status helper = status(5, "helper", 0, Phase::waiting);
    helper.role = Role::aggregator;
    model.update({status(4, "new", 0, Phase::downloading), helper}, 5);
    EXPECT_EQ(model.view().step, 11u);
}

TEST(RunModel, a_peer_shows_the_loss_that_all_told_and_its_own_as_its_own) {
    RunModel model(run(), id(1), 0);
    std::vector<Status> statuses = {status(1, "us", 9, Phase::computing),
                                    status(2, "b", 9, Phase::computing)};
    statuses[0].loss = 0.9;
    const auto make_step = [&](std::uint64_t step) {
        events::StepMade made;
        made.loss = 0.95;
        model.add(event(static_cast<double>(step), made, "step made", step));
        statuses[0].step = statuses[1].step = step;
        model.update(statuses, static_cast<double>(step));
    };
    model.update(statuses, 9);
    make_step(10);
    EXPECT_DOUBLE_EQ(model.view().loss, 0.7);
    EXPECT_FALSE(model.view().loss_is_ours);
    for (Status& each : statuses) each.samples = 0;  // nobody tells of the next one
    model.update(statuses, 10.5);
    make_step(11);
    EXPECT_DOUBLE_EQ(model.view().loss, 0.7) << "statuses of step 10 still told one";
    make_step(12);
    const RunView view = model.view();
    EXPECT_DOUBLE_EQ(view.loss, 0.95);
    EXPECT_TRUE(view.loss_is_ours);
    EXPECT_NE(as_text(render(view, 100, 24, {})).find("loss 0.9500 (yours)"), std::string::npos);
    PlainProgress seen;
    EXPECT_NE(plain_lines(view, seen).back().find("step 12 of 400  loss 0.9500 (yours)  "),
              std::string::npos);
    statuses.pop_back();  // the run is ours alone
    model.update(statuses, 13);
    EXPECT_FALSE(model.view().loss_is_ours);
}

TEST(RunModel, a_loss_that_is_no_loss_is_left_out_of_the_mean) {
    RunModel model(run(), {}, 0);
    std::vector<Status> statuses = {status(1, "a", 9, Phase::computing),
                                    status(2, "b", 9, Phase::computing),
                                    status(3, "c", 9, Phase::downloading)};
    statuses[1].loss = 1e300;
    statuses[2].progress = std::nan("");
    model.update(statuses, 1);
    EXPECT_EQ(model.view().loss, 0.5);
    EXPECT_EQ(model.view().peers[2].doing, "downloading 0 %");
}

TEST(RunModel, a_peer_that_says_goodbye_has_left_not_been_lost) {
    RunModel model(run(), id(1), 0);
    model.update({status(1, "a", 1, Phase::computing), status(2, "b", 1, Phase::leaving)}, 1);
    model.update({status(1, "a", 1, Phase::computing)}, 2);
    ASSERT_EQ(model.view().peers.size(), 2u);
    EXPECT_EQ(model.view().peers[1].doing, "left 0 s ago");
    EXPECT_EQ(model.view().live_peers(), 1u);
    model.update({status(1, "a", 1, Phase::computing)}, 3 + gone_peer_seconds);
    EXPECT_EQ(model.view().peers.size(), 1u);
}

TEST(RunModel, hashes_are_compared_within_a_step_only) {
    RunModel model(run(), {}, 0);
    model.update({status(1, "a", 5, Phase::computing),
                  status(2, "b", 5, Phase::computing),
                  status(3, "c", 4, Phase::computing)},
                 1);
    const RunView view = model.view();
    EXPECT_EQ(view.peers[0].mark, HashMark::equal);
    EXPECT_EQ(view.peers[1].mark, HashMark::equal);
    EXPECT_EQ(view.peers[2].mark, HashMark::none);
    EXPECT_EQ(view.state_hashes(), 1u);
}

TEST(RunModel, events_get_the_name_of_whom_they_are_about) {
    RunModel model(run(), {}, 0);
    Event joined = event(1, events::PeerJoined{}, id(2).short_text() + " joined");
    joined.peer = id(2);
    model.add(joined);
    model.update({status(1, "a", 1, Phase::computing)}, 1);
    EXPECT_EQ(model.view().events[0].text, id(2).short_text() + " joined");
    model.update({status(2, "bob", 1, Phase::computing)}, 2);
    EXPECT_EQ(model.view().events[0].text, "bob joined");
}

TEST(RunModel, a_peer_that_is_killed_is_two_lines) {
    RunModel model(run(), {}, 0);
    const auto add = [&](double time, events::Any what, const std::string& text) {
        Event added = event(time, std::move(what), text);
        added.peer = id(2);
        model.add(added);
    };
    const auto lines = [&] {
        std::vector<std::string> texts;
        for (const EventView& line : model.view().events)
            if (!line.is_routine) texts.push_back(line.text);
        return texts;
    };
    add(1, events::OwnerFailed{}, "its average did not come");
    add(1.1, events::LeaderSuspected{}, "it leads no more");
    add(1.2, events::PartsRepaired{}, "its parts are reduced again");
    add(1.3, events::OwnerFailed{}, "its average did not come");
    add(6, events::PeerLost{}, "it is gone");
    EXPECT_EQ(lines(), (std::vector<std::string>{"its average did not come", "it is gone"}));
    add(7 + one_failure_seconds, events::OwnerFailed{}, "it failed again");
    EXPECT_EQ(lines().back(), "it failed again") << "much later is another failure";
}

TEST(RunModel, the_same_words_within_seconds_are_one_line) {
    RunModel model(run(), id(1), 1000);
    const std::string words = "the organiser has revoked the admission of Ben";
    EXPECT_FALSE(model.was_just_told(event(1001, events::Revoked{}, words)));
    model.add(event(1001, events::Revoked{}, words));
    model.add(event(1001.2, events::AdmissionRefused{}, words));
    model.add(event(1001.4, events::AdmissionRefused{}, words + " and Ana"));
    EXPECT_TRUE(model.was_just_told(event(1002, events::AdmissionRefused{}, words)));
    const double later = 1001 + one_failure_seconds + 1;
    EXPECT_FALSE(model.was_just_told(event(later, events::AdmissionRefused{}, words)));
    model.add(event(later, events::AdmissionRefused{}, words));
    std::size_t shown = 0;
    for (const EventView& line : model.view().events) shown += !line.is_routine;
    EXPECT_EQ(shown, 3u);
}

TEST(RunModel, equal_names_are_told_apart) {
    RunModel model(run(), {}, 0);
    model.update({status(1, "same", 1, Phase::computing), status(2, "same", 1, Phase::computing)},
                 1);
    const RunView view = model.view();
    EXPECT_NE(view.peers[0].name, view.peers[1].name);
}

TEST(RunModel, hostile_text_cannot_reach_the_terminal) {
    EXPECT_EQ(printable("a\x1b[2Jb\r\n\tc", 100), "a?[2Jb   c");
    EXPECT_EQ(printable("J\xc3\xbcrgen", 100), "J\xc3\xbcrgen");
    EXPECT_EQ(printable("\xc2\x9b"
                        "31m",
                        100),
              "?31m");  // C1's CSI
    EXPECT_EQ(printable("\xf0\x9f\x98\x80x", 100), "\xf0\x9f\x98\x80x");
    EXPECT_EQ(printable("\xff\xfe\xc3", 100), "???");
    EXPECT_EQ(printable("abcdef", 3), "abc");
    EXPECT_EQ(printable("ab\xc3\xbc", 3), "ab");
}

TEST(EventLog, lines_survive_the_trip) {
    events::StepMade step;
    step.step = 5;
    step.samples = 1024;
    step.loss = 0.25;
    step.state_hash.bytes.fill(0xab);
    step.gradient_norm = 0.5;
    Event made = event(1700000000.125, step, "step 5: \"quoted\" \xff", 5);
    made.peer = id(1);
    const std::string line = to_json_line(made);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto back = event_from_json_line(line);
    ASSERT_TRUE(back) << to_string(back.error());
    EXPECT_EQ(back->time, made.time);
    EXPECT_EQ(back->peer, made.peer);
    EXPECT_EQ(back->step, 5u);
    const auto* again = back->as<events::StepMade>();
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(again->step, 5u);
    EXPECT_EQ(again->samples, 1024);
    EXPECT_EQ(again->loss, 0.25);
    EXPECT_EQ(again->state_hash, step.state_hash);
    EXPECT_EQ(again->gradient_norm, 0.5);
    EXPECT_FALSE(again->waiting_s);
    EXPECT_EQ(to_json_line(*back), line);
    EXPECT_FALSE(event_from_json_line("{\"kind\":5}"));
    EXPECT_FALSE(event_from_json_line("[]"));
    EXPECT_FALSE(event_from_json_line("{\"kind\":\"x\",\"peer\":\"???\"}"));
    EXPECT_FALSE(event_from_json_line("{"));
}

// Programs of others read the log: these lines are what they have always been.
TEST(EventLog, lines_are_what_they_always_were) {
    const std::string hash(64, 'c');
    const std::vector<std::string> lines{
        R"({"time":1.5,"kind":"run_started","step":0,"text":"hosting from step 0"})",
        R"({"time":1.5,"kind":"step","step":9,"text":"t","fields":{"step":9,"samples":1024.0,)"
        R"("samples_total":9216.0,"members":4,"contributors":3,"left_out":1,"attempt":0,)"
        R"("loss":null,"learning_rate":0.001,"seconds":2.25,"predicted_s":0.75,"state_hash":")" +
            hash +
            R"(","computing_s":1.0,"waiting_s":0.5,"averaging_s":0.5,"applying_s":0.25,)"
            R"("gradient_norm":0.125}})",
        R"({"time":1.5,"kind":"plan","step":9,"text":"t","fields":{"predicted_s":0.5,)"
        R"("bottleneck":"upload","bottleneck_peer":"x","left_out":2,"left_out_peers":"a b"}})",
        R"({"time":1.5,"kind":"plan","step":9,"text":"t","fields":{"predicted_s":0.5,)"
        R"("left_out":0}})",
        R"({"time":1.5,"kind":"reduced","step":9,"text":"t","fields":{"step":9,"parts":3,)"
        R"("share":0.25,"memory_bytes_most":4096}})",
        R"({"time":1.5,"kind":"evaluation","step":9,"text":"t","fields":{"step":9,)"
        R"("accuracy":0.5,"loss":1.5}})",
        R"({"time":1.5,"kind":"left_out","step":9,"text":"t","fields":{"steps":4}})",
        R"({"time":1.5,"kind":"not_finite","step":9,"text":"t","fields":{"samples":4}})",
        R"({"time":1.5,"kind":"samples_dropped","step":9,"text":"t","fields":{"samples":4}})",
        R"({"time":1.5,"kind":"caps","step":0,"text":"t","fields":{"up_mbit":5.0,)"
        R"("down_mbit":0.0}})",
        R"({"time":1.5,"kind":"events_dropped","step":9,"text":"t","fields":{"count":4}})",
        R"({"time":1.5,"kind":"of another version","step":9,"text":"t","fields":{"a":1,)"
        R"("b":"two","c":3.5}})",
    };
    for (const std::string& line : lines) {
        const auto event = event_from_json_line(line);
        ASSERT_TRUE(event) << line;
        EXPECT_EQ(to_json_line(*event), line);
    }
}

// No two kinds share a name, so that a line is read as what it was written.
TEST(EventLog, every_kind_is_read_as_itself) {
    std::set<std::string_view> names;
    const auto check = [&]<typename Kind>(const Kind& what) {
        if constexpr (!std::is_same_v<Kind, events::Unknown>) {
            EXPECT_TRUE(names.insert(Kind::kind).second) << Kind::kind;
            const auto back = event_from_json_line(to_json_line(event(1, what, "text")));
            ASSERT_TRUE(back) << Kind::kind;
            EXPECT_TRUE(std::holds_alternative<Kind>(back->what)) << Kind::kind;
        }
    };
    [&]<std::size_t... number>(std::index_sequence<number...>) {
        (check(std::variant_alternative_t<number, events::Any>()), ...);
    }
    (std::make_index_sequence<std::variant_size_v<events::Any>>());
    EXPECT_EQ(names.size(), std::variant_size_v<events::Any> - 1) << "all but Unknown";
}

class Folder {
  public:
    Folder() {
        std::string pattern = "/tmp/dedloc-monitor-XXXXXX";
        path_ = mkdtemp(pattern.data());
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string file(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

TEST(EventLog, writes_and_appends_whole_lines) {
    const Folder folder;
    const std::string path = folder.file("events.jsonl");
    for (int round = 0; round < 2; ++round) {
        auto log = EventLog::open(path);
        ASSERT_TRUE(log) << to_string(log.error());
        for (std::uint64_t i = 0; i < 500; ++i)
            (*log)->record(event(1, events::StepMade{}, "text", i));
        (*log)->flush();
        (*log)->record(event(1, events::RunOver{}, "after the flush"));
    }
    std::ifstream file(path);
    std::string line;
    std::size_t count = 0;
    while (std::getline(file, line)) {
        EXPECT_TRUE(event_from_json_line(line)) << line;
        ++count;
    }
    EXPECT_EQ(count, 1002u);
}

std::vector<Event> events_in(const std::string& path) {
    std::vector<Event> events;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const auto event = event_from_json_line(line);
        EXPECT_TRUE(event) << path << ": " << line;
        if (event) events.push_back(*event);
    }
    return events;
}

// No file grows beyond `bytes` while it lives, as on a full disk.
class FullDisk {
  public:
    explicit FullDisk(std::uintmax_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &before_);
        rlimit full = before_;
        full.rlim_cur = bytes;
        setrlimit(RLIMIT_FSIZE, &full);
    }
    ~FullDisk() {
        setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

  private:
    void (*handler_)(int);
    rlimit before_{};
};

TEST(EventLog, goes_on_after_a_full_disk_and_says_how_many_events_are_missing) {
    const Folder folder;
    const std::string path = folder.file("events.jsonl");
    auto log = EventLog::open(path);
    ASSERT_TRUE(log);
    const auto record = [&](std::uint64_t first, std::uint64_t end) {
        for (std::uint64_t i = first; i < end; ++i)
            (*log)->record(event(1, events::StepMade{}, "text", i));
        (*log)->flush();
    };
    record(0, 10);
    {
        const FullDisk full(std::filesystem::file_size(path) + 100);
        record(10, 30);
        EXPECT_EQ(events_in(path).front().step, 0u);
    }
    record(30, 35);
    const std::vector<Event> events = events_in(path);
    EXPECT_EQ(events.back().step, 34u);
    std::uint64_t told = 0;
    std::uint64_t missing = 0;
    for (const Event& each : events) {
        told += each.is<events::StepMade>();
        if (const auto* dropped = each.as<events::EventsDropped>()) missing += dropped->count;
    }
    EXPECT_GT(missing, 15u);
    EXPECT_EQ(told + missing, 35u);
}

TEST(EventLog, cuts_off_the_torn_line_of_a_process_that_died) {
    const Folder folder;
    const std::string path = folder.file("events.jsonl");
    std::ofstream(path) << to_json_line(event(1, events::StepMade{}, "whole", 1)) << "\n"
                        << "{\"kind\":\"step\",\"text\":\"" << std::string(10000, 'x');
    {
        auto log = EventLog::open(path);
        ASSERT_TRUE(log);
        (*log)->record(event(1, events::StepMade{}, "next", 2));
    }
    const std::vector<Event> events = events_in(path);
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].text, "whole");
    EXPECT_EQ(events[1].text, "next");
}

TEST(EventLog, keeps_one_full_file_and_goes_on_in_a_new_one) {
    const Folder folder;
    const std::string path = folder.file("events.jsonl");
    auto log = EventLog::open(path, 1000);
    ASSERT_TRUE(log);
    for (std::uint64_t i = 0; i < 200; ++i) {
        (*log)->record(event(1, events::RunOver{}, "text", i));
        (*log)->flush();
    }
    EXPECT_EQ(full_event_file(path), folder.file("events.1.jsonl"));
    std::vector<Event> events = events_in(full_event_file(path));
    EXPECT_GT(events.size(), 5u);
    for (Event& each : events_in(path)) events.push_back(std::move(each));
    for (std::size_t i = 0; i < events.size(); ++i)
        EXPECT_EQ(events[i].step, 200 - events.size() + i);
    EXPECT_LE(std::filesystem::file_size(path), 1000u);
    EXPECT_LE(std::filesystem::file_size(full_event_file(path)), 1000u);
    const std::filesystem::directory_iterator files(std::filesystem::path(path).parent_path());
    EXPECT_EQ(std::distance(begin(files), end(files)), 2);
}

TEST(EventLog, says_why_it_cannot_be_opened) {
    const auto log = EventLog::open("/nonexistent/folder/events.jsonl");
    ASSERT_FALSE(log);
    EXPECT_EQ(log.error().kind(), ErrorKind::local_fault);
    EXPECT_NE(log.error().message().find("/nonexistent/folder/events.jsonl"), std::string::npos);
}

TEST(EventMailbox, keeps_the_newest) {
    EventMailbox mailbox;
    for (std::uint64_t i = 0; i < recent_events_max + 5; ++i)
        mailbox.record(event(1, events::StepMade{}, "", i));
    const auto events = mailbox.take();
    ASSERT_EQ(events.size(), recent_events_max);
    EXPECT_EQ(events.front().step, 5u);
    EXPECT_TRUE(mailbox.take().empty());
}

TEST(Screen, into_a_pipe_come_plain_lines_without_escapes) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    {
        Screen screen(ends[1], screen_options_for(ends[1], /*plain=*/false));
        screen.say("hello");
        screen.say("peer-5 joined");
        screen.show(busy_view());
        screen.show(busy_view());
    }
    close(ends[1]);
    char buffer[4096];
    const ssize_t size = read(ends[0], buffer, sizeof buffer);
    close(ends[0]);
    const std::string text(buffer, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    // hello, two events, one of which was said already, one step
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

TEST(Screen, a_full_disk_costs_the_lines_that_it_does_not_take_and_those_only) {
    const Folder folder;
    const std::string path = folder.file("output");
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    testing::internal::CaptureStderr();
    {
        Screen screen(file, screen_options_for(file, /*plain=*/true));
        screen.say("first");
        {
            const FullDisk full(std::filesystem::file_size(path) + 3);
            screen.say("second");
            screen.say("third");
        }
        {
            const FullDisk full(std::filesystem::file_size(path) + 3);
            screen.say("in part");
        }
        screen.say("fourth");
        screen.print("{}");
    }
    close(file);
    log(LogLevel::warning, "room", "what the disk took in part is ended before this");
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find("standard output cannot be written: File too large"), std::string::npos);
    EXPECT_EQ(told.find("cannot"), told.rfind("cannot")) << told;
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    EXPECT_EQ(text.str(), "first\nsec\nin\nfourth\n{}\n");
}

TEST(Screen, nobody_waits_for_a_disk_that_stays_full) {
    const int file = open("/dev/full", O_WRONLY);
    testing::internal::CaptureStderr();
    {
        Screen screen(file, screen_options_for(file, /*plain=*/true));
        screen.say("first");
        screen.print("{}");
    }
    close(file);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("No space left"), std::string::npos);
}

TEST(Screen, nobody_waits_for_an_output_that_is_not_there) {
    Screen screen(-1, {.in_place = true, .colored = false, .charset = {}, .silent = false});
    screen.show(busy_view());
    screen.say("hello");
    screen.release();
    screen.print("{}");
}

TEST(Screen, in_place_goes_back_to_where_its_picture_began) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    {
        Screen screen(ends[1],
                      {.in_place = true, .colored = false, .charset = {}, .silent = false});
        screen.show(busy_view());
        screen.show(busy_view());
    }
    close(ends[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(size));
    close(ends[0]);
    EXPECT_NE(text.find("\x1b[13F"), std::string::npos);
    EXPECT_TRUE(text.ends_with("\x1b[?25h"));
}

// So long a test waits for a program's last words; then it fails.
constexpr auto one_wait = std::chrono::milliseconds(1);
constexpr int waits_max = 20'000;
constexpr const char* no_terminals = "this system has no pseudo-terminals (devpts)";

// A terminal of this size; nobody reads what is shown there but the test. Where the system has no
// pseudo-terminals there is none.
class Terminal {
  public:
    Terminal(std::size_t width, std::size_t height) {
        reader_ = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
        if (reader_ < 0 || grantpt(reader_) != 0 || unlockpt(reader_) != 0) return;
        const char* name = ptsname(reader_);
        screen_ = name ? open(name, O_RDWR | O_NOCTTY) : -1;
        if (screen_ < 0) return;
        termios modes{};
        EXPECT_EQ(tcgetattr(screen_, &modes), 0);
        cfmakeraw(&modes);
        tcsetattr(screen_, TCSANOW, &modes);
        resize(width, height);
    }
    ~Terminal() {
        if (screen_ >= 0) close(screen_);
        hang_up();
    }
    bool is_there() const { return screen_ >= 0; }
    // Nobody reads any more: what waits to write there goes on.
    void hang_up() {
        if (reader_ >= 0) close(std::exchange(reader_, -1));
    }
    int descriptor() const { return screen_; }
    void resize(std::size_t width, std::size_t height) {
        winsize size{};
        size.ws_col = static_cast<unsigned short>(width);
        size.ws_row = static_cast<unsigned short>(height);
        EXPECT_EQ(ioctl(screen_, TIOCSWINSZ, &size), 0);
    }
    void type(std::string_view keys) const {
        EXPECT_EQ(write(reader_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
    }
    // Reads what came since it was read last.
    std::string read_all() {
        std::string text;
        char buffer[4096];
        for (ssize_t size; (size = read(reader_, buffer, sizeof buffer)) > 0;)
            text.append(buffer, static_cast<std::size_t>(size));
        return text;
    }

  private:
    int reader_ = -1;
    int screen_ = -1;
};

constexpr ScreenOptions in_place{
    .in_place = true, .colored = false, .charset = {}, .silent = false, .takes_log = true};
constexpr std::string_view end_of_picture = "\x1b[J\x1b[?2026l";

TEST(Screen, a_terminal_that_takes_nothing_stops_nobody_and_is_drawn_again_later) {
    Terminal terminal(120, 60);
    if (!terminal.is_there()) GTEST_SKIP() << no_terminals;
    Screen screen(terminal.descriptor(), in_place);
    // Without a reader a terminal holds a few pictures, and the last of them in part.
    RunView view = busy_view();
    view.peers.resize(60, view.peers[1]);
    for (int i = 0; i < 1000; ++i) screen.show(view);
    for (std::size_t i = 0; i < 2 * waiting_lines_max; ++i) screen.say(fmt::format("line {}.", i));
    std::string text = terminal.read_all();
    EXPECT_LT(text.size(), 200'000u);
    // A turn may only write what is left of the picture that was stopped in its middle.
    for (int i = 0; i < 3; ++i) {
        screen.show(view);
        text += terminal.read_all();
    }
    EXPECT_TRUE(text.ends_with(end_of_picture));
    EXPECT_EQ(text.find("line 0."), std::string::npos);
    EXPECT_NE(text.find(fmt::format("line {}.", 2 * waiting_lines_max - 1)), std::string::npos);
}

TEST(Screen, a_pipe_that_nobody_reads_stops_nobody_and_gets_the_newest_step_later) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    RunModel model(run(), id(1), 0);
    Screen screen(ends[1], screen_options_for(ends[1], /*plain=*/true));
    std::string text;
    const auto read_all = [&] {
        char buffer[4096];
        for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;)
            text.append(buffer, static_cast<std::size_t>(size));
    };
    for (std::uint64_t step = 1; step < 5000; ++step) {
        model.update({status(1, "host", step, Phase::computing)}, 1);
        screen.show(model.view());
    }
    read_all();
    screen.show(model.view());
    read_all();
    EXPECT_TRUE(text.starts_with("   0:01  step 1 of 400 "));
    const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
    EXPECT_TRUE(text.substr(last).starts_with("   0:01  step 4999 ")) << text.substr(last);
    close(ends[0]);
    close(ends[1]);
}

TEST(Screen, a_pipe_that_is_read_late_gets_the_last_words_whole_and_the_result_after_them) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    RunModel model(run(), id(1), 0);
    auto writer = std::async(std::launch::async, [&] {
        Screen screen(ends[1], screen_options_for(ends[1], /*plain=*/true));
        for (std::uint64_t step = 1; step < 5000; ++step) {
            model.update({status(1, "host", step, Phase::computing)}, 1);
            screen.show(model.view());
        }
        screen.release();
        screen.print("{}");
        close(ends[1]);
    });
    const auto longer = last_words_timeout + std::chrono::milliseconds(300);
    EXPECT_EQ(writer.wait_for(longer), std::future_status::timeout);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    std::string text;
    char buffer[4096];
    ssize_t size = -1;
    for (int waits = 0; size != 0 && waits < waits_max;) {
        size = read(ends[0], buffer, sizeof buffer);
        if (size > 0) text.append(buffer, static_cast<std::size_t>(size));
        if (size < 0 && writer.wait_for(one_wait) != std::future_status::ready) ++waits;
    }
    close(ends[0]);  // now at the latest the writer ends
    EXPECT_EQ(size, 0) << "the last words took too long";
    EXPECT_TRUE(text.ends_with("\n{}\n")) << text;
}

TEST(Screen, a_result_comes_whole_after_what_a_stopped_terminal_still_has_to_take) {
    Terminal terminal(120, 60);
    if (!terminal.is_there()) GTEST_SKIP() << no_terminals;
    RunView view = busy_view();
    view.peers.resize(60, view.peers[1]);
    auto writer = std::async(std::launch::async, [&] {
        Screen screen(terminal.descriptor(), in_place);
        for (int i = 0; i < 1000; ++i) screen.show(view);
        // Without a reader a terminal takes a few hundred bytes more now and then.
        for (std::size_t i = 0; i < waiting_lines_max; ++i) screen.say(std::string(100, '.'));
        screen.release();
        screen.print("{}");
    });
    EXPECT_EQ(writer.wait_for(last_words_timeout + std::chrono::milliseconds(300)),
              std::future_status::timeout);
    std::string text;
    bool ended = false;
    for (int waits = 0; !ended && waits < waits_max; ++waits) {
        ended = writer.wait_for(one_wait) == std::future_status::ready;
        text += terminal.read_all();
    }
    if (!ended) terminal.hang_up();
    ASSERT_TRUE(ended) << "the last words took too long";
    EXPECT_TRUE(text.ends_with("{}\n")) << text;
    EXPECT_NE(text.find(end_of_picture), std::string::npos);
}

TEST(Screen, log_lines_stay_above_the_picture_and_end_with_it) {
    Terminal terminal(80, 24);
    if (!terminal.is_there()) GTEST_SKIP() << no_terminals;
    testing::internal::CaptureStderr();
    {
        Screen screen(terminal.descriptor(), in_place);
        screen.show(busy_view());
        (void)terminal.read_all();
        log(LogLevel::warning, "room", "no space left");
        screen.show(busy_view());
        const std::string text = terminal.read_all();
        const std::size_t line = text.find("W room: no space left\x1b[K\n");
        ASSERT_NE(line, std::string::npos) << text;
        EXPECT_LT(text.find("\x1b[13F"), line);
        EXPECT_GT(text.find("step 142"), line);
        screen.show(busy_view());
        EXPECT_EQ(terminal.read_all().find("no space left"), std::string::npos);
        log(LogLevel::warning, "room", "last words");
        screen.release();
        EXPECT_NE(terminal.read_all().find("W room: last words\n"), std::string::npos);
    }
    log(LogLevel::warning, "room", "after it");
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("no space left"), std::string::npos);
    EXPECT_NE(said.find("after it"), std::string::npos);
}

// The lines are written over the top of the picture.
TEST(Screen, nothing_of_the_picture_is_left_behind_the_lines_that_are_said) {
    Terminal terminal(80, 24);
    if (!terminal.is_there()) GTEST_SKIP() << no_terminals;
    Screen screen(terminal.descriptor(), in_place);
    screen.show(busy_view());
    (void)terminal.read_all();
    screen.say("first\nsecond\n");
    const std::string text = terminal.read_all();
    EXPECT_NE(text.find("first\x1b[K\nsecond\x1b[K\n\x1b[K\n"), std::string::npos) << text;
}

TEST(Screen, a_key_shows_the_legend_and_any_key_the_run_again) {
    Terminal terminal(100, 30);
    if (!terminal.is_there()) GTEST_SKIP() << no_terminals;
    ScreenOptions options = in_place;
    options.keys = terminal.descriptor();
    Screen screen(terminal.descriptor(), options);
    const auto shown = [&] {
        screen.show(busy_view());
        return terminal.read_all();
    };
    std::string text = shown();
    EXPECT_NE(text.find("?: legend"), std::string::npos) << text;
    terminal.type("x");
    EXPECT_NE(shown().find("step 142"), std::string::npos);
    terminal.type("?");
    text = shown();
    EXPECT_NE(text.find("what is shown"), std::string::npos) << text;
    EXPECT_EQ(text.find("step 142"), std::string::npos);
    EXPECT_NE(shown().find("what is shown"), std::string::npos) << "it stays";
    terminal.type("q");
    text = shown();
    EXPECT_NE(text.find("step 142"), std::string::npos);
    EXPECT_EQ(text.find("what is shown"), std::string::npos);
}

TEST(Screen, a_terminal_too_small_for_a_picture_gets_plain_lines) {
    Terminal terminal(40, 24);
    if (!terminal.is_there()) GTEST_SKIP() << no_terminals;
    Screen screen(terminal.descriptor(), in_place);
    screen.show(busy_view());
    std::string text = terminal.read_all();
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_NE(text.find("step 142 of 400"), std::string::npos);
    screen.show(busy_view());
    EXPECT_EQ(terminal.read_all(), "");
    terminal.resize(41, 9);
    screen.show(busy_view());
    EXPECT_TRUE(terminal.read_all().ends_with(end_of_picture));
    terminal.resize(41, 8);
    screen.show(busy_view());
    text = terminal.read_all();
    EXPECT_TRUE(text.ends_with("\x1b[?25h")) << text;  // all events and steps were shown before
    screen.show(busy_view());
    EXPECT_EQ(terminal.read_all(), "");
}

}  // namespace
}  // namespace dedloc::monitor
