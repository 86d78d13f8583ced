#include "experiments/journey.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "dedloc/admission/admission_client.h"
#include "dedloc/admission/book_issuer.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/replica/certificate_log.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

#include "experiments/journey_plan.h"
#include "tests/common/exit_codes.h"
#include "tests/common/temporary_folder.h"
#include "tests/sim/checkers.h"
#include "tests/sim/sim_peer.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t journey_elements = 64;
constexpr std::uint64_t journey_authority = 4711;  // seed of its key
constexpr std::size_t co_organisers = 2;
constexpr std::size_t helpers = 16;
constexpr double token_hours = 6;
constexpr double away_from_hours = 3 * 24;
constexpr double away_until_hours = 5 * 24;
constexpr double preempted_after_hours = 10;  // a helper, on average
constexpr double preempted_for_hours = 0.5;
constexpr double step_hours = 1.0 / 6;  // about
constexpr double micro_hours = 1.0 / 30;
constexpr double peers_usual = 30;
constexpr std::int64_t clock_off_ms_max = 30'000;  // of each, so that two differ by a minute
constexpr double seconds_an_hour = 3600;
constexpr Duration organiser_head_start = 30s;
constexpr Duration journey_timeout = 30s;
constexpr double median_tolerance = 0.1;

// A machine of the journey.
struct Traveller {
    sim::SimNode* node = nullptr;
    std::string person;
    Bytes code{};
    std::unique_ptr<SimPeer> peer{};
    std::vector<std::pair<TimePoint, TimePoint>> killed{};  // when it was not left alone
};

class Journey {
  public:
    Journey(const JourneyCommand& command)
        : command_(command),
          world_(command.seed),
          run_(make_sim_run(journey_elements, {})),
          checkers_(verifier_, journey_elements) {}

    nlohmann::ordered_json run();
    bool good() const { return problems_.empty(); }
    const std::vector<std::string>& problems() const { return problems_; }

  private:
    Duration virtual_time(double hours) const {
        return from_seconds(hours * seconds_an_hour / command_.scale);
    }
    TimePoint at_hour(double hour) const { return begin_ + virtual_time(hour); }
    void fail(std::string sentence) { problems_.push_back(std::move(sentence)); }

    void prepare_run();
    void add_travellers();
    std::size_t add_traveller(const std::string& person, Random& random);
    void invite(Traveller& traveller, bool organises);
    std::shared_ptr<admission::Issuer> issuer();
    run::JoinString string_for(const Traveller& traveller) const;
    void start(Traveller& traveller, admission::Admitted admitted, bool hosts);
    Task<void> come(Traveller& traveller);
    Task<void> go(Traveller& traveller);
    Task<void> preempt(Traveller& traveller);
    Task<void> session(Traveller& traveller, TimePoint begin, TimePoint end);
    Task<void> sessions_of(Traveller& traveller, std::vector<JourneySession> sessions);
    Task<void> organiser_life();
    Task<void> helper_life(Traveller& traveller, std::uint64_t seed);
    void on_event(Traveller& traveller, const events::Event& event);
    void judge();
    void write_folder(const std::string& folder);
    void judge_report(const monitor::RunHistory& history);
    Traveller& keeper() { return travellers_[1]; }  // a co-organiser, who stays

    JourneyCommand command_;
    sim::World world_;
    SimRun run_;
    security::ToyVerifier verifier_;
    Checkers checkers_;
    JourneyPlan plan_;
    std::deque<Traveller> travellers_;  // the organiser, co-organisers, devices, helpers
    std::size_t first_device_ = 0;
    std::size_t first_helper_ = 0;
    TimePoint begin_;
    std::vector<events::Event> kept_events_;
    std::set<Digest> branches_;
    std::uint64_t refusals_ = 0;
    std::uint64_t sessions_failed_ = 0;
    std::vector<std::string> problems_;
    nlohmann::ordered_json result_;
};

// ---- who is there -------------------------------------------------------------------------------

void Journey::prepare_run() {
    run_.run.access =
        run::AccessConfig{.authority = security::toy_peer_id(journey_authority).text()};
    run_.secret.clear();
    const double micros = step_hours / micro_hours * peers_usual;
    run_.run.batch.target = static_cast<std::uint64_t>(micros) * run_.run.batch.micro;
    run_.run.averaging.leave_out_slow = false;
    run_.run.averaging.quorum_timeout = 20s;
    run_.run.averaging.round_deadline_max = 15s;
    run_.status_interval = 4s;
}

std::size_t Journey::add_traveller(const std::string& person, Random& random) {
    sim::NodeOptions options;
    options.name = fmt::format("t{}", travellers_.size());
    options.wall_skew = std::chrono::milliseconds(
        static_cast<std::int64_t>(random.below(2 * clock_off_ms_max + 1)) - clock_off_ms_max);
    Traveller traveller{.node = &world_.add_node(options), .person = person};
    traveller.code = random.bytes(run::invitation_code_bytes);
    travellers_.push_back(std::move(traveller));
    return travellers_.size() - 1;
}

void Journey::add_travellers() {
    Random random = world_.random("travellers");
    add_traveller("organiser", random);
    for (std::size_t i = 0; i < co_organisers; ++i)
        add_traveller(fmt::format("co-organiser {}", i + 1), random);
    first_device_ = travellers_.size();
    plan_ = plan_journey(command_.seed);
    if (plan_.sessions.size() != journey_sessions)
        fail(fmt::format("{} sessions found a place", plan_.sessions.size()));
    for (const std::size_t person : plan_.person_of)
        add_traveller(fmt::format("person {:02}", person + 1), random);
    first_helper_ = travellers_.size();
    for (std::size_t i = 0; i < helpers; ++i) add_traveller("helpers", random);
    for (std::size_t i = 1; i < travellers_.size(); ++i) invite(travellers_[i], i <= co_organisers);
}

// The organiser's machine finds the wish, as `dedloc invite` leaves it.
void Journey::invite(Traveller& traveller, bool organises) {
    admission::Wish wish;
    wish.kind = admission::WishKind::invite;
    wish.name = traveller.person;
    wish.code_hash = security::sha256(traveller.code);
    wish.lifetime = static_cast<std::uint64_t>(7 * 24 * seconds_an_hour);
    wish.organises = organises;
    const std::string path =
        fmt::format("{}/{:03}", admission::wishes_folder, traveller.node->index());
    const Ok written =
        travellers_.front().node->runtime().disk.write_atomically(path, wire::encode(wish));
    if (!written) fail(written.error().message());
}

std::shared_ptr<admission::Issuer> Journey::issuer() {
    sim::SimNode& node = *travellers_.front().node;
    admission::BookIssuer::Right right;
    right.signer = std::make_shared<security::ToySigner>(journey_authority);
    right.own_name = "organiser";
    right.token_lifetime = token_hours * seconds_an_hour / command_.scale;
    return *admission::BookIssuer::open(
        node.runtime().disk, node.clock(), verifier_, run::run_hash(run_.run), std::move(right));
}

run::JoinString Journey::string_for(const Traveller& traveller) const {
    run::JoinString join;
    join.run = run::run_hash(run_.run);
    join.authority = security::toy_peer_id(journey_authority);
    join.code = traveller.code;
    for (std::size_t i = 0; i <= co_organisers; ++i)
        join.addresses.push_back(travellers_[i].node->address() + "/p2p/" +
                                 travellers_[i].node->id().text());
    return join;
}

// ---- coming and going ---------------------------------------------------------------------------

void Journey::start(Traveller& traveller, admission::Admitted admitted, bool hosts) {
    SimPeer::Setup setup{.run = run_, .checkers = checkers_, .bootstrap = {}, .on_event = {}};
    setup.micro_batch = run_.run.batch.micro;
    setup.samples_per_s =
        static_cast<double>(setup.micro_batch) / to_seconds(virtual_time(micro_hours));
    if (!hosts) setup.bootstrap = string_for(traveller).addresses;
    const bool organises = &traveller == &travellers_.front();
    setup.adjust =
        [this, organises, admitted = std::move(admitted)](collab::CollaborationOptions& options) {
            options.admitted = admitted;
            if (organises) options.issuer = issuer();
        };
    setup.on_event = [this, &traveller](SimPeer&, const events::Event& event) {
        on_event(traveller, event);
    };
    traveller.peer = std::make_unique<SimPeer>(world_, *traveller.node, std::move(setup));
    if (const Ok made = traveller.peer->make(); !made) {
        fail(made.error().message());
        traveller.peer.reset();
        return;
    }
    traveller.peer->begin();
}

Task<void> Journey::come(Traveller& traveller) {
    admission::Admitted admitted;
    if (&traveller != &travellers_.front()) {
        const TimePoint deadline = traveller.node->clock().now() + journey_timeout;
        auto got = co_await admission::token_for(traveller.node->host(),
                                                 traveller.node->runtime().disk,
                                                 string_for(traveller),
                                                 deadline);
        if (!got) {
            ++sessions_failed_;
            // An invitation is good where it was given out only.
            if (world_.now() >= at_hour(away_from_hours) &&
                world_.now() <= at_hour(away_until_hours))
                co_return;
            fail(fmt::format("{} was not let in: {}", traveller.person, got.error().message()));
            co_return;
        }
        admitted = *std::move(got);
    }
    start(traveller, std::move(admitted), /*hosts=*/false);
}

Task<void> Journey::go(Traveller& traveller) {
    if (!traveller.peer) co_return;
    traveller.peer->leave(journey_timeout);
    const TimePoint until = world_.now() + journey_timeout * 2;
    while (!traveller.peer->left() && world_.now() < until) {
        const TimePoint next = world_.now() + Duration(1s);
        co_await world_.sleep_until(next);
    }
    co_await traveller.peer->end();
    traveller.peer.reset();
    traveller.node->kill();
    co_await traveller.node->host().stop();
    traveller.node->restart();
}

// The machine is taken away, without a word.
Task<void> Journey::preempt(Traveller& traveller) {
    traveller.killed.emplace_back(world_.now() - journey_timeout, world_.now() + journey_timeout);
    traveller.node->kill();
    if (traveller.peer) co_await traveller.peer->end();
    traveller.peer.reset();
    co_await traveller.node->host().stop();
    traveller.node->restart();
}

Task<void> Journey::session(Traveller& traveller, TimePoint begin, TimePoint end) {
    co_await world_.sleep_until(begin);
    co_await come(traveller);
    co_await world_.sleep_until(end);
    co_await go(traveller);
}

Task<void> Journey::sessions_of(Traveller& traveller, std::vector<JourneySession> sessions) {
    for (const JourneySession& one : sessions)
        co_await session(traveller, at_hour(one.begin), at_hour(one.end));
}

Task<void> Journey::organiser_life() {
    co_await world_.sleep_until(at_hour(away_from_hours));
    co_await go(travellers_.front());
    co_await world_.sleep_until(at_hour(away_until_hours));
    co_await come(travellers_.front());
}

Task<void> Journey::helper_life(Traveller& traveller, std::uint64_t seed) {
    Random random(seed);
    for (;;) {
        co_await come(traveller);
        const double hours = preempted_after_hours * (0.5 + random.uniform());
        const TimePoint taken = world_.now() + virtual_time(hours);
        co_await world_.sleep_until(taken);
        co_await preempt(traveller);
        const TimePoint back = world_.now() + virtual_time(preempted_for_hours);
        co_await world_.sleep_until(back);
    }
}

// ---- what is seen -------------------------------------------------------------------------------

void Journey::on_event(Traveller& traveller, const events::Event& event) {
    using namespace events;
    if (event.is<AdmissionRefused>()) ++refusals_;
    if (event.is<NewBranch>()) fail(fmt::format("a new branch began: {}", event.text));
    if (event.is<Resynced>() && &traveller == &keeper())
        fail(fmt::format("the keeper of the log was behind: {}", event.text));
    if (&traveller != &keeper()) return;
    events::Event kept = event;
    kept.time = to_seconds(world_.now() - begin_) * command_.scale;
    kept_events_.push_back(std::move(kept));
}

void Journey::write_folder(const std::string& folder) {
    const auto& files = keeper().node->disk().files();
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files) names.push_back(name);
    for (const std::string& name : replica::certificate_files(names)) {
        const Bytes& bytes = files.at(name);
        std::ofstream(folder + "/" + name, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
        for (const Bytes& certificate : replica::read_certificate_log(bytes))
            checkers_.on_certificate(keeper().node->name(), certificate, world_.now());
    }
    std::ofstream events(folder + "/events.jsonl");
    for (const events::Event& event : kept_events_) events << monitor::to_json_line(event) << "\n";
}

// Compares what people gave, by the report's own rules, of volunteers alone; and all samples,
// against the accounts of the certificates.
void Journey::judge_report(const monitor::RunHistory& history) {
    const monitor::Participation all = monitor::participation_of(history.steps, history.persons);
    SampleAccounts accounts(journey_elements);
    for (const Link* link : checkers_.winner())
        if (link->plan) accounts.add_commit(link->decision, *link->plan);
    std::map<std::string, double> certified;
    for (const auto& [peer, account] : accounts.accounts())
        certified[history.persons.contains(peer) ? history.persons.at(peer) : "?"] += account.in;
    for (const monitor::PersonReport& person : all.persons)
        if (std::abs(person.samples - certified[person.name]) > 0.01)
            fail(fmt::format("the report says {} samples of {}, certificates {}",
                             person.samples,
                             person.name,
                             certified[person.name]));
    std::vector<monitor::CertifiedStep> of_volunteers = history.steps;
    for (monitor::CertifiedStep& step : of_volunteers)
        std::erase_if(step.shares, [&](const auto& share) {
            const auto person = history.persons.find(share.peer);
            return person == history.persons.end() || !person->second.starts_with("person");
        });
    const monitor::Participation people = monitor::participation_of(of_volunteers, history.persons);
    const double median = people.participation_median_seconds / seconds_an_hour;
    if (std::abs(median - median_hours) > median_tolerance * median_hours)
        fail(fmt::format("the median person took part for {:.1f} h", median));
    if (people.persons.size() != journey_people)
        fail(fmt::format("the report knows {} people", people.persons.size()));
    if (people.devices != journey_devices)
        fail(fmt::format("the report knows {} devices", people.devices));
    result_["people"] = people.persons.size();
    result_["devices"] = people.devices;
    if (people.sessions < journey_sessions * 3 / 4 || people.sessions > journey_sessions * 3 / 2)
        fail(fmt::format("the report counts {} sessions of {}", people.sessions, journey_sessions));
    result_["sessions"] = people.sessions;
    result_["session_mean_hours"] = people.session_mean_seconds / seconds_an_hour;
    result_["session_longest_hours"] = people.session_longest_seconds / seconds_an_hour;
    result_["participation_median_days"] = median / 24;
    result_["steps"] = all.steps;
    result_["samples"] = all.samples;
}

void Journey::judge() {
    const auto folder = TemporaryFolder::make();
    if (!folder) return fail(folder.error().message());
    write_folder(folder->path());
    checkers_.finish(
        [this](const PeerId& peer, TimePoint from, TimePoint to) {
            for (const Traveller& traveller : travellers_)
                if (traveller.node->id() == peer)
                    return std::ranges::none_of(traveller.killed, [&](const auto& time) {
                        return time.first < to && from < time.second;
                    });
            return false;
        },
        world_.now() - journey_timeout * 2);
    for (const std::string& violation : checkers_.violations()) fail(violation);
    if (checkers_.samples_lost() > 0)
        fail(fmt::format("{} samples are lost", checkers_.samples_lost()));
    const auto history = monitor::read_history(folder->path());
    if (!history) return fail(history.error().message());
    judge_report(*history);
}

nlohmann::ordered_json Journey::run() {
    prepare_run();
    add_travellers();
    start(travellers_.front(), {}, /*hosts=*/true);
    world_.run_for(organiser_head_start);
    begin_ = world_.now();
    for (std::size_t i = 1; i <= co_organisers; ++i)
        world_.scope().spawn("come", come(travellers_[i]));
    world_.scope().spawn("organiser", organiser_life());
    std::vector<std::vector<JourneySession>> of_device(journey_devices);
    for (const JourneySession& one : plan_.sessions) of_device[one.device].push_back(one);
    for (std::size_t device = 0; device < journey_devices; ++device)
        world_.scope().spawn("sessions",
                             sessions_of(travellers_[first_device_ + device], of_device[device]));
    for (std::size_t i = 0; i < helpers; ++i)
        world_.scope().spawn(
            "helper", helper_life(travellers_[first_helper_ + i], base::mix64(command_.seed + i)));
    for (int day = 1; day <= 8; ++day) {
        world_.run_for(virtual_time(24));
        fmt::print(stderr, "day {}: step {}\n", day, keeper().peer ? keeper().peer->step() : 0);
    }
    world_.run_for(journey_timeout * 2);
    judge();
    result_["samples_lost"] = checkers_.samples_lost();
    result_["samples_expired"] = checkers_.samples_expired();
    result_["refusals"] = refusals_;
    result_["sessions_failed"] = sessions_failed_;
    result_["hours_in_one"] = command_.scale;
    result_["ok"] = good();
    result_["problems"] = problems_;
    world_.run_task(world_.scope().stop());
    for (Traveller& traveller : travellers_)
        if (traveller.peer) world_.run_task(traveller.peer->end());
    return result_;
}

}  // namespace

int run_journey(const JourneyCommand& command) {
    Journey journey(command);
    const nlohmann::ordered_json result = journey.run();
    for (const std::string& problem : journey.problems())
        fmt::print(stderr, "dedloc-lab journey: {}\n", problem);
    fmt::print("{}\n", command.json ? monitor::json_line(result) : result.dump(2));
    return journey.good() ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
