#include "dedloc/averaging/exchange.h"

#include <bit>

#include "dedloc/averaging/part_cuts.h"

namespace dedloc::averaging {

namespace {

// Silence of one who keeps all others waiting at a full memory; a live peer needs less.
constexpr Duration sleeper_patience_min = 500ms;
constexpr Duration line_look = 50ms;

int included_count(const consensus::FinishedPart& part) {
    int count = 0;
    for (const std::uint8_t byte : part.included) count += std::popcount(byte);
    return count;
}

Error bad_plan(const char* why) {
    return make_error(ErrorKind::peer_broke_protocol, "a plan is refused: {}", why);
}

Ok check_left_out(const consensus::Plan& plan) {
    const auto rises = [](const PeerId& a, const PeerId& b) { return a >= b; };
    const bool sorted = std::ranges::adjacent_find(plan.left_out, rises) == plan.left_out.end();
    const bool empty = std::ranges::none_of(plan.members, [&](const consensus::PlanMember& member) {
        return plan.leaves_out(member.peer) && (!member.input.is_empty() || member.aggregator);
    });
    return sorted && empty && !plan.leaves_out(plan.leader) ? Ok() : bad_plan("whom it leaves out");
}

// They cover the vector, and each of them is all in one codec: in that of its tensors, as far as we
// know them.
Ok check_parts(const consensus::Plan& plan, const RoundOptions& options) {
    const auto number = [](codec::CodecId id) { return static_cast<std::uint32_t>(id); };
    DEDLOC_CHECK(options.codec_ranges.empty() ||
                 options.codec_ranges.back().end() == options.vector_count);
    std::uint64_t position = 0;
    auto range = options.codec_ranges.begin();
    for (const consensus::PlanPart& part : plan.parts) {
        const std::uint32_t said = plan.codec_of(part);
        const auto is_said = [&](codec::CodecId id) { return number(id) == said; };
        if (!is_said(options.codec) && std::ranges::none_of(options.other_codecs, is_said))
            return bad_plan("its codec");
        const auto codec = static_cast<codec::CodecId>(said);
        if (part.offset != position || part.count == 0 ||
            part.count > longest_part(options, codec, plan.groups > 0) ||
            part.count > options.vector_count - position || part.owner >= plan.members.size())
            return bad_plan("its parts do not cover the vector");
        position += part.count;
        if (options.codec_ranges.empty()) continue;
        while (range->end() <= part.offset) ++range;
        if (range->codec != codec || range->end() < position) return bad_plan("a part's codec");
    }
    return position == options.vector_count ? Ok() : bad_plan("its parts do not cover the vector");
}

}  // namespace

Ok check_plan(const consensus::Plan& plan, const RoundOptions& options) {
    if (plan.members.empty() || plan.members.size() > consensus::members_max)
        return bad_plan("its member count");
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
        if (i > 0 && plan.members[i - 1].peer >= plan.members[i].peer)
            return bad_plan("its members are not sorted");
        DEDLOC_TRY_VOID(consensus::check_input(
            plan.members[i].input, options.vector_count, options.samples_max));
        if (plan.members[i].aggregator &&
            (!plan.members[i].input.is_empty() || plan.members[i].peer == plan.leader))
            return bad_plan("an aggregator contributes or leads");
    }
    DEDLOC_TRY_VOID(check_left_out(plan));
    if (plan.codec != static_cast<std::uint32_t>(options.codec)) return bad_plan("its codec");
    if (plan.bounded_count != options.bounded_count) return bad_plan("where norms are bounded");
    DEDLOC_TRY_VOID(check_parts(plan, options));
    for (const std::uint32_t standby : plan.standby)
        if (standby >= plan.members.size()) return bad_plan("a standby owner is no member");
    DEDLOC_TRY_VOID(check_grid(plan));
    const auto round_max = std::chrono::ceil<std::chrono::milliseconds>(options.deadline_max);
    if (plan.round_ms == 0 || plan.reduce_ms > plan.round_ms || plan.predicted_ms > plan.round_ms ||
        plan.round_ms > round_max.count())
        return bad_plan("its deadlines");
    return {};
}

Task<bool> is_sound(RoundContext& context,
                    const consensus::Plan& plan,
                    consensus::FinishedPart header,
                    SharedBytes encoded) {
    const codec::CodecId codec = codec_of(plan, header.part);
    const auto count = static_cast<std::size_t>(plan.parts[header.part].count);
    if (encoded->size() != codec::encoded_size(codec, count)) co_return false;
    auto work = [encoded = std::move(encoded), digest = header.digest, codec, count] {
        return is_sound_average(codec, *encoded, count, digest);
    };
    const bool sound = co_await context.node.workers.run(std::move(work));
    co_return sound;
}

Exchange::Exchange(RoundContext& context,
                   consensus::Plan plan,
                   Digest plan_digest,
                   std::shared_ptr<const RoundInput> input)
    : context_(context),
      plan_(std::move(plan)),
      routes_(plan_),
      digest_(plan_digest),
      input_(std::move(input)),
      me_(index_of(context.me())),
      contributes_(me_ && input_ && !plan_.members[*me_].input.is_empty()),
      started_(context.now()),
      leader_heard_at_(started_),
      arrivals_{context.now()},
      even_(patience_with_one(), std::chrono::milliseconds(plan_.reduce_ms) * 3 / 4),
      line_(context.host, links::link_busiest_share),
      changed_(context.node.executor),
      room_(context.node.executor),
      sent_(context.node.executor),
      scope_(context.node.executor) {
    for (std::uint32_t i = 0; i < plan_.members.size(); ++i)
        if (!context.scores.is_waited_for(plan_.members[i].peer)) doubtful_.insert(i);
}

Duration Exchange::patience_with_one() const {
    return std::max<Duration>(std::chrono::milliseconds(plan_.reduce_ms) / 8, sleeper_patience_min);
}

Exchange::~Exchange() {
    for (const auto& [key, reduction] : reductions_) context_.memory.give_back(reduction->bytes);
}

Task<void> Exchange::stop() { return scope_.stop(); }

std::optional<std::uint32_t> Exchange::index_of(const PeerId& peer) const {
    for (std::size_t i = 0; i < plan_.members.size(); ++i)
        if (plan_.members[i].peer == peer) return static_cast<std::uint32_t>(i);
    return std::nullopt;
}

void Exchange::start() {
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_next;
    std::vector<std::uint32_t> collected;
    for (std::uint32_t part = 0; part < plan_.parts.size(); ++part) {
        by_next[me_ ? routes_.next(*me_, part) : plan_.parts[part].owner].push_back(part);
        if (me_ && routes_.collects(*me_, part)) collected.push_back(part);
    }
    for (const std::uint32_t part : collected) open_reduction(part, /*repair=*/0);
    for (auto& [next, parts] : by_next) assign(next, std::move(parts), /*repair=*/0);
    if (!collected.empty())
        scope_.spawn("collected contribution", contribute_own(std::move(collected), /*repair=*/0));
    scope_.spawn("reduce deadline", close_at(reduce_deadline(), /*repair=*/0));
    if (!doubtful_.empty()) scope_.spawn("doubtful members", close_without_doubtful());
    scope_.spawn("watch the line", watch_line());
}

void Exchange::add_repair(const Repair& repair) {
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_owner;
    for (std::size_t i = 0; i < repair.parts.size() && i < repair.owners.size(); ++i) {
        const std::uint32_t part = repair.parts[i];
        if (part >= plan_.parts.size() || repair.owners[i] >= plan_.members.size()) continue;
        if (owners_[part].repair >= repair.number) continue;  // repeated
        by_owner[repair.owners[i]].push_back(part);
    }
    for (auto& [owner, parts] : by_owner) assign(owner, std::move(parts), repair.number);
    // A repair gets half of what is left of the round, but never less than a live peer needs.
    const TimePoint now = context_.now();
    const Duration left = std::max<Duration>((round_deadline() - now) / 2, 150ms);
    scope_.spawn("repair deadline", close_at(now + left, repair.number));
}

void Exchange::assign(std::uint32_t owner, std::vector<std::uint32_t> parts, std::uint32_t repair) {
    for (const std::uint32_t part : parts) owners_[part] = Owner{owner, repair, false};
    if (me_ && owner == *me_) {
        for (const std::uint32_t part : parts) open_reduction(part, repair);
        scope_.spawn("own contribution", contribute_own(std::move(parts), repair));
    } else if (me_ && (!only_reduces() || (repair == 0 && routes_.sends_sums(*me_, owner)))) {
        scope_.spawn("talk to owner", talk_to_owner(owner, std::move(parts), repair));
    }
}

void Exchange::peer_gone(const PeerId& peer) {
    const auto member = index_of(peer);
    if (!member) return;
    gone_.insert(*member);
    for (auto& [key, reduction] : reductions_) {
        if (reduction->closed) continue;
        reduction->waiting.erase(*member);
        close_if_ready(*reduction);
    }
}

// Lost since the exchange began, and not back.
bool Exchange::is_gone(std::uint32_t member) const {
    return gone_.contains(member) && !context_.host.is_connected(plan_.members[member].peer);
}

void Exchange::keep(consensus::FinishedPart header, SharedBytes encoded) {
    const std::uint32_t part = header.part;
    ended_.insert({header.repair, part});
    arrivals_.beat(context_.now());
    pass_on(header, encoded);
    context_.parts.put(header, std::move(encoded));
    // Of two averages of a part, the one that includes more is proposed.
    const auto known = finished_.find(part);
    if (known == finished_.end() || included_count(known->second) < included_count(header))
        finished_[part] = std::move(header);
    changed_.pulse();
}

std::set<std::uint32_t> Exchange::way_of(std::uint32_t part) const {
    const Owner& newest = owners_.at(part);
    if (newest.repair > 0) return {newest.owner};
    return {newest.owner, plan_.parts[part].owner};
}

Task<bool> Exchange::adopt(consensus::FinishedPart header, SharedBytes encoded) {
    if (!consensus::fits_plan(header, plan_, digest_) ||
        !context_.verifier.verify(plan_.members[header.owner].peer,
                                  consensus::part_domain,
                                  header.signed_bytes(),
                                  header.signature))
        co_return false;
    const bool sound = co_await is_sound(context_, plan_, header, encoded);
    if (sound) keep(std::move(header), std::move(encoded));
    co_return sound;
}

bool Exchange::has(const consensus::FinishedPart& part) const {
    const auto known = finished_.find(part.part);
    return part.plan == digest_ && known != finished_.end() && known->second.digest == part.digest;
}

TimePoint Exchange::awaited_until(std::uint32_t part) const {
    const auto owner = owners_.find(part);
    if (!me_ || finished_.contains(part) || owner == owners_.end() || owner->second.failed)
        return {};
    return arrivals_.awaited_until(context_.patience.with_answer());
}

TimePoint Exchange::missing_awaited_until() const {
    TimePoint earliest = TimePoint::never();
    for (std::uint32_t part = 0; part < plan_.parts.size(); ++part)
        if (!finished_.contains(part)) earliest = std::min(earliest, awaited_until(part));
    return earliest;
}

// What a slow line still carries comes sooner than it could be reduced again, over lines that are
// full; but a quarter of the round is left for those who stop after all.
std::vector<std::uint32_t> Exchange::silent_parts() const {
    const TimePoint last_call = started_ + std::chrono::milliseconds(plan_.round_ms) * 3 / 4;
    std::vector<std::uint32_t> silent;
    for (const auto& [part, owner] : owners_) {
        if (finished_.contains(part)) continue;
        const auto rhythm = averages_.find(owner.owner);
        const bool sends =
            !owner.failed && owner.repair == 0 && rhythm != averages_.end() &&
            context_.now() < last_call &&
            context_.now() <= rhythm->second.awaited_until(context_.patience.with_answer() / 2);
        if (!sends) silent.push_back(part);
    }
    return silent;
}

std::vector<std::uint32_t> Exchange::lacking_parts() const {
    std::vector<bool> included_somewhere(plan_.members.size(), false);
    for (const auto& [part, header] : finished_)
        for (std::size_t i = 0; i < plan_.members.size(); ++i)
            if (header.includes(i)) included_somewhere[i] = true;
    std::vector<std::uint32_t> lacking;
    for (const auto& [part, header] : finished_)
        for (std::uint32_t i = 0; i < plan_.members.size(); ++i)
            if (included_somewhere[i] && !header.includes(i) && !is_gone(i)) {
                lacking.push_back(part);
                break;
            }
    return lacking;
}

links::LinkRates Exchange::end_measuring() {
    measures_ = false;
    std::vector<links::Flow> out;
    for (const auto& [owner, flow] : outflows_) out.push_back(flow);
    std::vector<links::Flow> in;
    for (const auto& [member, flow] : inflows_) in.push_back(*flow);
    const double up = line_.up().bytes_per_s();
    const double down = line_.down().bytes_per_s();
    return {.upload = up > 0 ? up : links::link_rate(std::move(out)),
            .download = down > 0
                            ? down
                            : std::max(links::link_rate(std::move(in)), received_.bytes_per_s()),
            .upload_bytes = line_.up().bytes(),
            .download_bytes = std::max(line_.down().bytes(), received_.bytes())};
}

Task<void> Exchange::watch_line() {
    while (measures_ && context_.now() < round_deadline()) {
        line_.look(context_.now());
        co_await context_.node.clock.sleep_for(line_look);
    }
}

std::vector<std::uint32_t> Exchange::failed_parts() const {
    std::vector<std::uint32_t> failed;
    for (const auto& [part, owner] : owners_)
        if (owner.failed && !finished_.contains(part)) failed.push_back(part);
    return failed;
}

}  // namespace dedloc::averaging
