#include "dedloc/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace dedloc::base {

void check_failed(const char* expression, const char* file, int line, std::string_view details) {
    std::fprintf(stderr,
                 "dedloc: internal error (a bug in dedloc, please report it): %s at %s:%d%s%.*s\n",
                 expression,
                 file,
                 line,
                 details.empty() ? "" : ": ",
                 static_cast<int>(details.size()),
                 details.data());
    std::fflush(stderr);
    std::abort();
}

}  // namespace dedloc::base
