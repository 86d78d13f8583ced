// The compact linear programme with limits of links, in GLPK. Rows for links are many (up to one
// for each ordered pair) and few of them bind, so they are added as they turn out to be violated.
//
// Everything is measured in units of the best total rate that ignores that two owners share a link;
// the true one is between half of that unit and the whole of it, so GLPK's absolute tolerances are
// relative ones of the result.

#include <algorithm>
#include <cmath>
#include <glpk.h>

#include "dedloc/planner/optimum.h"

namespace dedloc::planner {
namespace {

// GLPK's own smallest useful tolerance in double arithmetic; what it leaves is below 1e-9 of X
// (full_programme_test.cpp).
constexpr double tolerance = 1e-12;
// Far more than any programme of links_max rows has needed; a bound on the time, not on the result.
constexpr int pivots_max = 10'000'000;

class LinkProgramme {
  public:
    LinkProgramme(std::span<const PeerRates> peers,
                  const OwnerLimits& limits,
                  std::span<const LinkLimit> links,
                  double unit)
        : peers_(peers), links_(links), unit_(unit), columns_(peers.size()), rates_(peers.size()) {
        glp_term_out(GLP_OFF);
        programme_ = glp_create_prob();
        glp_set_obj_dir(programme_, GLP_MAX);
        add_columns(limits);
        add_peer_rows(limits);
        added_.resize(links.size());
    }
    ~LinkProgramme() { glp_delete_prob(programme_); }
    LinkProgramme(const LinkProgramme&) = delete;
    LinkProgramme& operator=(const LinkProgramme&) = delete;

    Result<Optimum> solve() {
        do {
            DEDLOC_TRY_VOID(pivot());
        } while (add_violated_links());
        Optimum optimum;
        optimum.owner_per_s = rates_;
        for (double& rate : optimum.owner_per_s) optimum.total_per_s += rate *= unit_;
        return optimum;
    }

  private:
    struct Term {
        int column;
        double factor;
    };

    void add_row(std::span<const Term> terms, int kind, double bound) {
        std::vector<int> columns = {0};  // GLPK counts from 1
        std::vector<double> factors = {0};
        for (const Term& term : terms) {
            if (term.column == 0 || term.factor == 0) continue;
            columns.push_back(term.column);
            factors.push_back(term.factor);
        }
        const int row = glp_add_rows(programme_, 1);
        glp_set_row_bnds(programme_, row, kind, 0, bound);
        glp_set_mat_row(
            programme_, row, static_cast<int>(columns.size()) - 1, columns.data(), factors.data());
    }

    // X, then m_i of every owner; X = sum m_i.
    void add_columns(const OwnerLimits& limits) {
        total_ = glp_add_cols(programme_, 1);
        glp_set_col_bnds(programme_, total_, GLP_DB, 0, 1);
        glp_set_obj_coef(programme_, total_, 1);
        std::vector<Term> sum = {{total_, -1}};
        for (std::size_t i = 0; i < peers_.size(); ++i) {
            const double most = std::min(1.0, limits[i] / unit_);
            if (most <= tolerance) continue;
            columns_[i] = glp_add_cols(programme_, 1);
            glp_set_col_bnds(programme_, columns_[i], GLP_DB, 0, most);
            sum.push_back({columns_[i], 1});
        }
        add_row(sum, GLP_FX, 0);
    }

    // base X + factor m_i <= rate, where that can bind at all.
    void add_rate_row(std::size_t i, double base, double factor, double rate, double limit) {
        const double most = base + std::max(factor, 0.0) * std::min(1.0, limit / unit_);
        if (most <= rate / unit_) return;
        const Term terms[] = {{total_, base}, {columns_[i], factor}};
        add_row(terms, GLP_UP, rate / unit_);
    }

    void add_peer_rows(const OwnerLimits& limits) {
        const Counts counts = count(peers_);
        for (std::size_t i = 0; i < peers_.size(); ++i) {
            const PeerRates& peer = peers_[i];
            const double c = peer.contributes ? 1 : 0;
            const double r = peer.receives ? 1 : 0;
            add_rate_row(i, c, counts.receivers - r - c, peer.upload_per_s, limits[i]);
            add_rate_row(i, r, counts.contributors - c - r, peer.download_per_s, limits[i]);
        }
    }

    Ok pivot() {
        glp_smcp parameters;
        glp_init_smcp(&parameters);
        parameters.msg_lev = GLP_MSG_OFF;
        parameters.meth = GLP_DUALP;  // new rows leave the last basis dual feasible
        parameters.tol_bnd = tolerance;
        parameters.tol_dj = tolerance;
        parameters.it_lim = pivots_max;
        int status = glp_simplex(programme_, &parameters);
        if (status != 0 || glp_get_status(programme_) != GLP_OPT) {
            glp_adv_basis(programme_, 0);  // once more, from another side
            parameters.meth = GLP_PRIMAL;
            status = glp_simplex(programme_, &parameters);
        }
        if (status != 0 || glp_get_status(programme_) != GLP_OPT)
            return make_error(ErrorKind::local_fault,
                              "GLPK gave up on the plan's linear programme (codes {} and {})",
                              status,
                              glp_get_status(programme_));
        for (std::size_t i = 0; i < peers_.size(); ++i)
            if (columns_[i] != 0)
                rates_[i] = std::max(0.0, glp_get_col_prim(programme_, columns_[i]));
        return {};
    }

    // For each owner the link that is violated most. False when none is.
    bool add_violated_links() {
        struct Worst {
            double violation = tolerance;
            std::size_t link = 0;
            bool found = false;
        };
        std::vector<Worst> worst(peers_.size());
        for (std::size_t i = 0; i < links_.size(); ++i) {
            const LinkLimit& link = links_[i];
            const double c = peers_[link.from].contributes ? rates_[link.to] : 0;
            const double r = peers_[link.to].receives ? rates_[link.from] : 0;
            const double violation = c + r - link.per_s / unit_;
            Worst& one = worst[rates_[link.to] > rates_[link.from] ? link.to : link.from];
            if (violation > one.violation && !added_[i]) one = {violation, i, true};
        }
        bool any = false;
        for (const Worst& one : worst) {
            if (!one.found) continue;
            any = true;
            added_[one.link] = true;
            const LinkLimit& link = links_[one.link];
            const Term terms[] = {
                {columns_[link.to], peers_[link.from].contributes ? 1.0 : 0.0},
                {columns_[link.from], peers_[link.to].receives ? 1.0 : 0.0},
            };
            add_row(terms, GLP_UP, link.per_s / unit_);
        }
        return any;
    }

    std::span<const PeerRates> peers_;
    std::span<const LinkLimit> links_;
    double unit_;
    glp_prob* programme_ = nullptr;
    int total_ = 0;
    std::vector<int> columns_;   // GLPK's number of each m_i, 0: owns nothing
    std::vector<double> rates_;  // m_i of the last solution
    std::vector<bool> added_;    // links that have a row
};

bool links_hold(std::span<const PeerRates> peers,
                std::span<const LinkLimit> links,
                const std::vector<double>& rates) {
    return std::all_of(links.begin(), links.end(), [&](const LinkLimit& link) {
        const double c = peers[link.from].contributes ? rates[link.to] : 0;
        const double r = peers[link.to].receives ? rates[link.from] : 0;
        return c + r <= link.per_s;
    });
}

}  // namespace

Result<Optimum> optimum_with_links(std::span<const PeerRates> peers,
                                   const OwnerLimits& limits,
                                   std::span<const LinkLimit> links) {
    const OwnerLimits lowered = limits_of_links(peers, limits, links);
    Optimum relaxed = optimum_without_links(peers, lowered);
    if (relaxed.total_per_s <= 0 || links_hold(peers, links, relaxed.owner_per_s)) return relaxed;
    return LinkProgramme(peers, lowered, links, relaxed.total_per_s).solve();
}

}  // namespace dedloc::planner
