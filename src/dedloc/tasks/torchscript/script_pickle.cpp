#include "dedloc/tasks/torchscript/script_pickle.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace dedloc::tasks {

namespace {

// Names allowed beside the file's own modules.
constexpr std::string_view pickle_names[] = {"collections OrderedDict",
                                             "torch BFloat16Storage",
                                             "torch BoolStorage",
                                             "torch ByteStorage",
                                             "torch DoubleStorage",
                                             "torch FloatStorage",
                                             "torch HalfStorage",
                                             "torch IntStorage",
                                             "torch LongStorage",
                                             "torch ShortStorage",
                                             "torch.jit._pickle build_boollist",
                                             "torch.jit._pickle build_doublelist",
                                             "torch.jit._pickle build_intlist",
                                             "torch.jit._pickle build_tensorlist",
                                             "torch.jit._pickle restore_type_tag",
                                             "torch._utils _rebuild_tensor_v2",
                                             "torch device"};

enum class Stack { push, mark, to_mark, to_mark_under_one, none, stop };

// How a word is followed, and what it does to the stack.
struct Word {
    std::uint8_t code;
    std::size_t bytes;    // that follow it, of fixed number
    std::size_t counted;  // bytes of a count of more bytes; 0: none
    std::size_t needs;    // on the stack
    std::size_t takes;    // off it
    Stack then;
};

constexpr Word words[] = {
    {0x80, 1, 0, 0, 0, Stack::none},              // PROTO
    {'q', 1, 0, 1, 0, Stack::none},               // BINPUT
    {'r', 4, 0, 1, 0, Stack::none},               // LONG_BINPUT
    {'h', 1, 0, 0, 0, Stack::push},               // BINGET
    {'j', 4, 0, 0, 0, Stack::push},               // LONG_BINGET
    {'K', 1, 0, 0, 0, Stack::push},               // BININT1
    {'M', 2, 0, 0, 0, Stack::push},               // BININT2
    {'J', 4, 0, 0, 0, Stack::push},               // BININT
    {'G', 8, 0, 0, 0, Stack::push},               // BINFLOAT
    {'X', 0, 4, 0, 0, Stack::push},               // BINUNICODE
    {'T', 0, 4, 0, 0, Stack::push},               // BINSTRING
    {'U', 0, 1, 0, 0, Stack::push},               // SHORT_BINSTRING
    {0x8a, 0, 1, 0, 0, Stack::push},              // LONG1
    {'N', 0, 0, 0, 0, Stack::push},               // NONE
    {0x88, 0, 0, 0, 0, Stack::push},              // NEWTRUE
    {0x89, 0, 0, 0, 0, Stack::push},              // NEWFALSE
    {')', 0, 0, 0, 0, Stack::push},               // EMPTY_TUPLE
    {']', 0, 0, 0, 0, Stack::push},               // EMPTY_LIST
    {'}', 0, 0, 0, 0, Stack::push},               // EMPTY_DICT
    {'(', 0, 0, 0, 0, Stack::mark},               // MARK
    {'t', 0, 0, 0, 0, Stack::to_mark},            // TUPLE
    {0x85, 0, 0, 1, 1, Stack::push},              // TUPLE1
    {0x86, 0, 0, 2, 2, Stack::push},              // TUPLE2
    {0x87, 0, 0, 3, 3, Stack::push},              // TUPLE3
    {'a', 0, 0, 2, 1, Stack::none},               // APPEND
    {'e', 0, 0, 0, 0, Stack::to_mark_under_one},  // APPENDS
    {'s', 0, 0, 3, 2, Stack::none},               // SETITEM
    {'u', 0, 0, 0, 0, Stack::to_mark_under_one},  // SETITEMS
    {'b', 0, 0, 2, 1, Stack::none},               // BUILD
    {0x81, 0, 0, 2, 2, Stack::push},              // NEWOBJ
    {'R', 0, 0, 2, 2, Stack::push},               // REDUCE
    {'Q', 0, 0, 1, 1, Stack::push},               // BINPERSID
    {'.', 0, 0, 1, 0, Stack::stop},               // STOP
};

template <typename... Args>
Error bad_pickle(const std::string& name, fmt::format_string<Args...> text, Args&&... args) {
    return make_error(ErrorKind::bad_input,
                      "{} of the TorchScript file {}",
                      name,
                      fmt::format(text, std::forward<Args>(args)...));
}

class PickleWalk {
  public:
    PickleWalk(ByteView pickle, const std::string& name) : reader_(pickle), name_(name) {}

    Ok run() {
        while (!stopped_) {
            DEDLOC_TRY(const std::uint8_t code, reader_.u8());
            if (code == 'c') {  // GLOBAL
                DEDLOC_TRY_VOID(name_is_known());
                ++height_;
                continue;
            }
            const auto* word = std::ranges::find(words, code, &Word::code);
            if (word == std::end(words))
                return bad_pickle(
                    name_, "has a word 0x{:02x} that torch.jit.save writes nowhere", code);
            DEDLOC_TRY_VOID(skip(*word));
            DEDLOC_TRY_VOID(apply(*word));
        }
        if (!reader_.done()) return bad_pickle(name_, "goes on behind its end");
        return {};
    }

  private:
    Result<std::string_view> line() {
        const ByteView rest = reader_.rest();
        const auto end = std::ranges::find(rest, std::uint8_t{'\n'});
        if (end == rest.end()) return bad_pickle(name_, "is cut off");
        DEDLOC_TRY(const ByteView bytes,
                   reader_.take(static_cast<std::size_t>(end - rest.begin()) + 1));
        return base::as_text(bytes.first(bytes.size() - 1));
    }

    Ok name_is_known() {
        DEDLOC_TRY(const std::string_view module, line());
        DEDLOC_TRY(const std::string_view type, line());
        if (module == "__torch__" || module.starts_with("__torch__.")) return {};
        const std::string both = fmt::format("{} {}", module, type);
        if (std::ranges::find(pickle_names, both) != std::end(pickle_names)) return {};
        return bad_pickle(name_,
                          "asks for {}.{}, which no model needs",
                          module.substr(0, 64),
                          type.substr(0, 64));
    }

    Ok skip(const Word& word) {
        std::size_t count = word.bytes;
        if (word.counted > 0) {
            DEDLOC_TRY(const ByteView size, reader_.take(word.counted));
            for (std::size_t i = size.size(); i-- > 0;) count = count << 8 | size[i];
        }
        DEDLOC_TRY_VOID(reader_.take(count));
        return {};
    }

    Ok apply(const Word& word) {
        const std::size_t floor = marks_.empty() ? 0 : marks_.back();
        if (word.then == Stack::to_mark || word.then == Stack::to_mark_under_one) {
            const std::size_t under = word.then == Stack::to_mark ? 0 : 1;
            if (marks_.empty() || floor < under)
                return bad_pickle(name_, "takes what is not there");
            height_ = floor + (1 - under);
            marks_.pop_back();
            return {};
        }
        if (height_ < floor + word.needs) return bad_pickle(name_, "takes what is not there");
        height_ -= word.takes;
        if (word.then == Stack::push) ++height_;
        if (word.then == Stack::mark) marks_.push_back(height_);
        if (word.then == Stack::stop) stopped_ = true;
        return {};
    }

    base::ByteReader reader_;
    const std::string& name_;
    std::size_t height_ = 0;
    std::vector<std::size_t> marks_;
    bool stopped_ = false;
};

}  // namespace

Ok check_script_pickle(ByteView pickle, const std::string& name) {
    return PickleWalk(pickle, name).run();
}

}  // namespace dedloc::tasks
