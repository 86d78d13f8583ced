// The pickles of a TorchScript file, walked before libtorch reads them: only the words that
// torch.jit.save writes, no name that is not a module of the file or a tensor, and no word that
// takes more off the stack than there is.
//
// Source: CPython's pickletools; torch/csrc/jit/serialization/unpickler.cpp.
// Thread: any; pure. Cost: one pass. Errors: bad_input, with the entry's name and what it asks for.

#pragma once
#include <string>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::tasks {

Ok check_script_pickle(ByteView pickle, const std::string& name);

}  // namespace dedloc::tasks
