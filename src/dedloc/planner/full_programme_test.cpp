// Splits against somebody else: GLPK on the paper's full programme, with a variable for each
// ordered pair and each kind of traffic, a thousand random networks of each sort.

#include <algorithm>
#include <cmath>
#include <functional>
#include <glpk.h>
#include <gtest/gtest.h>
#include <numeric>

#include "dedloc/base/random.h"
#include "dedloc/planner/split.h"

namespace dedloc::planner {
namespace {

constexpr double nothing_travels = -1;
constexpr double difference_max = 1e-9;

struct Network {
    std::vector<PeerRates> peers;
    std::vector<LinkLimit> links;
};

// a_ij: what i sends j of its own gradient; g_ij: what i sends j of the averages that i reduced.
//   maximise X;  X <= sum_j g_ji for every receiver i;  g_ij <= a_ki for every contributor k;
//   sum_j (a_ij + g_ij) <= u_i;  sum_j (a_ji + g_ji) <= d_i;  a_ij + g_ij <= t_ij
class FullProgramme {
  public:
    enum class Owners {
        any,            // as in the paper: receivers may take a range from different owners
        one_each_range  // g_ij the same for all receivers j: what a round can carry out
    };

    FullProgramme(const Network& network, Owners owners) : network_(network) {
        glp_term_out(GLP_OFF);
        programme_ = glp_create_prob();
        glp_set_obj_dir(programme_, GLP_MAX);
        size_ = network.peers.size();
        glp_add_cols(programme_, static_cast<int>(2 * size_ * size_ + 1));
        total_ = static_cast<int>(2 * size_ * size_ + 1);
        glp_set_col_bnds(programme_, total_, GLP_LO, 0, 0);
        glp_set_obj_coef(programme_, total_, 1);
        for (std::size_t i = 0; i < size_; ++i) {
            for (std::size_t j = 0; j < size_; ++j) {
                const PeerRates& from = peer(i);
                const PeerRates& to = peer(j);
                allow(gradient(i, j), from.contributes && to.owns_allowed);
                allow(average(i, j), from.owns_allowed && to.receives);
            }
        }
        for (std::size_t i = 0; i < size_; ++i) add_peer(i);
        for (const LinkLimit& link : network.links)
            add_row({{gradient(link.from, link.to), 1}, {average(link.from, link.to), 1}},
                    GLP_UP,
                    link.per_s);
        if (owners == Owners::one_each_range) tie_averages();
    }
    ~FullProgramme() { glp_delete_prob(programme_); }
    FullProgramme(const FullProgramme&) = delete;
    FullProgramme& operator=(const FullProgramme&) = delete;

    double largest_total(bool exactly = false) {
        glp_smcp parameters;
        glp_init_smcp(&parameters);
        parameters.msg_lev = GLP_MSG_OFF;
        parameters.tol_bnd = 1e-12;
        parameters.tol_dj = 1e-12;
        EXPECT_EQ(glp_simplex(programme_, &parameters), 0);
        if (exactly) {
            EXPECT_EQ(glp_exact(programme_, &parameters), 0);  // from there on in fractions
        }
        if (glp_get_status(programme_) == GLP_UNBND) return nothing_travels;
        EXPECT_EQ(glp_get_status(programme_), GLP_OPT);
        return glp_get_obj_val(programme_);
    }

  private:
    struct Term {
        int column;
        double factor;
    };

    const PeerRates& peer(std::size_t i) const { return network_.peers[i]; }
    int gradient(std::size_t i, std::size_t j) const { return static_cast<int>(1 + i * size_ + j); }
    int average(std::size_t i, std::size_t j) const {
        return static_cast<int>(1 + (size_ + i) * size_ + j);
    }
    void allow(int column, bool yes) {
        glp_set_col_bnds(programme_, column, yes ? GLP_LO : GLP_FX, 0, 0);
    }
    void add_row(const std::vector<Term>& terms, int kind, double bound) {
        std::vector<int> columns = {0};
        std::vector<double> factors = {0};
        for (const Term& term : terms) {
            columns.push_back(term.column);
            factors.push_back(term.factor);
        }
        const int row = glp_add_rows(programme_, 1);
        glp_set_row_bnds(programme_, row, kind, 0, bound);
        glp_set_mat_row(
            programme_, row, static_cast<int>(terms.size()), columns.data(), factors.data());
    }
    void add_peer(std::size_t i) {
        std::vector<Term> sent;
        std::vector<Term> received;
        std::vector<Term> result = {{total_, 1}};
        for (std::size_t j = 0; j < size_; ++j) {
            result.push_back({average(j, i), -1});
            for (std::size_t k = 0; k < size_; ++k)
                if (peer(k).contributes)
                    add_row({{average(i, j), 1}, {gradient(k, i), -1}}, GLP_UP, 0);
            if (j == i) continue;
            sent.insert(sent.end(), {{gradient(i, j), 1}, {average(i, j), 1}});
            received.insert(received.end(), {{gradient(j, i), 1}, {average(j, i), 1}});
        }
        if (peer(i).receives) add_row(result, GLP_UP, 0);
        if (size_ == 1) return;
        add_row(sent, GLP_UP, peer(i).upload_per_s);
        add_row(received, GLP_UP, peer(i).download_per_s);
    }
    void tie_averages() {
        for (std::size_t i = 0; i < size_; ++i) {
            std::size_t first = size_;
            for (std::size_t j = 0; j < size_; ++j) {
                if (!peer(j).receives) continue;
                if (first < size_)
                    add_row({{average(i, j), 1}, {average(i, first), -1}}, GLP_FX, 0);
                first = std::min(first, j);
            }
        }
    }

    const Network& network_;
    glp_prob* programme_ = nullptr;
    std::size_t size_ = 0;
    int total_ = 0;
};

struct Sort {
    std::size_t peers_max = 7;
    bool all_contribute = false;
    double octaves = 8;       // rates from 1 to 2^octaves
    double owns_allowed = 1;  // probabilities
    double limited = 0;       // of a link to have a limit
    double cut = 0;           // of a limit to be 0
};

Network random_network(std::uint64_t seed, const Sort& sort) {
    Random random(seed);
    const auto rate = [&] { return std::exp2(random.uniform(0, sort.octaves)); };
    Network network;
    network.peers.resize(1 + random.below(sort.peers_max));
    const bool roles = random.chance(0.7);
    for (PeerRates& peer : network.peers)
        peer = {.upload_per_s = rate(),
                .download_per_s = rate(),
                .contributes = sort.all_contribute || !roles || random.chance(0.7),
                .receives = !roles || random.chance(0.8),
                .owns_allowed = random.chance(sort.owns_allowed)};
    // Nobody receives: the paper's programme has no bound then.
    network.peers[random.below(network.peers.size())].receives = true;
    network.peers[random.below(network.peers.size())].contributes = true;
    const auto size = static_cast<std::uint32_t>(network.peers.size());
    for (std::uint32_t from = 0; from < size; ++from)
        for (std::uint32_t to = 0; to < size; ++to)
            if (from != to && random.chance(sort.limited))
                network.links.push_back({from, to, random.chance(sort.cut) ? 0 : rate()});
    return network;
}

// Elements a second of our split; 0 impossible. So many elements that integers do not matter.
double our_total(const Network& network) {
    constexpr std::uint64_t elements = std::uint64_t{1} << 52;
    const auto split = split_elements(network.peers, elements, {.links = network.links});
    if (!split) {
        EXPECT_EQ(split.error().kind(), ErrorKind::bad_input) << split.error().message();
        return 0;
    }
    EXPECT_EQ(
        std::accumulate(split->part_elements.begin(), split->part_elements.end(), std::uint64_t{0}),
        elements);
    if (split->seconds == 0) return nothing_travels;
    EXPECT_EQ(split->seconds,
              predicted_seconds(network.peers, split->part_elements, network.links));
    return static_cast<double>(elements) / split->seconds;
}

double relative_difference(double a, double b) {
    return a == b ? 0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

struct Tally {
    double worst = 0;
    int possible = 0;
    int alone = 0;        // nothing has to travel
    int below_paper = 0;  // the paper's programme promises more than one owner a range can keep
};

Tally compare(int cases, const Sort& sort, FullProgramme::Owners owners) {
    Tally tally;
    for (int turn = 0; turn < cases; ++turn) {
        const auto seed = static_cast<std::uint64_t>(turn);
        const Network network = random_network(seed, sort);
        const double ours = our_total(network);
        const double judged = FullProgramme(network, owners).largest_total();
        const double difference =
            std::max(ours, judged) < 1e-9 && ours != nothing_travels && judged != nothing_travels
                ? 0  // both 0
                : relative_difference(ours, judged);
        EXPECT_LE(difference, difference_max)
            << "seed " << seed << ": " << ours << ", judged " << judged;
        tally.worst = std::max(tally.worst, difference);
        if (ours > 0) ++tally.possible;
        if (ours == nothing_travels) ++tally.alone;
        if (owners == FullProgramme::Owners::any || judged == nothing_travels) continue;
        const double paper = FullProgramme(network, FullProgramme::Owners::any).largest_total();
        if (paper == nothing_travels) continue;
        EXPECT_LE(ours, paper * (1 + difference_max) + 1e-9) << "seed " << seed;
        if (ours < paper * (1 - difference_max)) ++tally.below_paper;
    }
    return tally;
}

TEST(FullProgramme, a_thousand_networks_of_trainers_reach_the_papers_optimum) {
    const Tally tally = compare(1000, Sort{.all_contribute = true}, FullProgramme::Owners::any);
    RecordProperty("worst_relative_difference", fmt::format("{:.2e}", tally.worst));
    EXPECT_EQ(tally.possible, 1000 - tally.alone);
}

TEST(FullProgramme, a_thousand_networks_with_all_roles_are_optimal) {
    const Tally tally = compare(1000, Sort{}, FullProgramme::Owners::one_each_range);
    RecordProperty("worst_relative_difference", fmt::format("{:.2e}", tally.worst));
    RecordProperty("below_the_papers_bound", tally.below_paper);
    EXPECT_GT(tally.possible, 800);
    // A receiver that reduces for itself alone what others reduce, too: seldom worth it.
    EXPECT_LT(tally.below_paper, 20);
}

TEST(FullProgramme, a_thousand_networks_with_limits_and_unreachable_pairs_are_optimal) {
    const Tally tally = compare(1000,
                                Sort{.owns_allowed = 0.85, .limited = 0.3, .cut = 0.2},
                                FullProgramme::Owners::one_each_range);
    RecordProperty("worst_relative_difference", fmt::format("{:.2e}", tally.worst));
    RecordProperty("below_the_papers_bound", tally.below_paper);
    EXPECT_GT(tally.possible, 400);
    EXPECT_GT(tally.below_paper, 0) << "the bound of the paper is not always reachable";
}

TEST(FullProgramme, networks_where_every_link_has_a_limit_are_optimal) {
    const Tally tally =
        compare(200, Sort{.limited = 1, .cut = 0.02}, FullProgramme::Owners::one_each_range);
    RecordProperty("worst_relative_difference", fmt::format("{:.2e}", tally.worst));
    EXPECT_GT(tally.possible, 100);
}

TEST(FullProgramme, rates_a_billion_times_apart_are_judged_in_fractions) {
    double worst = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        const Network network = random_network(
            seed, {.peers_max = 4, .octaves = 30, .limited = seed % 2 == 0 ? 0.0 : 0.3, .cut = 0});
        const double judged =
            FullProgramme(network, FullProgramme::Owners::one_each_range).largest_total(true);
        const double difference = relative_difference(our_total(network), judged);
        EXPECT_LE(difference, difference_max) << "seed " << seed;
        worst = std::max(worst, difference);
    }
    RecordProperty("worst_relative_difference", fmt::format("{:.2e}", worst));
}

}  // namespace
}  // namespace dedloc::planner
