// Checks what a TorchScript model does, twice: its source before it is loaded (loading runs
// nothing then), and its compiled graphs before they run. Both are held against script_words.h.
//
// Source: torch/csrc/jit/frontend/parser.h, which libtorch's own loader uses, so that nothing can
// be read in two ways.
// Thread: any. Cost: milliseconds. Errors: unsupported, with the operator's name; bad_input for
// what is no TorchScript.

#pragma once
#include <string>
#include <torch/csrc/jit/api/module.h>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"
#include "dedloc/tasks/torchscript/script_archive.h"

namespace dedloc::tasks {

// Bounds a statement: signs and words that join expressions, and brackets inside each other. Parser
// and compiler call themselves for each of these, and a stack has an end. Of a block: its depth.
inline constexpr std::size_t script_joints_max = 1000;
inline constexpr std::size_t script_depth_max = 64;
// Operators that one call of forward() runs, those of called functions counted each time.
inline constexpr std::uint64_t script_operators_max = 1u << 18;

// All sources and pickles of the file.
Ok check_script_archive(ByteView file);
// All functions that forward() reaches.
Ok check_script_graphs(const torch::jit::Module& module);

}  // namespace dedloc::tasks
