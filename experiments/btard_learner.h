// Learners of the experiment with poisoned gradients: the demo's pictures and its small network,
// and around that learner what an attacker does to its own contributions.
//
// Attackers know each other: one that validates another finds it right. Attacks that need the
// others' gradients estimate them from the attackers' own, which are honest samples.
//
// Source: Gorbunov et al. 2022, attacks of the ResNet experiments; Xie et al. 2019 (inner-product
// manipulation); Baruch et al. 2019 (a little is enough).
// Thread: one; everything of one run shares its Conspiracy. Cost: that of the gradients.

#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "dedloc/tasks/vision_classifier/vision_models.h"
#include "dedloc/train/model.h"

namespace dedloc::lab {

enum class Attack {
    none,
    sign_flip,           // -1000 times its gradient
    label_flip,          // label y becomes 9 - y
    constant_direction,  // one direction, 1000 times as long as its gradient
    delayed,             // its gradient of a hundred steps ago
    inner_product_01,    // -0.1 times the mean of honest gradients
    inner_product_06,    // -0.6 times
    little_is_enough,    // the mean less some standard deviations
    colluding_pair,      // two of five: as sign_flip
    fixed_direction,     // one of five: always the same long vector
    new_keys,            // beside four: as sign_flip, and gone four steps later, again and again
};
inline constexpr Attack attacks[] = {Attack::none,
                                     Attack::sign_flip,
                                     Attack::label_flip,
                                     Attack::constant_direction,
                                     Attack::delayed,
                                     Attack::inner_product_01,
                                     Attack::inner_product_06,
                                     Attack::little_is_enough,
                                     Attack::colluding_pair,
                                     Attack::fixed_direction,
                                     Attack::new_keys};
std::string_view name_of(Attack attack);

// The attackers of one run agree on this, and share it.
struct Conspiracy {
    Attack attack = Attack::none;
    std::uint64_t from_step = 0;
    std::uint64_t until_step = ~std::uint64_t{0};
    std::set<PeerId> members;
    // A run with local updates: gradients are right, and what is handed in is not.
    bool at_hand_in = false;
    // Instead, of those that are given one: from which step until which.
    std::map<PeerId, std::pair<std::uint64_t, std::uint64_t>> own_time{};

    struct Statistics {
        std::uint64_t step = ~std::uint64_t{0};
        std::vector<float> mean;
        std::vector<float> deviation;
    };
    Statistics honest;  // of the newest step that was asked for
    // Each one's last contributions, by their first sample: the newest few.
    std::map<PeerId, std::deque<std::pair<std::uint64_t, std::vector<float>>>> sent;
    bool is_active(const PeerId& member, std::uint64_t step) const {
        const auto own = own_time.find(member);
        const auto [from, until] =
            own == own_time.end() ? std::pair(from_step, until_step) : own->second;
        return attack != Attack::none && step >= from && step < until;
    }
};

// How a peer prepares its pictures; it may be a mistake.
struct Preparation {
    bool flips_labels = false;
    float scale = 1;
    float shift = 0;
};

// The learner of the pictures, whose preparation may change on the way. It evaluates on the first
// `held_out_max` of the held-out pictures.
Result<std::unique_ptr<train::SampledModel>> make_picture_learner(
    std::shared_ptr<const tasks::FashionMnist> data,
    std::uint64_t seed,
    const PeerId& peer,
    std::shared_ptr<const Preparation> preparation,
    std::uint64_t held_out_max = ~std::uint64_t{0});

// An attacker's. `preparation` is the one that the learner inside was made with.
std::unique_ptr<train::SampledModel> make_attacker(std::unique_ptr<train::SampledModel> inside,
                                                   const PeerId& self,
                                                   std::shared_ptr<Preparation> preparation,
                                                   std::shared_ptr<Conspiracy> conspiracy);

// In a run with local updates: changes what a member hands in, and what it finds another one to
// have had to hand in. Attacks that need others' gradients are none here (is_on_sums).
void lie_at_hand_in(Conspiracy& conspiracy,
                    const PeerId& self,
                    std::uint64_t step,
                    collab::CounterRange samples,
                    std::span<float> sum);
void lie_in_check(const Conspiracy& conspiracy,
                  const PeerId& self,
                  const PeerId& author,
                  std::uint64_t step,
                  collab::CounterRange samples,
                  std::span<float> sum);
bool is_on_sums(Attack attack);

// Keeps the parameters at every `every` steps, for who evaluates them afterwards.
using KeptParameters = std::map<std::uint64_t, std::vector<float>>;
std::unique_ptr<train::SampledModel> make_keeper(std::unique_ptr<train::SampledModel> inside,
                                                 std::uint64_t every,
                                                 std::shared_ptr<KeptParameters> kept);

}  // namespace dedloc::lab
