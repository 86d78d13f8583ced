#include "dedloc/run/task_section.h"

#include <algorithm>
#include <map>

#include "dedloc/base/check.h"

namespace dedloc::run {

namespace {

struct Kind {
    std::vector<SectionSchema> sections;
    CheckTask check;
};
using Kinds = std::map<std::string, Kind, std::less<>>;

// A function's own, so that registrations of other sources find it made.
Kinds& all_kinds() {
    static Kinds kinds;
    return kinds;
}

const Kind* find_kind(std::string_view name) {
    const auto found = all_kinds().find(name);
    return found == all_kinds().end() ? nullptr : &found->second;
}

TaskConfig& stored_default() {
    static TaskConfig task;
    return task;
}

}  // namespace

const SectionValue* Section::find(std::string_view key) const {
    const auto found = std::ranges::find(fields, key, &Field::key);
    return found == fields.end() ? nullptr : &found->value;
}

Section SectionSchema::defaults() const {
    Section section{name, {}};
    for (const Field& field : fields) section.fields.push_back({field.key, field.initial});
    return section;
}

const Section* TaskConfig::section(std::string_view name) const {
    const auto found = std::ranges::find(sections, name, &Section::name);
    return found == sections.end() ? nullptr : &*found;
}

void TaskConfig::set_section(Section section) {
    const auto found = std::ranges::find(sections, section.name, &Section::name);
    if (found == sections.end())
        sections.push_back(std::move(section));
    else
        *found = std::move(section);
}

void register_sections(std::string kind, std::vector<SectionSchema> sections, CheckTask check) {
    const bool added =
        all_kinds().emplace(std::move(kind), Kind{std::move(sections), std::move(check)}).second;
    DEDLOC_CHECK(added, "a task is registered twice");
}

void register_default_task(TaskConfig task) { stored_default() = std::move(task); }

const TaskConfig& default_task() { return stored_default(); }

const std::vector<SectionSchema>* sections_of(std::string_view kind) {
    const Kind* found = find_kind(kind);
    return found ? &found->sections : nullptr;
}

Ok check_task(const TaskConfig& task) {
    const Kind* kind = find_kind(task.kind);
    return kind && kind->check ? kind->check(task) : Ok();
}

std::vector<Section> complete_sections(const TaskConfig& task) {
    const std::vector<SectionSchema>* schema = sections_of(task.kind);
    if (!schema) return task.sections;
    std::vector<Section> sections;
    for (const SectionSchema& wanted : *schema) {
        sections.push_back(wanted.defaults());
        const Section* given = task.section(wanted.name);
        if (!given) continue;
        for (Section::Field& field : sections.back().fields) {
            const SectionValue* value = given->find(field.key);
            if (value && value->index() == field.value.index()) field.value = *value;
        }
    }
    return sections;
}

}  // namespace dedloc::run
