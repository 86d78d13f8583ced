#include "tests/process/janitor.h"

namespace dedloc::lab {
namespace {

// Lines of two words: what to do, and with what. Names are split at line ends only, so that a
// folder's name may have spaces.
constexpr const char* shell_script = R"(exec setsid /bin/sh -fc '
list=
kept=
end="
"
while read -r verb name; do
    case $verb in
        keep) kept="$kept$end$name$end" ;;
        *) list="$list$verb $name$end" ;;
    esac
done
IFS=$end
for line in $list; do
    name=${line#* }
    case $kept in *"$end$name$end"*) continue ;; esac
    case $line in
        "netns "*) ip netns del "$name" ;;
        "folder "*) rm -rf -- "$name" ;;
    esac
done >/dev/null 2>&1
')";

}  // namespace

Janitor::~Janitor() {
    if (shell_ != nullptr) ::pclose(shell_);
}

Ok Janitor::remove_namespace(const std::string& netns) { return tell("netns " + netns); }
Ok Janitor::remove_folder(const std::string& path) { return tell("folder " + path); }
void Janitor::keep(const std::string& what) { (void)tell("keep " + what); }

Ok Janitor::tell(const std::string& line) {
    if (shell_ == nullptr) shell_ = ::popen(shell_script, "we");
    if (shell_ == nullptr || line.find('\n') != std::string::npos ||
        std::fputs((line + "\n").c_str(), shell_) < 0 || std::fflush(shell_) != 0)
        return make_error(ErrorKind::local_fault, "cannot start a shell that tidies up");
    return {};
}

}  // namespace dedloc::lab
