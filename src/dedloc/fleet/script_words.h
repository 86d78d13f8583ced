// How texts stand in scripts and manifests.
//
// Thread: any; pure.

#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dedloc::fleet {

// Means itself to every shell, to sbatch and to ssh: letters of names and paths alone, and no
// option.
bool is_plain_word(std::string_view text);

// One word of a shell, whatever is in it.
std::string shell_quoted(std::string_view text);
// Words of a command line.
std::string shell_line(const std::vector<std::string>& words);

// A name as Kubernetes, Slurm and machines take it: a-z, 0-9 and '-', a letter first.
std::string label_of(std::string_view name);

}  // namespace dedloc::fleet
