#include "dedloc/peer/trainer_program.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

#include "dedloc/tasks/registry.h"

namespace dedloc::peer {

namespace {

bool computes_all() {
    return std::ranges::all_of(tasks::task_kinds(), [](const std::string& kind) {
        return tasks::find_task(kind)->make != nullptr;
    });
}

// As they were given: what main() made of them may have changed.
std::vector<std::string> own_arguments() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');) words.push_back(std::move(word));
    return words;
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

std::string path_of_trainer() {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? std::string() : (self.parent_path() / trainer_name).string();
}

}  // namespace

bool lacks_trainer() { return !computes_all() && ::access(path_of_trainer().c_str(), X_OK) != 0; }

void become_trainer(const std::string& line) {
    if (computes_all()) return;
    const std::string trainer = path_of_trainer();
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
