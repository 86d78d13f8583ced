// How texts stand in scripts and manifests.
//
// Thread: any; pure.

#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dedloc::fleet {

// True: the text means itself to every shell, to sbatch and to ssh, as it has the letters of names
// and paths alone and is no option.
bool is_plain_word(std::string_view text);

// The words as one line for a shell, which reads each as it is.
std::string shell_line(const std::vector<std::string>& words);

// A name as Kubernetes, Slurm and machines take it: a-z, 0-9 and '-', a letter first.
std::string label_of(std::string_view name);

}  // namespace dedloc::fleet
