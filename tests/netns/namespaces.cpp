#include "tests/netns/namespaces.h"

#include <atomic>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <unistd.h>

#include "dedloc/runtime/child_process.h"

namespace dedloc::lab {
namespace {

constexpr double script_seconds_max = 30;

}  // namespace

Ok run_script(const std::string& script) {
    std::string file = "/tmp/dedloc-nat-XXXXXX";
    const int fd = ::mkstemp(file.data());
    if (fd < 0) return make_error(ErrorKind::local_fault, "cannot make a temporary file");
    ::close(fd);
    runtime::ChildOptions options;
    options.command = {"/bin/sh", "-euc", script};
    options.output_file = "/dev/null";
    options.error_file = file;
    auto child = runtime::ChildProcess::start(options);
    bool fine = false;
    if (child) {
        const bool ended = child->wait_for(script_seconds_max);
        fine = ended && child->end() && child->end()->exit_code == 0 && child->end()->signal == 0;
    }
    std::ifstream said(file);
    const std::string error{std::istreambuf_iterator<char>(said), {}};
    ::unlink(file.c_str());
    if (fine) return {};
    if (!child) return std::move(child).error();
    return make_error(ErrorKind::local_fault, "a command of the test bed failed: {}", error);
}

Namespaces::Namespaces(std::string_view kind) {
    static std::atomic<int> made = 0;
    stem_ = fmt::format("{}{}-{}-", kind, ::getpid(), ++made);
}

Namespaces::~Namespaces() {
    std::string script;
    for (const std::string& netns : made_)
        script += fmt::format("ip netns del {} || true\n", netns);
    (void)run_script(script);
}

std::string Namespaces::name(std::string_view role) const {
    return fmt::format("{}{}", stem_, role);
}

Ok Namespaces::add(const std::vector<std::string>& names) {
    for (const std::string& netns : names) {
        DEDLOC_TRY_VOID(janitor_.remove_namespace(netns));
        DEDLOC_TRY_VOID(
            run_script(fmt::format("ip netns add {0}; ip -n {0} link set lo up", netns)));
        made_.push_back(netns);
    }
    return {};
}

std::vector<std::string> Namespaces::prefix(const std::string& netns) {
    return {ip_program, "netns", "exec", netns};
}

}  // namespace dedloc::lab
