// dedloc-lab: `dedloc lab` as a program of its own, for builds without the command line.

#include "lab/lab.h"

int main(int argc, char** argv) {
    return dedloc::lab::run(std::vector<std::string>(argv + 1, argv + argc), argv[0]);
}
