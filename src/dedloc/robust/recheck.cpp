#include "dedloc/robust/recheck.h"

#include <algorithm>
#include <utility>

namespace dedloc::robust {

std::size_t findings_needed(std::size_t voters) {
    if (voters == 1) return 1;
    return std::max<std::size_t>(2, voters == 0 ? 0 : (voters - 1) / 3 + 1);
}

Recheck::Recheck(std::vector<Row> rows,
                 PeerId validator,
                 std::set<PeerId> eligible,
                 double tolerance)
    : rows_(std::move(rows)),
      validator_(std::move(validator)),
      eligible_(std::move(eligible)),
      tolerance_(tolerance) {}

Ok Recheck::add(const PeerId& validator, std::vector<Row> recomputed) {
    if (!eligible_.contains(validator))
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

bool Recheck::agrees_with_author(const PeerId& validator) const {
    return agree(rows_, findings_.at(validator), tolerance_);
}

bool Recheck::is_disputed() const {
    return std::ranges::any_of(
        findings_, [this](const auto& each) { return !agrees_with_author(each.first); });
}

std::vector<PeerId> Recheck::supporters() const {
    std::vector<PeerId> all;
    for (const auto& [validator, rows] : findings_)
        if (agrees_with_author(validator)) all.push_back(validator);
    return all;
}

std::vector<PeerId> Recheck::largest_dissent() const {
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

RecheckResult Recheck::result(std::size_t needed) const {
    if (is_disputed()) {
        if (largest_dissent().size() >= needed) return RecheckResult::author_guilty;
        if (supporters().size() >= needed) return RecheckResult::accuser_guilty;
        return findings_.size() == eligible_.size() ? RecheckResult::undecided
                                                    : RecheckResult::disputed;
    }
    return findings_.contains(validator_) ? RecheckResult::right : RecheckResult::open;
}

std::vector<PeerId> Recheck::guilty() const {
    std::vector<PeerId> all;
    for (const auto& [validator, rows] : findings_)
        if (!agrees_with_author(validator)) all.push_back(validator);
    return all;
}

std::vector<PeerId> Recheck::witnesses(std::size_t needed) const {
    switch (result(needed)) {
        case RecheckResult::author_guilty:
            return largest_dissent();
        case RecheckResult::accuser_guilty:
            return supporters();
        default:
            return {};
    }
}

}  // namespace dedloc::robust
