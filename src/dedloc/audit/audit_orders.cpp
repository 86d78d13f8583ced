#include "dedloc/audit/audit_orders.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "dedloc/base/file.h"
#include "dedloc/runtime/work_in_place.h"
#include "dedloc/security/hash.h"
#include "dedloc/validation/evidence_log.h"
#include "dedloc/validation/gradient_recheck.h"

namespace dedloc::audit {
namespace {

constexpr std::size_t piece_bytes_max = 128u << 20;  // more than evidence may have

namespace fs = std::filesystem;

bool needs_proof(const robust::Order& order) {
    return order.kind == robust::OrderKind::ban || order.kind == robust::OrderKind::eliminate ||
           order.kind == robust::OrderKind::probation;
}

averaging::EvidenceRules rules_of(const run::RunFile& run) {
    averaging::EvidenceRules rules;
    validation::GradientRules gradients;
    gradients.tolerance = run::recheck_tolerance(run);
    gradients.right_needed = static_cast<std::uint32_t>(run.robust->probation);
    validation::add_gradient_rules(rules, gradients);
    return rules;
}

allreduce::CenteredClipRule clip_rule_of(const run::RobustConfig& robust) {
    return {.tau = robust.tau,
            .iterations_max = static_cast<std::uint32_t>(robust.iterations_max),
            .eps = robust.eps,
            .weight_cap = robust.weight_cap};
}

class OrderAudit {
  public:
    OrderAudit(const ChainBook& book,
               const KeptEvidence& evidence,
               const security::Verifier& verifier)
        : book_(book), evidence_(evidence), verifier_(verifier) {
        if (evidence.run && evidence.run->robust) {
            rules_ = rules_of(*evidence.run);
            clip_rule_ = clip_rule_of(*evidence.run->robust);
        }
    }

    OrderReport report() {
        for (const auto& [digest, link] : book_.links()) {
            const auto before = book_.links().find(link.decision.previous);
            if (before == book_.links().end()) continue;
            for (const robust::Order& order : link.decision.orders)
                if (needs_proof(order) && is_new(order, before->second.decision))
                    look_at(order, before->second.decision);
        }
        return std::move(report_);
    }

  private:
    static bool is_new(const robust::Order& order, const consensus::Decision& before) {
        return std::ranges::find(before.orders, order) == before.orders.end();
    }
    void look_at(const robust::Order& order, const consensus::Decision& before) {
        ++report_.orders;
        const std::string words =
            fmt::format("{} is {}", order.subject.text(), robust::in_words(order));
        report_.words.push_back(words);
        const auto piece = evidence_.pieces.find(order.evidence);
        if (piece == evidence_.pieces.end()) {
            report_.problems.push_back(words + ", and nobody kept the evidence");
            return;
        }
        const averaging::EvidenceContext context{verifier_,
                                                 clip_rule_,
                                                 before.next_voters,
                                                 workers_,
                                                 robust::Orders(before.orders),
                                                 /*voted_lately=*/false};
        if (const Ok proved = rules_.check(order, piece->second, context); !proved)
            report_.problems.push_back(words + ": " + proved.error().message());
        else
            ++report_.proved;
    }

    const ChainBook& book_;
    const KeptEvidence& evidence_;
    const security::Verifier& verifier_;
    runtime::WorkInPlace workers_;
    averaging::EvidenceRules rules_;
    allreduce::CenteredClipRule clip_rule_;
    OrderReport report_;
};

}  // namespace

OrderReport audit_orders(const ChainBook& book,
                         const KeptEvidence& evidence,
                         const security::Verifier& verifier) {
    return OrderAudit(book, evidence, verifier).report();
}

void add_evidence(const std::string& folder, KeptEvidence& evidence) {
    std::error_code code;
    const fs::path kept = fs::path(folder) / validation::evidence_folder;
    for (const auto& entry : fs::directory_iterator(kept, code)) {
        const auto content = base::read_file(entry.path().string(), piece_bytes_max);
        if (!content) continue;
        const std::string name = entry.path().filename().string();
        if (name == "run.toml") {
            auto run = run::parse_run_file(*content, entry.path().string());
            if (run && !evidence.run) evidence.run = *std::move(run);
            continue;
        }
        Bytes piece = base::to_bytes(*content);
        const Digest digest = security::sha256(piece);
        if (digest.hex() == name) evidence.pieces.emplace(digest, std::move(piece));
    }
}

}  // namespace dedloc::audit
