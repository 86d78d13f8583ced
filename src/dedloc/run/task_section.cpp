#include "dedloc/run/task_section.h"

#include <algorithm>
#include <map>

#include "dedloc/base/check.h"

namespace dedloc::run {

namespace {

using TaskSchemas = std::map<std::string, TaskSchema, std::less<>>;

// A function's own, so that registrations of other sources find it made.
TaskSchemas& task_schemas() {
    static TaskSchemas schemas;
    return schemas;
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

void register_task_schema(TaskSchema schema) {
    std::string kind = schema.kind;
    const bool added = task_schemas().emplace(std::move(kind), std::move(schema)).second;
    DEDLOC_CHECK(added, "a task is registered twice");
}

void register_default_task(TaskConfig task) { stored_default() = std::move(task); }

const TaskConfig& default_task() { return stored_default(); }

const TaskSchema* find_task_schema(std::string_view kind) {
    const auto found = task_schemas().find(kind);
    return found == task_schemas().end() ? nullptr : &found->second;
}

std::vector<Section> complete_sections(const TaskConfig& task) {
    const TaskSchema* schema = find_task_schema(task.kind);
    if (!schema) return task.sections;
    std::vector<Section> sections;
    for (const SectionSchema& wanted : schema->sections) {
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
