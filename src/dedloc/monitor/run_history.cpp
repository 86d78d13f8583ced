#include "dedloc/monitor/run_history.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "dedloc/base/file.h"
#include "dedloc/consensus/messages.h"
#include "dedloc/consensus/plan.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/replica/certificate_log.h"
#include "dedloc/wire/message.h"

namespace dedloc::monitor {
namespace {

namespace fs = std::filesystem;

// A file of either log, with its last line or record.
constexpr std::size_t log_bytes_max = 256u << 20;

std::vector<CertifiedStep::Share> shares_of(const consensus::Decision& decision,
                                            const consensus::RoundPlan& plan) {
    const std::uint64_t count = consensus::vector_count(plan);
    std::vector<CertifiedStep::Share> shares;
    for (std::size_t member = 0; member < plan.members.size(); ++member) {
        double samples = 0;
        for (std::size_t p = 0; p < plan.parts.size() && p < decision.parts.size(); ++p)
            if (decision.parts[p].includes(member))
                samples += consensus::included_samples(
                    plan.members[member].input, plan.parts[p].range(), count);
        if (samples > 0) shares.push_back({plan.members[member].peer, samples});
    }
    return shares;
}

void add_certificate(ByteView bytes, std::map<std::uint64_t, CertifiedStep>& steps) {
    const auto certificate = wire::decode<consensus::Certificate>(bytes);
    if (!certificate) return;
    const auto decision = wire::decode<consensus::Decision>(certificate->decision);
    if (!decision || decision->kind != consensus::DecisionKind::commit) return;
    const auto plan = wire::decode<consensus::RoundPlan>(decision->plan);
    if (!plan) return;
    CertifiedStep& step = steps[decision->instance.step];
    step.step = decision->instance.step + 1;  // of the state that it led to
    step.shares = shares_of(*decision, *plan);
}

Result<std::map<std::uint64_t, CertifiedStep>> read_certificates(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
        names.push_back(entry.path().filename().string());
    if (error) return make_error(ErrorKind::bad_input, "{}: {}", folder, error.message());
    const std::vector<std::string> files = replica::certificate_files(names);
    if (files.empty())
        return make_error(ErrorKind::bad_input,
                          "{} has no {}: give the folder of a peer that took part (`dedloc host` "
                          "and `dedloc join` say it when they begin)",
                          folder,
                          replica::certificates_file);
    std::map<std::uint64_t, CertifiedStep> steps;
    for (const std::string& name : files) {
        DEDLOC_TRY(const std::string bytes, base::read_file(folder + "/" + name, log_bytes_max));
        for (const Bytes& certificate : replica::read_certificate_log(as_bytes(bytes)))
            add_certificate(certificate, steps);
    }
    return steps;
}

struct EventReader {
    std::map<std::uint64_t, CertifiedStep>& steps;
    RunHistory& history;
    std::map<PeerId, std::string> persons{};
    std::map<PeerId, std::string> names{};

    void note_name(const PeerId& peer, const std::optional<std::string>& name) {
        if (name && !name->empty()) names[peer] = *name;
    }
    void note_own_name(const std::optional<std::string>& id,
                       const std::optional<std::string>& name) {
        auto peer = PeerId::from_text(id.value_or(""));
        if (!peer) return;
        history.us = *std::move(peer);
        note_name(history.us, name);
    }
    // A person that an organiser invited is called as the invitation says.
    std::map<PeerId, std::string> all_names() && {
        if (const auto ours = persons.find(PeerId()); ours != persons.end()) {
            if (!history.us.is_empty()) persons[history.us] = ours->second;
            persons.erase(PeerId());
        }
        persons.merge(names);
        return std::move(persons);
    }
    void take(const events::Event& event) {
        if (const auto* person = event.as<events::PersonSeen>()) {
            persons[event.peer] = person->person;
        } else if (const auto* joined = event.as<events::PeerJoined>()) {
            note_name(event.peer, joined->name);
        } else if (const auto* began = event.as<events::RunStarted>()) {
            note_own_name(began->id, began->name);
        } else if (const auto* came = event.as<events::Joined>()) {
            note_own_name(came->id, came->name);
        } else if (const auto* made = event.as<events::StepMade>()) {
            // An event names the step that a state has, a certificate the one that it starts from.
            const auto step = steps.find(made->step - 1);
            if (step != steps.end()) {
                step->second.time = event.time;
                if (std::isfinite(made->loss)) step->second.loss = made->loss;
            }
        }
        for (Scalar& scalar : scalars_of(event)) history.scalars.push_back(std::move(scalar));
    }
};

Ok read_event_file(const std::string& path, const TakeEvent& take) {
    std::error_code error;
    if (!fs::exists(path, error)) return {};
    DEDLOC_TRY(const std::string text, base::read_file(path, log_bytes_max));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (const auto event = event_from_json_line(line)) take(*event);
    return {};
}

// Steps that the peer learned of afterwards were made before the next one that it saw.
void fill_in_times(std::vector<CertifiedStep>& steps) {
    WallSeconds next = 0;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
        if (step->time == 0) step->time = next;
        next = step->time;
    }
    WallSeconds last = 0;
    for (CertifiedStep& step : steps) {
        step.time = std::max(step.time, last);
        last = step.time;
    }
}

}  // namespace

std::vector<Scalar> scalars_of(const events::Event& event) {
    std::vector<Scalar> scalars;
    const auto put = [&](std::uint64_t step, const char* name, double value) {
        if (std::isfinite(value)) scalars.push_back({event.time, step, name, value});
    };
    if (const auto* made = event.as<events::StepMade>()) {
        put(made->step, "loss", made->loss);
        put(made->step, "samples", made->samples);
        put(made->step, "contributors", static_cast<double>(made->contributors));
        put(made->step, "learning_rate", made->learning_rate);
        put(made->step, "seconds", made->seconds);
        if (made->seconds > 0) put(made->step, "samples_per_s", made->samples / made->seconds);
        put(made->step, "peers", static_cast<double>(made->members));
        if (made->gradient_norm) put(made->step, "gradient_norm", *made->gradient_norm);
    } else if (const auto* evaluated = event.as<events::Evaluated>()) {
        put(evaluated->step, "evaluation/accuracy", evaluated->accuracy);
        put(evaluated->step, "evaluation/loss", evaluated->loss);
    }
    return scalars;
}

Result<RunHistory> read_history(const std::string& folder) {
    RunHistory history;
    DEDLOC_TRY(auto steps, read_certificates(folder));
    EventReader reader{steps, history};
    DEDLOC_TRY_VOID(
        read_events(folder, [&reader](const events::Event& event) { reader.take(event); }));
    history.persons = std::move(reader).all_names();
    for (auto& [number, step] : steps) history.steps.push_back(std::move(step));
    fill_in_times(history.steps);
    return history;
}

Ok read_events(const std::string& folder, const TakeEvent& take) {
    const std::string log = folder + "/events.jsonl";
    DEDLOC_TRY_VOID(read_event_file(full_event_file(log), take));
    return read_event_file(log, take);
}

std::string to_csv(const std::vector<Scalar>& scalars) {
    std::string text = "time,step,name,value\n";
    for (const Scalar& scalar : scalars)
        text += fmt::format(
            "{:.3f},{},{},{:.9g}\n", scalar.time, scalar.step, scalar.name, scalar.value);
    return text;
}

}  // namespace dedloc::monitor
