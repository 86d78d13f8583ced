#include "dedloc/robust/cases.h"

#include <algorithm>
#include <utility>

namespace dedloc::robust {

std::size_t findings_needed(std::size_t voters) {
    if (voters == 1) return 1;
    return std::max<std::size_t>(2, voters == 0 ? 0 : (voters - 1) / 3 + 1);
}

Case::Case(std::vector<Row> rows, PeerId validator, std::set<PeerId> jury, double tolerance)
    : rows_(std::move(rows)),
      validator_(std::move(validator)),
      jury_(std::move(jury)),
      tolerance_(tolerance) {}

Ok Case::add(const PeerId& validator, std::vector<Row> recomputed) {
    if (!jury_.contains(validator))
        return make_error(ErrorKind::denied, "a finding of a peer that is not asked");
    if (recomputed.size() != rows_.size())
        return make_error(ErrorKind::peer_broke_protocol, "a finding with the wrong rows");
    const auto found = findings_.find(validator);
    if (found == findings_.end()) {
        findings_[validator] = std::move(recomputed);
        return {};
    }
    if (found->second == recomputed) return {};
    return make_error(ErrorKind::conflict, "two different findings of one validator");
}

bool Case::agrees_with_author(const PeerId& validator) const {
    return agree(rows_, findings_.at(validator), tolerance_);
}

bool Case::is_disputed() const {
    return std::ranges::any_of(
        findings_, [this](const auto& each) { return !agrees_with_author(each.first); });
}

std::vector<PeerId> Case::supporters() const {
    std::vector<PeerId> all;
    for (const auto& [validator, rows] : findings_)
        if (agrees_with_author(validator)) all.push_back(validator);
    return all;
}

std::vector<PeerId> Case::largest_dissent() const {
    std::vector<PeerId> largest;
    for (const auto& [centre, of_centre] : findings_) {
        if (agrees_with_author(centre)) continue;
        std::vector<PeerId> around;
        for (const auto& [validator, rows] : findings_)
            if (!agrees_with_author(validator) && agree(rows, of_centre, tolerance_))
                around.push_back(validator);
        if (around.size() > largest.size()) largest = std::move(around);
    }
    return largest;
}

Ruling Case::ruling(std::size_t needed) const {
    if (is_disputed()) {
        if (largest_dissent().size() >= needed) return Ruling::author_guilty;
        if (supporters().size() >= needed) return Ruling::accuser_guilty;
        return findings_.size() == jury_.size() ? Ruling::undecided : Ruling::disputed;
    }
    return findings_.contains(validator_) ? Ruling::right : Ruling::open;
}

std::vector<PeerId> Case::guilty() const {
    std::vector<PeerId> all;
    for (const auto& [validator, rows] : findings_)
        if (!agrees_with_author(validator)) all.push_back(validator);
    return all;
}

std::vector<PeerId> Case::witnesses(std::size_t needed) const {
    switch (ruling(needed)) {
        case Ruling::author_guilty:
            return largest_dissent();
        case Ruling::accuser_guilty:
            return supporters();
        default:
            return {};
    }
}

}  // namespace dedloc::robust
