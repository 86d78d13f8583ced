// Sections of the run file that belong to a task: [text], the sizes of a model, … What is in them
// is the task's affair; here they are tables of named values that are read strictly, hashed and
// compared.
//
// A task describes its section once, as a struct with a list of fields, and registers it
// (register_sections) before main() begins:
//
//   struct ModelKeys {
//       std::int64_t hidden = 1024;  // or std::uint64_t, double, bool, std::string
//       template <typename Visitor, typename Self>
//       static void fields(Visitor& visit, Self& self) {
//           visit("hidden", self.hidden, Integers{1, 1u << 20}, "width of a layer");
//       }
//   };
//   register_sections("my_task", {section_schema<ModelKeys>("model_sizes")});
//   const auto keys = keys_of<ModelKeys>(run.task, "model_sizes");
//
// A task that nobody registered is kept as it stands in the file: peers send the canonical form, so
// that its hash is right although nobody here knows what the values mean.
//
// Thread: registration before main(); then any. Errors: bad_input, from a schema's check.

#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/run/field_rules.h"

namespace dedloc::run {

// A file has at most so many sections and keys of a task.
inline constexpr std::size_t task_sections_max = 16;
inline constexpr std::size_t task_keys_max = 128;
inline constexpr std::size_t task_text_bytes_max = 4096;  // of one value that nobody registered

using SectionValue = std::variant<bool, std::uint64_t, double, std::string>;
using SectionRule = std::variant<std::monostate, Integers, Numbers, Text, Choice>;

struct Section {
    struct Field {
        std::string key;
        SectionValue value;
        friend bool operator==(const Field&, const Field&) = default;
    };
    std::string name;
    std::vector<Field> fields;  // in the schema's order

    const SectionValue* find(std::string_view key) const;
    friend bool operator==(const Section&, const Section&) = default;
};

struct SectionSchema {
    struct Field {
        std::string key;
        SectionValue initial;
        SectionRule rule;
        std::string comment;  // beside the key in what `dedloc init` writes; may be empty
    };
    std::string name;
    std::vector<Field> fields;

    Section defaults() const;
};

// The run file's [task] with the sections of that kind of task.
struct TaskConfig {
    std::string kind = "none";
    std::string model = "none";
    std::string data = "none";
    std::uint64_t seed = 1;
    // "bf16": products of a forward and backward pass are computed in it; parameters, sums of
    // gradients, optimizer and evaluation stay fp32. "fp16": the same, with a loss scale.
    std::string precision = "fp32";
    std::vector<Section> sections{};

    const Section* section(std::string_view name) const;
    void set_section(Section section);  // in place of one of that name, else after the others
};

using CheckTask = std::function<Ok(const TaskConfig&)>;

// Once a kind of task. `check` says what no single field's rule can; null: nothing.
void register_sections(std::string kind,
                       std::vector<SectionSchema> sections,
                       CheckTask check = nullptr);
// Sets what a run file without a section [task] trains; once.
void register_default_task(TaskConfig task);
const TaskConfig& default_task();
// Null: nobody registered that kind.
const std::vector<SectionSchema>* sections_of(std::string_view kind);
// Runs the check of the task's kind, if there is one.
Ok check_task(const TaskConfig& task);

// The sections of this task as they are hashed: those of its kind, with defaults for what is
// missing; of a kind that nobody registered, those that it has.
std::vector<Section> complete_sections(const TaskConfig& task);

namespace detail {

// Sizes that libtorch takes are signed. In a section they are whole numbers like others.
template <typename Value>
using Stored = std::conditional_t<std::is_same_v<Value, std::int64_t>, std::uint64_t, Value>;

struct SchemaCollector {
    SectionSchema schema;

    template <typename Value, typename Rule>
    void operator()(std::string_view key, Value& value, Rule rule, std::string_view comment = {}) {
        add(key, value, std::move(rule), comment);
    }
    void operator()(std::string_view key, bool& value, std::string_view comment = {}) {
        add(key, value, std::monostate(), comment);
    }
    template <typename Value>
    void add(std::string_view key, const Value& value, SectionRule rule, std::string_view comment) {
        schema.fields.push_back({std::string(key),
                                 SectionValue(Stored<Value>(value)),
                                 std::move(rule),
                                 std::string(comment)});
    }
};

struct KeysReader {
    const Section& section;

    template <typename Value, typename Rule>
    void operator()(std::string_view key, Value& value, const Rule&, std::string_view = {}) {
        take(key, value);
    }
    void operator()(std::string_view key, bool& value, std::string_view = {}) { take(key, value); }
    template <typename Value>
    void take(std::string_view key, Value& value) {
        const SectionValue* found = section.find(key);
        if (const auto* typed = found ? std::get_if<Stored<Value>>(found) : nullptr)
            value = static_cast<Value>(*typed);
    }
};

}  // namespace detail

template <typename Keys>
SectionSchema section_schema(std::string name) {
    detail::SchemaCollector collector{{std::move(name), {}}};
    Keys keys;
    Keys::fields(collector, keys);
    return std::move(collector.schema);
}

template <typename Keys>
Section section_from(std::string name, Keys keys) {
    detail::SchemaCollector collector{{std::move(name), {}}};
    Keys::fields(collector, keys);
    return collector.schema.defaults();
}

// Defaults where the task has no such section, or a value is missing.
template <typename Keys>
Keys keys_of(const TaskConfig& task, std::string_view name) {
    Keys keys;
    if (const Section* section = task.section(name)) {
        detail::KeysReader reader{*section};
        Keys::fields(reader, keys);
    }
    return keys;
}

// Shows a value with its rule to a visitor of fields.
template <typename Visitor, typename Value>
void visit_section_value(Visitor& visit,
                         std::string_view key,
                         Value& value,  // SectionValue, const or not
                         const SectionRule& rule) {
    if (auto* flag = std::get_if<bool>(&value)) {
        visit(key, *flag);
    } else if (auto* integer = std::get_if<std::uint64_t>(&value)) {
        visit(key, *integer, std::get<Integers>(rule));
    } else if (auto* number = std::get_if<double>(&value)) {
        visit(key, *number, std::get<Numbers>(rule));
    } else if (auto* text = std::get_if<std::string>(&value)) {
        if (const auto* choice = std::get_if<Choice>(&rule))
            visit(key, *text, *choice);
        else
            visit(key, *text, std::get<Text>(rule));
    }
}

}  // namespace dedloc::run
