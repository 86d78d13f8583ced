// The parts of libtorch that dedloc uses. All of it, <torch/torch.h>, costs the compiler two more
// seconds in every source, beside the precompiled header's own (this one is precompiled).

#pragma once
#include <torch/autograd.h>
#include <torch/cuda.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>
