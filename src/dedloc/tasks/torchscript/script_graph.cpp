#include "dedloc/tasks/torchscript/script_graph.h"

#include <cctype>
#include <map>
#include <set>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/parser.h>
#include <torch/csrc/jit/ir/ir.h>

#include "dedloc/tasks/torchscript/script_pickle.h"
#include "dedloc/tasks/torchscript/script_words.h"

namespace dedloc::tasks {

namespace {

namespace jit = torch::jit;

Error refused_operator(std::string_view name) {
    return make_error(ErrorKind::unsupported,
                      "the TorchScript model uses {}, which is not among the operators that a "
                      "model may use here: it may compute, and not loop, print, or reach files, "
                      "Python or other machines",
                      name);
}

Error no_source(const std::string& name, std::string_view why) {
    return make_error(ErrorKind::bad_input, "{} of the TorchScript file {}", name, why);
}

// Looks at a source without a parser: how deep would one go?
class NestingWatch {
  public:
    Ok check(const std::string& name, std::string_view text) {
        for (const char c : text) {
            if (!is_fine(c)) return no_source(name, "is nested too deeply");
        }
        return {};
    }

  private:
    bool is_fine(char c) {
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
            word_ += c;
        } else {
            for (const std::string_view joint : {"and", "or", "not", "if", "else", "is", "in"})
                joints_ += word_ == joint ? 1 : 0;
            word_.clear();
        }
        if (c == '\n') {
            indent_ = 0;
            begins_ = true;
            if (depth_ == 0) joints_ = 0;  // inside of brackets the statement goes on
        } else if (begins_ && c == ' ') {
            ++indent_;
        } else {
            begins_ = false;
        }
        constexpr std::string_view signs = "+-*/%<>=&|^~.!@";
        if (signs.find(c) != std::string_view::npos) ++joints_;
        if (c == '(' || c == '[' || c == '{') ++depth_;
        if ((c == ')' || c == ']' || c == '}') && depth_ > 0) --depth_;
        return joints_ <= script_joints_max && depth_ <= script_depth_max &&
               indent_ <= 2 * script_depth_max && word_.size() <= script_name_bytes_max;
    }

    std::string word_;
    std::size_t joints_ = 0;
    std::size_t depth_ = 0;
    std::size_t indent_ = 0;
    bool begins_ = true;
};

// Kinds of the parser's trees that no model may have.
std::string_view refused_kind(int kind) {
    switch (kind) {
        case jit::TK_WHILE:
            return "a loop (while)";
        case jit::TK_FOR:
            return "a loop (for)";
        case jit::TK_LIST_COMP:
            return "a loop (list comprehension)";
        case jit::TK_DICT_COMP:
            return "a loop (dict comprehension)";
        case jit::TK_WITH:
            return "with";
        case jit::TK_IMPORT:
            return "import";
        case jit::TK_GLOBAL:
            return "global";
        default:
            return {};
    }
}

class SourceWalk {
  public:
    Ok parse(const std::string& name, const std::string& text) {
        jit::Parser parser(std::make_shared<jit::Source>(text, name));
        while (parser.lexer().cur().kind != jit::TK_EOF) {
            const int kind = parser.lexer().cur().kind;
            if (kind == jit::TK_CLASS_DEF)
                trees_.push_back(parser.parseClass());
            else if (kind == jit::TK_DEF)
                trees_.push_back(parser.parseFunction(/*is_method=*/false));
            else
                return no_source(name, "has something beside classes and functions");
            collect(trees_.back());
        }
        return {};
    }

    Ok check() const {
        for (const jit::TreeRef& tree : trees_) DEDLOC_TRY_VOID(walk(tree));
        return {};
    }

  private:
    void collect(const jit::TreeRef& tree) {
        if (tree->isAtom()) return;
        if (tree->kind() == jit::TK_DEF) defined_.insert(jit::Def(tree).name().name());
        for (const jit::TreeRef& child : tree->trees()) collect(child);
    }

    // "torch.conv2d" of a tree of selections; empty for another one.
    static std::string path_of(const jit::TreeRef& tree) {
        if (tree->kind() == jit::TK_VAR) return jit::Var(tree).name().name();
        if (tree->kind() != '.') return {};
        const std::string before = path_of(jit::Select(tree).value().tree());
        return before.empty() ? before : before + "." + jit::Select(tree).selector().name();
    }

    static Ok check_path(const std::string& path) {
        if (path.starts_with("torch.")) {
            const std::string name = "aten::" + path.substr(6);
            return is_allowed_operator(name) ? Ok() : refused_operator(name);
        }
        if (!path.starts_with("ops.")) return {};
        std::string name = path.substr(4);
        const std::size_t dot = name.find('.');
        if (dot == std::string::npos) return {};  // a part of a longer one, which is looked at
        name.replace(dot, 1, "::");
        return is_allowed_operator(name) ? Ok() : refused_operator(name);
    }

    Ok check_call(const jit::TreeRef& callee) const {
        if (callee->kind() != '.') return {};
        const std::string path = path_of(callee);
        const std::string head = path.substr(0, path.find('.'));
        if (head == "torch" || head == "ops" || head == "__torch__") return {};
        const std::string name = jit::Select(callee).selector().name();
        if (defined_.contains(name) || is_allowed_operator("aten::" + name) ||
            is_allowed_operator("prim::" + name))
            return {};
        return refused_operator("aten::" + name);
    }

    Ok walk(const jit::TreeRef& tree) const {
        if (tree->isAtom()) return {};
        const int kind = tree->kind();
        if (const std::string_view refused = refused_kind(kind); !refused.empty())
            return refused_operator(refused);
        if (kind == jit::TK_DEF) {
            const std::string name = jit::Def(tree).name().name();
            // The loader calls these.
            if (name == "__setstate__" || name == "__getstate__") return refused_operator(name);
        }
        if (kind == '.') DEDLOC_TRY_VOID(check_path(path_of(tree)));
        if (kind == jit::TK_APPLY) DEDLOC_TRY_VOID(check_call(jit::Apply(tree).callee().tree()));
        for (const jit::TreeRef& child : tree->trees()) DEDLOC_TRY_VOID(walk(child));
        return {};
    }

    std::vector<jit::TreeRef> trees_;
    std::set<std::string> defined_;
};

// Counts what runs, and looks at each operator once.
class GraphWalk {
  public:
    Ok check(jit::Function& function, std::uint64_t& count) {
        const auto known = counts_.find(&function);
        if (known != counts_.end()) {
            count = known->second;
            return {};
        }
        if (!function.isGraphFunction())
            return refused_operator(function.qualname().qualifiedName());
        counts_[&function] = 0;  // should one call itself, this ends all the same
        DEDLOC_TRY_VOID(check_block(*jit::toGraphFunction(function).graph()->block(), count));
        counts_[&function] = count;
        return {};
    }

  private:
    Ok check_block(const jit::Block& block, std::uint64_t& count) {
        for (const jit::Node* node : block.nodes()) {
            const std::string_view kind = node->kind().toQualString();
            if (!is_allowed_operator(kind)) return refused_operator(kind);
            ++count;
            for (const jit::Block* inner : node->blocks())
                DEDLOC_TRY_VOID(check_block(*inner, count));
            if (jit::Function* called = called_by(*node)) {
                std::uint64_t inside = 0;
                DEDLOC_TRY_VOID(check(*called, inside));
                count += inside;
            }
            if (count > script_operators_max)
                return make_error(ErrorKind::unsupported,
                                  "the TorchScript model runs more than {} operators at a time",
                                  script_operators_max);
        }
        return {};
    }

    static jit::Function* called_by(const jit::Node& node) {
        if (node.kind() == c10::prim::CallFunction)
            return node.input(0)->type()->expect<c10::FunctionType>()->function();
        if (node.kind() != c10::prim::CallMethod) return nullptr;
        const auto type = node.input(0)->type()->cast<c10::ClassType>();
        if (!type) throw std::runtime_error("a method of an interface is called");
        return &type->getMethod(node.s(c10::attr::name));
    }

    std::map<const jit::Function*, std::uint64_t> counts_;
};

}  // namespace

Ok check_script_archive(ByteView file) {
    DEDLOC_TRY(const ScriptArchive archive, ScriptArchive::parse(file));
    SourceWalk walk;
    try {
        for (const ScriptEntry& entry : archive.entries()) {
            if (!entry.is_source() && !entry.is_pickle()) continue;
            DEDLOC_TRY(const Bytes bytes, ScriptArchive::unpack(entry));
            if (entry.is_pickle()) {
                DEDLOC_TRY_VOID(check_script_pickle(bytes, entry.name));
                continue;
            }
            const std::string text(base::as_text(bytes));
            DEDLOC_TRY_VOID(NestingWatch().check(entry.name, text));
            DEDLOC_TRY_VOID(walk.parse(entry.name, text));
        }
        return walk.check();
    } catch (const std::exception& failure) {
        const std::string_view why = failure.what();
        return no_source("the code",
                         fmt::format("cannot be read: {}", why.substr(0, why.find('\n'))));
    }
}

Ok check_script_graphs(const jit::Module& module) {
    try {
        const auto forward = module.find_method("forward");
        if (!forward) return no_source("the code", "has no forward()");
        GraphWalk walk;
        std::uint64_t count = 0;
        return walk.check(forward->function(), count);
    } catch (const std::exception& failure) {
        const std::string_view why = failure.what();
        return no_source("the code",
                         fmt::format("cannot be used: {}", why.substr(0, why.find('\n'))));
    }
}

}  // namespace dedloc::tasks
