#include "dedloc/text/entity_score.h"

#include <algorithm>

#include "dedloc/base/check.h"

namespace dedloc::text {

namespace {

struct SplitLabel {
    char place = 'O';  // B, I or O
    std::string_view type;
};

SplitLabel split_label(std::string_view text) {
    if (text.empty() || text.front() == 'O') return {};
    SplitLabel label{text.front(), text.substr(1)};
    if (label.type.starts_with('-')) label.type.remove_prefix(1);
    if (label.type.empty()) label.type = "_";
    return label;
}

}  // namespace

std::vector<Entity> entities_of(const std::vector<std::string>& labels) {
    std::vector<Entity> entities;
    bool open = false;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        const SplitLabel label = split_label(labels[i]);
        if (label.place == 'O') {
            open = false;
        } else if (open && label.place == 'I' && label.type == entities.back().type) {
            entities.back().last = i;
        } else {
            entities.push_back({std::string(label.type), i, i});
            open = true;
        }
    }
    return entities;
}

void EntityScore::add(const std::vector<std::string>& truth,
                      const std::vector<std::string>& predicted) {
    DEDLOC_CHECK(truth.size() == predicted.size());
    words_ += truth.size();
    for (std::size_t i = 0; i < truth.size(); ++i) right_ += truth[i] == predicted[i] ? 1 : 0;
    const std::vector<Entity> wanted = entities_of(truth);
    for (const Entity& entity : wanted) {
        ++total_.present;
        ++by_type_[entity.type].present;
    }
    for (const Entity& entity : entities_of(predicted)) {
        EntityCounts& of_type = by_type_[entity.type];
        ++total_.predicted;
        ++of_type.predicted;
        if (std::ranges::find(wanted, entity) == wanted.end()) continue;
        ++total_.found;
        ++of_type.found;
    }
}

}  // namespace dedloc::text
