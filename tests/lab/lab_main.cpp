// dedloc-lab: the developers' program. It starts the `dedloc` beside it where it needs peers.

#include "dedloc/runtime/open_files.h"

#include "tests/lab/lab.h"

int main(int argc, char** argv) {
    dedloc::runtime::raise_open_files();
    return dedloc::lab::run(std::vector<std::string>(argv + 1, argv + argc), argv[0]);
}
