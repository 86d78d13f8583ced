// Where libtorch comes from an installed PyTorch: in the wheel and in the portable archive. There a
// file beside the trainer says which version it was built with ("2.15"); C++ of one version of
// libtorch does not fit another's. Debian's packages have no such file, and need nothing of this.
//
// libtorch is looked for where the wheel is installed (site-packages/torch, which the trainer finds
// by itself), in DEDLOC_TORCH, and where `python3` has it. Python is asked without importing
// anything.
//
// Thread: the main thread, before there are others: it sets LD_LIBRARY_PATH for the trainer.
// Errors: cannot_compute: there is none, or one of another version, and what to install.

#pragma once
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::peer {

inline constexpr const char* trainer_torch_file = "dedloc-trainer.torch";

// The folder of libtorch's libraries, for a trainer in `programs`. Empty: the trainer finds it
// by itself.
Result<std::string> libtorch_for(const std::string& programs);

// Tells the trainer beside this program where libtorch is.
Ok prepare_libtorch();

}  // namespace dedloc::peer
