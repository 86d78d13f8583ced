#include "dedloc/base/shell_quoted.h"

namespace dedloc::base {

std::string shell_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char letter : text) {
        if (letter == '\'')
            quoted += "'\\''";
        else
            quoted += letter;
    }
    return quoted + "'";
}

}  // namespace dedloc::base
