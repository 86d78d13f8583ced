#include "dedloc/allreduce/chunking.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace dedloc::allreduce {
namespace {

// Whole parts cut where the codec changes, and those in a codec of more bytes where they would be
// too long in it.
class CodecCutter {
  public:
    CodecCutter(consensus::RoundPlan& plan, const TransferOptions& options)
        : plan_(plan), options_(options) {}

    void cut(const consensus::PlanPart& part) {
        for (std::uint64_t at = part.offset; at < part.range().end();) {
            while (range().end() <= at) ++range_;
            const std::uint64_t length = std::min(part.range().end(), range().end()) - at;
            const std::uint64_t pieces = (length + longest() - 1) / longest();
            for (std::uint64_t i = 0; i < pieces; ++i) {
                const std::uint64_t begin = length * i / pieces;
                append({at + begin, length * (i + 1) / pieces - begin, part.owner});
            }
            at += length;
        }
    }

  private:
    const codec::CodecRange& range() const { return options_.codec_ranges[range_]; }
    std::uint64_t longest() const {
        return longest_part(options_, range().codec, plan_.members.size(), plan_.groups > 0);
    }

    // A crumb and its neighbour in the range belong to who has more of them.
    void append(consensus::PlanPart part) {
        const std::uint64_t crumb = std::min(crumb_elements_max, longest() / 8);
        if (part.offset > range().offset && !plan_.parts.empty()) {
            consensus::PlanPart& last = plan_.parts.back();
            if (std::min(last.count, part.count) < crumb && last.count + part.count <= longest()) {
                if (last.count < part.count) last.owner = part.owner;
                last.count += part.count;
                return;
            }
        }
        if (range().codec != options_.codec) part.codec = static_cast<std::uint32_t>(range().codec);
        plan_.parts.push_back(part);
    }

    consensus::RoundPlan& plan_;
    const TransferOptions& options_;
    std::size_t range_ = 0;
};

}  // namespace

std::uint64_t longest_part(const TransferOptions& options,
                           codec::CodecId codec,
                           std::size_t members,
                           bool in_grid) {
    constexpr std::size_t some = 1024;  // elements: encoded numbers may come in blocks
    const std::size_t bytes = in_grid ? some * sizeof(float) : codec::encoded_size(codec, some);
    const auto longest =
        std::min<std::uint64_t>(options.part_elements_max, part_bytes_max / bytes * some);
    if (!codec::is_sparse(codec)) return longest;
    // Parts are whole chunks, so short that a message holds the contributions of all members.
    const std::uint64_t chunk = codec::block_elements(codec);
    const std::uint64_t fit = part_bytes_max / std::max<std::size_t>(1, members) /
                              codec::encoded_size(codec, static_cast<std::size_t>(chunk)) * chunk;
    return std::max(std::min(longest / chunk * chunk, fit), chunk);
}

void align_to_chunks(consensus::RoundPlan& plan, const TransferOptions& options) {
    if (!codec::is_sparse(options.codec)) return;
    const std::uint64_t chunk = codec::block_elements(options.codec);
    const std::uint64_t end =
        options.bounded_count > 0 ? options.bounded_count : options.vector_count;
    const auto aligned = [&](std::uint64_t at) {
        return at >= end ? at : std::min((at + chunk - 1) / chunk * chunk, end);
    };
    std::vector<consensus::PlanPart> parts;
    for (consensus::PlanPart part : plan.parts) {
        const std::uint64_t until = aligned(part.range().end());
        part.offset = aligned(part.offset);
        part.count = until - part.offset;
        if (part.count > 0) parts.push_back(part);
    }
    plan.parts = std::move(parts);
}

void cut_by_codec(consensus::RoundPlan& plan, const TransferOptions& options) {
    if (options.codec_ranges.empty()) return;
    const std::vector<consensus::PlanPart> whole = std::exchange(plan.parts, {});
    CodecCutter cutter(plan, options);
    for (const consensus::PlanPart& part : whole) cutter.cut(part);
}

std::vector<std::uint64_t> cuts_for(std::uint64_t pieces, double seconds) {
    std::vector<std::uint64_t> quarters(pieces, 4);
    if (pieces >= short_ends_pieces_min &&
        seconds >= static_cast<double>(pieces) * short_ends_piece_seconds_min) {
        constexpr std::array<std::uint64_t, 4> rising = {1, 1, 2, 2};
        quarters.resize(pieces - 3);
        quarters.insert(quarters.begin(), rising.begin(), rising.end());
        quarters.insert(quarters.end(), rising.rbegin(), rising.rend());
    }
    std::vector<std::uint64_t> cuts(quarters.size());
    std::partial_sum(quarters.begin(), quarters.end(), cuts.begin());
    return cuts;
}

void cut_range(consensus::RoundPlan& plan,
               std::uint64_t range,
               const std::vector<std::uint64_t>& cuts,
               const std::vector<std::uint32_t>& owners) {
    if (cuts.empty()) return;
    const std::uint64_t first = plan.parts.empty() ? 0 : plan.parts.back().range().end();
    const std::uint64_t all = owners.size() * cuts.back();
    std::uint64_t position = first;
    std::uint64_t before = 0;
    for (const std::uint64_t cut : cuts) {
        for (std::size_t turn = 0; turn < owners.size(); ++turn) {
            const std::uint64_t until = before * owners.size() + (cut - before) * (turn + 1);
            const std::uint64_t end = first + range * until / all;
            if (end > position) plan.parts.push_back({position, end - position, owners[turn]});
            position = end;
        }
        before = cut;
    }
}

}  // namespace dedloc::allreduce
