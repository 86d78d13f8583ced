#include "tests/process/peer_process.h"

#include <filesystem>

#include "dedloc/monitor/event_log.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t error_bytes_max = 2000;

std::string content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

PeerProcess::PeerProcess(std::string program,
                         const std::string& folder,
                         std::string name,
                         PeerPlace place)
    : program_(std::move(program)),
      name_(std::move(name)),
      directory_(folder + "/" + name_),
      place_(std::move(place)) {}

Result<std::unique_ptr<PeerProcess>> PeerProcess::start(const std::string& program,
                                                        std::vector<std::string> words,
                                                        const std::string& folder,
                                                        const std::string& name,
                                                        PeerPlace place) {
    std::unique_ptr<PeerProcess> peer(new PeerProcess(program, folder, name, std::move(place)));
    DEDLOC_TRY_VOID(peer->begin(std::move(words)));
    return peer;
}

Ok PeerProcess::restart(std::vector<std::string> words) {
    poll();  // what the old process wrote last
    steps_.clear();
    process_.reset();
    return begin(std::move(words));
}

Ok PeerProcess::begin(std::vector<std::string> words) {
    std::vector<std::string> command = place_.prefix;
    command.push_back(program_);
    command.insert(command.end(), words.begin(), words.end());
    if (words.front() != "assist") command.insert(command.end(), {"--threads", "1"});
    command.insert(
        command.end(),
        {"--dir", directory_, "--name", name_, "--listen", place_.listen, "--quiet", "--json"});
    const runtime::ChildOptions options{.command = std::move(command),
                                        .output_file = directory_ + ".out",
                                        .error_file = directory_ + ".err",
                                        .niceness = 0,
                                        .data_bytes_max = place_.data_bytes_max};
    DEDLOC_TRY(runtime::ChildProcess process, runtime::ChildProcess::start(options));
    process_.emplace(std::move(process));
    return {};
}

std::vector<events::Event> PeerProcess::poll() {
    const std::string path = directory_ + "/events.jsonl";
    std::vector<events::Event> events;
    std::error_code error;
    if (const auto size = std::filesystem::file_size(path, error); !error && size < read_) {
        events = read_on(monitor::full_event_file(path));
        read_ = 0;  // the log went on in a new file
    }
    for (events::Event& event : read_on(path)) events.push_back(std::move(event));
    return events;
}

std::vector<events::Event> PeerProcess::read_on(const std::string& path) {
    std::vector<events::Event> events;
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (error || size <= read_) return events;
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(read_));
    std::string text(static_cast<std::size_t>(size - read_), '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    // A line that is not whole yet is read next time.
    for (std::size_t begin = 0;;) {
        const std::size_t end = text.find('\n', begin);
        if (end == std::string::npos) break;
        auto event =
            monitor::event_from_json_line(std::string_view(text).substr(begin, end - begin));
        begin = end + 1;
        if (!event) continue;
        if (auto seen = step_in(*event)) steps_.push_back(*std::move(seen));
        events.push_back(*std::move(event));
    }
    const std::size_t whole = text.rfind('\n');
    if (whole != std::string::npos) read_ += whole + 1;
    return events;
}

std::string PeerProcess::join_string() const {
    std::string text = content_of(directory_ + "/join.txt");
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
}

std::string PeerProcess::last_error() const {
    std::string text = content_of(directory_ + ".err");
    if (text.size() > error_bytes_max) text.erase(0, text.size() - error_bytes_max);
    return text;
}

std::vector<std::uint64_t> PeerProcess::differing_steps(
    std::size_t first, std::map<std::uint64_t, std::string>& hashes) const {
    std::vector<std::uint64_t> differing;
    for (std::size_t i = first; i < steps_.size(); ++i) {
        const auto [known, is_new] = hashes.emplace(steps_[i].step, steps_[i].hash);
        if (!is_new && known->second != steps_[i].hash) differing.push_back(steps_[i].step);
    }
    return differing;
}

}  // namespace dedloc::lab
