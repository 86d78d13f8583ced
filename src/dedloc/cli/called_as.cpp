#include "dedloc/cli/called_as.h"

#include <fstream>

namespace dedloc::cli {

std::string called_as() {
    std::ifstream words("/proc/self/cmdline", std::ios::binary);
    std::string first;
    std::getline(words, first, '\0');
    return first.empty() ? "dedloc" : first;
}

}  // namespace dedloc::cli
