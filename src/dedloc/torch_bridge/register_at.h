// A parameter by its path: a name with dots is a place in a tree of modules, as it is for Python's,
// so that a C++ model's parameters have the names of Hugging Face's files.
//
// Only for files that see libtorch. Thread: one at a time.

#pragma once
#include <memory>
#include <string>
#include <utility>

#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::torch_bridge {

inline torch::Tensor register_at(torch::nn::Module& root,
                                 const std::string& path,
                                 torch::Tensor values) {
    torch::nn::Module* module = &root;
    std::size_t begin = 0;
    for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
        const std::string name = path.substr(begin, dot - begin);
        const auto children = module->named_children();
        const auto* child = children.find(name);
        module =
            child ? child->get()
                  : module->register_module(name, std::make_shared<torch::nn::Module>(name)).get();
        begin = dot + 1;
    }
    return module->register_parameter(path.substr(begin), std::move(values));
}

}  // namespace dedloc::torch_bridge
