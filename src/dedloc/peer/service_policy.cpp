#include "dedloc/peer/service_policy.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include "dedloc/peer/cap_schedule.h"

namespace dedloc::peer {
namespace {

namespace fs = std::filesystem;

// "22:00"; -1: no time of the day.
int minute_of(std::string_view text) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return -1;
    int hour = -1;
    int minute = -1;
    const std::string_view hours = text.substr(0, colon);
    const std::string_view minutes = text.substr(colon + 1);
    const auto first = std::from_chars(hours.data(), hours.data() + hours.size(), hour);
    const auto second = std::from_chars(minutes.data(), minutes.data() + minutes.size(), minute);
    const bool whole = first.ptr == hours.data() + hours.size() && first.ec == std::errc() &&
                       second.ptr == minutes.data() + minutes.size() && second.ec == std::errc();
    if (!whole || hour < 0 || minute < 0 || minute > 59 || hour * 60 + minute > minutes_of_day)
        return -1;
    return hour * 60 + minute;
}

// Ticks of all processors, but for those they waited.
double busy_ticks() {
    std::ifstream file("/proc/stat");
    std::string cpu;
    double user = 0;
    double nice = 0;
    double system = 0;
    file >> cpu >> user >> nice >> system;
    return user + nice + system;
}

double ticks_of(int process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    // The name may have blanks and brackets; the numbers are behind the last one.
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) return 0;
    std::istringstream fields(text.substr(name_end + 1));
    std::string skipped;
    for (int field = 3; field < 14; ++field) fields >> skipped;
    double user = 0;
    double system = 0;
    fields >> user >> system;
    return user + system;
}

// Since the newest of all terminals was read or written to; without one, for ever.
double terminals_idle() {
    double idle = 1e9;
    const double now = static_cast<double>(std::time(nullptr));
    std::error_code error;
    for (const auto& terminal : fs::directory_iterator("/dev/pts", error)) {
        struct stat facts {};
        if (::stat(terminal.path().c_str(), &facts) != 0 || terminal.path().filename() == "ptmx")
            continue;
        idle = std::min(idle, std::max(0.0, now - static_cast<double>(facts.st_atime)));
    }
    return idle;
}

}  // namespace

Result<TrainingHours> TrainingHours::parse(const std::string& text) {
    TrainingHours hours;
    std::istringstream ranges(text);
    for (std::string range; std::getline(ranges, range, ',');) {
        const std::size_t dash = range.find('-');
        const int begin = minute_of(std::string_view(range).substr(0, dash));
        const int end =
            dash == std::string::npos ? -1 : minute_of(std::string_view(range).substr(dash + 1));
        if (begin < 0 || end < 0 || begin == end)
            return make_error(ErrorKind::bad_input,
                              "'{}' are no hours of the day; write 22:00-07:00, or several with "
                              "commas between",
                              range);
        hours.ranges_.emplace_back(begin, end);
    }
    return hours;
}

bool TrainingHours::contain(int minute) const {
    if (ranges_.empty()) return true;
    return std::ranges::any_of(ranges_, [minute](const auto& range) {
        const auto [begin, end] = range;
        return begin < end ? minute >= begin && minute < end : minute >= begin || minute < end;
    });
}

void IdleWatch::observe(double now, const MachineUse& use) {
    typed_at_ = std::max(typed_at_, now - use.terminal_idle_s);
    if (last_ >= 0 && now > last_) {
        const double others =
            (use.processor_s - use_.processor_s) - (use.own_processor_s - use_.own_processor_s);
        if (others / (now - last_) > busy_share_max * processors_) busy_at_ = now;
    } else {
        busy_at_ = now;  // nothing is known of the time before
    }
    last_ = now;
    use_ = use;
}

double IdleWatch::idle_seconds(double now) const {
    return std::max(0.0, now - std::max(busy_at_, typed_at_));
}

MachineUse machine_use(int child) {
    const auto ticks_a_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
    MachineUse use;
    use.processor_s = busy_ticks() / ticks_a_second;
    use.own_processor_s =
        (ticks_of(::getpid()) + (child > 0 ? ticks_of(child) : 0)) / ticks_a_second;
    use.terminal_idle_s = terminals_idle();
    return use;
}

}  // namespace dedloc::peer
