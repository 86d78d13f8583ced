#include "dedloc/peer/trainer_program.h"

#include <algorithm>
#include <fcntl.h>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

#include "dedloc/peer/called_as.h"
#include "dedloc/peer/installed_torch.h"
#include "dedloc/runtime/program_beside.h"
#include "dedloc/tasks/registry.h"

namespace dedloc::peer {

namespace {

bool computes_all() {
    return std::ranges::all_of(tasks::task_kinds(), [](const std::string& kind) {
        return tasks::find_task(kind)->make != nullptr;
    });
}

// A join string is shorter than what a pipe holds. Where it fails, the trainer asks for the line.
void put_on_standard_input(const std::string& line) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
    if (::write(ends[1], line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
        ::fcntl(ends[0], F_SETFL, 0) == 0)
        (void)::dup2(ends[0], STDIN_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
}

}  // namespace

bool lacks_trainer() {
    return !computes_all() && ::access(runtime::program_beside(trainer_name).c_str(), X_OK) != 0;
}

Ok prepare_trainer() {
    if (computes_all()) return {};
    return prepare_libtorch();
}

void become_trainer(const std::string& line) {
    if (computes_all()) return;
    const std::string trainer = runtime::program_beside(trainer_name);
    std::vector<std::string> words = own_arguments();
    if (!line.empty() && std::ranges::find(words, "-") != words.end())
        put_on_standard_input(line + "\n");
    std::vector<char*> arguments;
    std::ranges::transform(
        words, std::back_inserter(arguments), [](std::string& word) { return word.data(); });
    arguments.push_back(nullptr);
    // Where there is none, the command says what this build lacks.
    ::execv(trainer.c_str(), arguments.data());
}

}  // namespace dedloc::peer
