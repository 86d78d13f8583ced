#include "dedloc/audit/event_names.h"

#include <fstream>

#include "dedloc/monitor/event_log.h"

namespace dedloc::audit {
namespace {

// The words that collab writes behind the name (peer_left, peer_lost).
constexpr std::string_view endings[] = {" left", " is gone without a word"};

// Empty: the event names nobody.
std::string name_in(const events::Event& event) {
    if (event.peer.is_empty() || !event.is<events::PeerLeft, events::PeerLost>()) return {};
    for (const std::string_view ending : endings) {
        if (!event.text.ends_with(ending)) continue;
        std::string name = event.text.substr(0, event.text.size() - ending.size());
        // A peer without a known name is called by its id.
        return name == event.peer.short_text() ? "" : name;
    }
    return {};
}

}  // namespace

void add_names_in_events(const std::filesystem::path& folder,
                         std::map<PeerId, std::string>& names) {
    const std::string newest = (folder / "events.jsonl").string();
    for (const std::string& path : {monitor::full_event_file(newest), newest}) {
        std::ifstream file(path, std::ios::binary);
        for (std::string line; std::getline(file, line);) {
            // Most lines are of steps: only those that may name somebody are parsed.
            if (line.find("\"peer_l") == std::string::npos) continue;
            const auto event = monitor::event_from_json_line(line);
            if (!event) continue;
            if (std::string name = name_in(*event); !name.empty()) names[event->peer] = name;
        }
    }
}

}  // namespace dedloc::audit
