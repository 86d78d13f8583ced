#include "dedloc/averaging/exchange.h"

#include <bit>

#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/together.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {

namespace {

// Silence of one who keeps all others waiting at a full memory; a live peer needs less.
constexpr Duration sleeper_patience_min = 500ms;
constexpr Duration room_look = 50ms;
constexpr Duration line_look = 50ms;

Duration patience_with_one(const Plan& plan) {
    return std::max<Duration>(std::chrono::milliseconds(plan.reduce_ms) / 8, sleeper_patience_min);
}

int included_count(const FinishedPart& part) {
    int count = 0;
    for (const std::uint8_t byte : part.included) count += std::popcount(byte);
    return count;
}

}  // namespace

Ok check_plan(const Plan& plan, const RoundOptions& options) {
    const auto bad = [](const char* why) {
        return make_error(ErrorKind::peer_broke_protocol, "a plan is refused: {}", why);
    };
    if (plan.members.empty() || plan.members.size() > members_max) return bad("its member count");
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
        if (i > 0 && plan.members[i - 1].peer >= plan.members[i].peer)
            return bad("its members are not sorted");
        DEDLOC_TRY_VOID(
            check_input(plan.members[i].input, options.vector_count, options.samples_max));
        if (plan.members[i].aggregator &&
            (!plan.members[i].input.is_empty() || plan.members[i].peer == plan.leader))
            return bad("an aggregator contributes or leads");
    }
    std::uint64_t position = 0;
    for (const PlanPart& part : plan.parts) {
        if (part.offset != position || part.count == 0 || part.count > options.part_elements_max ||
            part.owner >= plan.members.size())
            return bad("its parts do not cover the vector");
        position += part.count;
    }
    if (position != options.vector_count) return bad("its parts do not cover the vector");
    for (const std::uint32_t standby : plan.standby)
        if (standby >= plan.members.size()) return bad("a standby owner is no member");
    if (plan.codec != static_cast<std::uint32_t>(options.codec)) return bad("its codec");
    const auto round_max = std::chrono::ceil<std::chrono::milliseconds>(options.deadline_max);
    if (plan.round_ms == 0 || plan.reduce_ms > plan.round_ms || plan.round_ms > round_max.count())
        return bad("its deadlines");
    return {};
}

Exchange::Exchange(RoundContext& context,
                   Plan plan,
                   Digest plan_digest,
                   std::shared_ptr<const RoundInput> input)
    : context_(context),
      plan_(std::move(plan)),
      digest_(plan_digest),
      input_(std::move(input)),
      me_(index_of(context.me())),
      started_(context.now()),
      arrivals_{context.now()},
      even_(patience_with_one(plan_), std::chrono::milliseconds(plan_.reduce_ms) * 3 / 4),
      line_(context.host, line_busiest_share),
      changed_(context.node.executor),
      room_(context.node.executor),
      sent_(context.node.executor),
      scope_(context.node.executor) {}

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
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_owner;
    for (std::uint32_t part = 0; part < plan_.parts.size(); ++part)
        by_owner[plan_.parts[part].owner].push_back(part);
    for (auto& [owner, parts] : by_owner) assign(owner, std::move(parts), /*repair=*/0);
    scope_.spawn("reduce deadline", close_at(reduce_deadline(), /*repair=*/0));
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
    } else if (me_ && !only_reduces()) {
        scope_.spawn("talk to owner", talk_to_owner(owner, std::move(parts), repair));
    }
}

Exchange::Reduction& Exchange::open_reduction(std::uint32_t part, std::uint32_t repair) {
    auto& slot = reductions_[{repair, part}];
    if (slot) return *slot;
    slot = std::make_shared<Reduction>();
    slot->part = part;
    slot->repair = repair;
    slot->done = std::make_unique<runtime::Event>(context_.node.executor);
    for (std::uint32_t i = 0; i < plan_.members.size(); ++i)
        if (!plan_.members[i].input.is_empty() && !is_gone(i)) slot->waiting.insert(i);
    return *slot;
}

Task<SharedBytes> Exchange::encode_own(std::uint32_t part) {
    const PlanPart range = plan_.parts[part];
    const auto codec = static_cast<codec::CodecId>(plan_.codec);
    const int exponent = scale_exponent(input_->input);
    auto work = [input = input_, range, codec, exponent] {
        const std::span<const float> sum(input->sum);
        return encode_contribution(codec,
                                   sum.subspan(static_cast<std::size_t>(range.offset),
                                               static_cast<std::size_t>(range.count)),
                                   exponent);
    };
    SharedBytes encoded = co_await context_.node.workers.run(std::move(work));
    co_return encoded;
}

Task<void> Exchange::contribute_own(std::vector<std::uint32_t> parts, std::uint32_t repair) {
    const bool contributes = input_ && !plan_.members[*me_].input.is_empty();
    for (const std::uint32_t part : parts) {
        SharedBytes encoded;
        if (contributes) encoded = co_await encode_own(part);
        Reduction& reduction = *reductions_.at({repair, part});
        if (contributes && !reduction.closed && reduction.waiting.contains(*me_)) {
            reduction.inputs[*me_] = std::move(encoded);
            reduction.arrival.push_back(*me_);
        }
        reduction.waiting.erase(*me_);
        close_if_ready(reduction);
    }
}

void Exchange::close_if_ready(Reduction& reduction) {
    if (reduction.closed || !reduction.waiting.empty()) return;
    reduction.closed = true;
    scope_.spawn("reduce", reduce(reductions_.at({reduction.repair, reduction.part})));
}

Task<void> Exchange::close_at(TimePoint deadline, std::uint32_t repair) {
    co_await context_.node.clock.sleep_until(deadline);
    for (auto& [key, reduction] : reductions_) {
        if (key.first != repair || reduction->closed) continue;
        reduction->waiting.clear();
        close_if_ready(*reduction);
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

Task<void> Exchange::reduce(std::shared_ptr<Reduction> reduction) {
    std::vector<PartInput> inputs;
    if (context_.options.bugs.sum_by_arrival) {
        for (const std::uint32_t member : reduction->arrival)
            inputs.push_back({member, reduction->inputs.at(member)});
    } else {
        for (const auto& [member, encoded] : reduction->inputs) inputs.push_back({member, encoded});
    }
    auto work = [plan = &plan_,
                 part = reduction->part,
                 inputs = std::move(inputs),
                 norm_max = context_.options.norm_max] {
        return reduce_part(*plan, part, inputs, norm_max);
    };
    ReducedPart reduced = co_await context_.node.workers.run(std::move(work));
    for (const RefusedInput& refused : reduced.refused)
        context_.refuse(
            RoundNote::Kind::refused_input, plan_.members[refused.member].peer, refused.why);
    FinishedPart& header = reduction->header;
    header.plan = digest_;
    header.part = reduction->part;
    header.repair = reduction->repair;
    header.owner = *me_;
    header.included = std::move(reduced.included);
    header.digest = reduced.digest;
    header.signature = context_.signer.sign(part_domain, header.signed_bytes());
    reduction->encoded = reduced.encoded;
    reduction->inputs.clear();
    context_.memory.give_back(reduction->bytes);
    reduction->bytes = reduced.encoded->size();
    context_.memory.take(reduction->bytes);
    room_.pulse();
    reduction->done->set();
    keep(header, reduced.encoded);
}

void Exchange::keep(FinishedPart header, SharedBytes encoded) {
    const std::uint32_t part = header.part;
    ended_.insert({header.repair, part});
    arrivals_.beat(context_.now());
    context_.parts.put(header, std::move(encoded));
    // Of two averages of a part, the one that includes more is proposed.
    const auto known = finished_.find(part);
    if (known == finished_.end() || included_count(known->second) < included_count(header))
        finished_[part] = std::move(header);
    changed_.pulse();
}

bool Exchange::adopt(const FinishedPart& header, SharedBytes encoded) {
    const bool sound =
        header.plan == digest_ && header.part < plan_.parts.size() &&
        header.owner < plan_.members.size() &&
        header.included.size() == (plan_.members.size() + 7) / 8 &&
        encoded->size() == codec::encoded_size(static_cast<codec::CodecId>(plan_.codec),
                                               plan_.parts[header.part].count) &&
        security::sha256(*encoded) == header.digest &&
        context_.verifier.verify(
            plan_.members[header.owner].peer, part_domain, header.signed_bytes(), header.signature);
    if (sound) keep(header, std::move(encoded));
    return sound;
}

TimePoint Exchange::awaited_until(std::uint32_t part) const {
    const auto owner = owners_.find(part);
    if (!me_ || finished_.contains(part) || owner == owners_.end() || owner->second.failed)
        return {};
    return arrivals_.awaited_until(context_.patience());
}

// What a slow line still carries comes sooner than it could be reduced again, over lines that are
// full; but a quarter of the round is left for those who stop after all.
std::vector<std::uint32_t> Exchange::silent_parts() const {
    const TimePoint last_call = started_ + std::chrono::milliseconds(plan_.round_ms) * 3 / 4;
    std::vector<std::uint32_t> silent;
    for (const auto& [part, owner] : owners_) {
        if (finished_.contains(part)) continue;
        const auto rhythm = averages_.find(owner.owner);
        const bool sends = !owner.failed && owner.repair == 0 && rhythm != averages_.end() &&
                           context_.now() < last_call &&
                           context_.now() <= rhythm->second.awaited_until(context_.patience() / 2);
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

LineRates Exchange::end_measuring() {
    measures_ = false;
    std::vector<Flow> out;
    for (const auto& [owner, flow] : outflows_) out.push_back(flow);
    std::vector<Flow> in;
    for (const auto& [member, flow] : inflows_) in.push_back(*flow);
    const double up = line_.up().bytes_per_s();
    const double down = line_.down().bytes_per_s();
    return {
        .upload = up > 0 ? up : line_rate(std::move(out)),
        .download = down > 0 ? down : std::max(line_rate(std::move(in)), received_.bytes_per_s())};
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

// ---- towards an owner ---------------------------------------------------------------------------

Task<void> Exchange::talk_to_owner(std::uint32_t owner,
                                   std::vector<std::uint32_t> parts,
                                   std::uint32_t repair) {
    Task<Result<void>> talk = exchange_with(owner, parts, repair);
    // Beyond the round's deadline nobody waits; the grace lets a late average still arrive.
    const TimePoint deadline = round_deadline() + Duration(1s);
    const Result<void> outcome = co_await runtime::with_deadline(
        context_.node.clock, deadline, "an owner's average", std::move(talk));
    if (outcome) co_return;
    for (const std::uint32_t part : parts)
        if (owners_[part].repair == repair && !finished_.contains(part))
            owners_[part].failed = true;
    context_.failed_owners.failed(plan_.members[owner].peer, context_.now());
    const RoundNote note{
        RoundNote::Kind::owner_failed, plan_.members[owner].peer, outcome.error().message()};
    context_.directory.note(note);
    changed_.pulse();
}

Task<Result<void>> Exchange::exchange_with(std::uint32_t owner,
                                           std::vector<std::uint32_t> parts,
                                           std::uint32_t repair) {
    const PeerId peer = plan_.members[owner].peer;
    auto opened = co_await context_.host.open_stream(peer, parts_method, round_deadline());
    if (!opened) {
        context_.unreachable.failed(context_.host, peer, context_.now());
        co_return std::move(opened).error();
    }
    std::shared_ptr<p2p::MessageStream> stream = *std::move(opened);
    PartsHeader header{digest_, repair};
    Bytes header_bytes = wire::encode(header);
    DEDLOC_CO_TRY_VOID(co_await stream->write(std::move(header_bytes)));
    auto sent = std::make_shared<Result<void>>();
    auto received = std::make_shared<Result<void>>();
    std::vector<Task<void>> both;
    both.push_back(send_parts(stream, owner, parts, repair, sent));
    both.push_back(receive_parts(stream, owner, parts.size(), received));
    co_await runtime::all_of(std::move(both));
    // What counts is that the averages came; a send that failed alone shows in their bitmaps.
    co_return *received;
}

Task<void> Exchange::wait_for_turn(std::uint32_t owner) {
    while (!even_.may_send(owner, context_.now()) && context_.now() < reduce_deadline()) {
        const TimePoint next = context_.now() + room_look;
        (void)co_await sent_.wait_until(context_.node.clock, next);
    }
}

Task<void> Exchange::send_parts(std::shared_ptr<p2p::MessageStream> stream,
                                std::uint32_t owner,
                                std::vector<std::uint32_t> parts,
                                std::uint32_t repair,
                                std::shared_ptr<Result<void>> outcome) {
    const bool contributes = input_ && !plan_.members[*me_].input.is_empty();
    const bool evenly = contributes && repair == 0;
    if (evenly) even_.begin(owner, parts.size(), context_.now());
    for (std::size_t i = 0; contributes && i < parts.size(); ++i) {
        if (evenly) co_await wait_for_turn(owner);
        SharedBytes encoded = co_await encode_own(parts[i]);
        PartData data;
        data.part = parts[i];
        Bytes head = wire::encode_before_body(data, body_field, encoded->size());
        *outcome = co_await stream->write_with_body(std::move(head), std::move(encoded));
        if (evenly) even_.sent(owner, context_.now());
        sent_.pulse();
        if (!*outcome) {
            if (evenly) even_.end(owner);
            co_return;
        }
    }
    *outcome = co_await stream->finish();
}

Task<void> Exchange::receive_parts(std::shared_ptr<p2p::MessageStream> stream,
                                   std::uint32_t owner,
                                   std::size_t count,
                                   std::shared_ptr<Result<void>> outcome) {
    for (std::size_t i = 0; i < count; ++i) {
        auto message = co_await stream->read();
        if (!message) {
            *outcome = std::move(message).error();
            break;
        }
        if (!message->has_value()) {
            *outcome = make_error(ErrorKind::peer_gone, "the owner ended before its last average");
            break;
        }
        received_.add((**message)->size(), context_.now());
        averages_.try_emplace(owner, Rhythm{context_.now()}).first->second.beat(context_.now());
        *outcome = co_await take_finished(**std::move(message), owner);
        if (!*outcome) break;
    }
    if (!*outcome) stream->reset();
}

Task<Result<void>> Exchange::take_finished(SharedBytes message, std::uint32_t owner) {
    const auto codec = static_cast<codec::CodecId>(plan_.codec);
    auto data = decode_with_body<FinishedPartData>(message);
    if (!data) co_return std::move(data).error();
    FinishedPart& header = data->header;
    if (header.plan != digest_ || header.owner != owner || header.part >= plan_.parts.size() ||
        header.included.size() != (plan_.members.size() + 7) / 8)
        co_return make_error(ErrorKind::peer_broke_protocol, "an average that was not asked for");
    const auto count = static_cast<std::size_t>(plan_.parts[header.part].count);
    if (data->encoded.size() != codec::encoded_size(codec, count))
        co_return make_error(ErrorKind::peer_broke_protocol, "an average of the wrong length");
    if (data->received_us > 0)
        outflows_[owner] = {data->received_bytes, static_cast<double>(data->received_us) * 1e-6};
    SharedBytes encoded = message.part(data->encoded);
    auto work = [encoded, digest = header.digest, codec, count] {
        return is_sound_average(codec, *encoded, count, digest);
    };
    const bool sound = co_await context_.node.workers.run(std::move(work));
    if (!sound)
        co_return make_error(ErrorKind::peer_broke_protocol, "an average is damaged or not finite");
    if (!context_.verifier.verify(
            plan_.members[owner].peer, part_domain, header.signed_bytes(), header.signature))
        co_return make_error(ErrorKind::peer_broke_protocol, "an average's signature is wrong");
    keep(std::move(header), std::move(encoded));
    co_return Result<void>();
}

// ---- as an owner --------------------------------------------------------------------------------

std::vector<std::uint32_t> Exchange::my_parts(std::uint32_t repair) const {
    std::vector<std::uint32_t> parts;
    for (const auto& [key, reduction] : reductions_)
        if (key.first == repair) parts.push_back(key.second);
    return parts;
}

Task<void> Exchange::serve(std::shared_ptr<p2p::MessageStream> stream,
                           std::uint32_t repair,
                           TimePoint begun) {
    const auto member = index_of(stream->remote());
    // A repair's header may overtake the leader's repair message.
    const TimePoint deadline = std::min(round_deadline(), context_.now() + Duration(2s));
    while (my_parts(repair).empty() && context_.now() < deadline) {
        const bool woken = co_await changed_.wait_until(context_.node.clock, context_.now() + 50ms);
        (void)woken;
    }
    std::vector<std::uint32_t> parts = my_parts(repair);
    if (!member || parts.empty()) {
        Error error = make_error(ErrorKind::not_found, "no such parts are reduced here");
        (void)co_await stream->fail(std::move(error));
        co_return;
    }
    auto inflow = std::make_shared<Inflow>();
    inflow->begun = begun;
    if (repair == 0) inflows_[*member] = inflow;
    std::vector<Task<void>> both;
    both.push_back(read_contributions(stream, *member, repair, inflow));
    both.push_back(write_finished(stream, *member, parts, repair, inflow));
    co_await runtime::all_of(std::move(both));
}

Result<void> Exchange::take_contribution(SharedBytes message,
                                         std::uint32_t member,
                                         std::uint32_t repair) {
    const auto bad = [](const char* why) {
        return make_error(ErrorKind::peer_broke_protocol, "a part of its contribution {}", why);
    };
    const auto codec = static_cast<codec::CodecId>(plan_.codec);
    const auto data = decode_with_body<PartData>(message);
    if (!data) return bad("cannot be read");
    const auto found = reductions_.find({repair, data->part});
    if (found == reductions_.end()) return bad("is none that is reduced here");
    if (data->encoded.size() != codec::encoded_size(codec, plan_.parts[data->part].count))
        return bad("has the wrong length");
    Reduction& reduction = *found->second;
    if (reduction.inputs.contains(member)) return bad("came twice");
    if (plan_.members[member].input.is_empty()) return bad("has no weight in the plan");
    arrived_[member] = context_.now();
    if (reduction.closed || !reduction.waiting.contains(member)) return {};  // too late
    reduction.inputs[member] = message.part(data->encoded);
    reduction.bytes += message->size();
    context_.memory.take(message->size());
    reduction.arrival.push_back(member);
    reduction.waiting.erase(member);
    close_if_ready(reduction);
    return {};
}

Task<void> Exchange::read_contributions(std::shared_ptr<p2p::MessageStream> stream,
                                        std::uint32_t member,
                                        std::uint32_t repair,
                                        std::shared_ptr<Inflow> inflow) {
    for (;;) {
        co_await wait_for_room(member, repair);
        auto message = co_await stream->read();
        if (!message || !message->has_value()) break;
        const SharedBytes whole = **std::move(message);
        inflow->bytes += whole->size();
        received_.add(whole->size(), context_.now());
        inflow->seconds = to_seconds(context_.now() - inflow->begun);
        const Result<void> taken = take_contribution(whole, member, repair);
        if (!taken) {
            context_.refuse(RoundNote::Kind::refused_input,
                            plan_.members[member].peer,
                            taken.error().message());
            break;
        }
    }
    // Ended, cut or nonsense: nothing more comes from this member on this stream.
    for (auto& [key, reduction] : reductions_) {
        if (key.first != repair || reduction->closed) continue;
        reduction->waiting.erase(member);
        close_if_ready(*reduction);
    }
}

Task<void> Exchange::write_finished(std::shared_ptr<p2p::MessageStream> stream,
                                    std::uint32_t member,
                                    std::vector<std::uint32_t> parts,
                                    std::uint32_t repair,
                                    std::shared_ptr<Inflow> inflow) {
    Flow written_so_far;
    std::optional<TimePoint> begun;
    for (const std::uint32_t part : parts) {
        const std::shared_ptr<Reduction> reduction = reductions_.at({repair, part});
        co_await reduction->done->wait();
        if (!begun) begun = context_.now();
        FinishedPartData data;
        data.header = reduction->header;
        data.received_bytes = inflow->bytes;
        data.received_us = static_cast<std::uint64_t>(inflow->seconds * 1e6);
        SharedBytes encoded = reduction->encoded;
        Bytes head = wire::encode_before_body(data, body_field, encoded->size());
        const std::size_t bytes = head.size() + encoded->size();
        auto written = co_await stream->write_with_body(std::move(head), std::move(encoded));
        if (!written) co_return;
        written_so_far.bytes += bytes;
        written_so_far.seconds = to_seconds(context_.now() - *begun);
        // It sends nothing else that others could tell it the speed of.
        if (only_reduces() && repair == 0) outflows_[member] = written_so_far;
    }
    (void)co_await stream->finish();
}

Exchange::Reduction* Exchange::oldest_open(std::uint32_t repair) {
    for (const auto& [key, reduction] : reductions_)
        if (key.first == repair && !reduction->closed) return reduction.get();
    return nullptr;
}

// Waits while memory is full and this member is ahead of somebody. All send in the same order: who
// is missing in the oldest open part is behind, and is read from whatever the memory holds.
Task<void> Exchange::wait_for_room(std::uint32_t member, std::uint32_t repair) {
    const std::size_t most = context_.options.reduce_bytes_max;
    const Duration patience = patience_with_one(plan_);
    while (most > 0 && context_.memory.now >= most && context_.now() < round_deadline()) {
        Reduction* oldest = oldest_open(repair);
        if (oldest == nullptr || oldest->waiting.contains(member)) co_return;
        TimePoint newest = started_;
        for (const std::uint32_t late : oldest->waiting) newest = std::max(newest, arrived_[late]);
        if (context_.now() - newest > patience) {
            oldest->waiting.clear();
            close_if_ready(*oldest);
        }
        const TimePoint next = context_.now() + room_look;
        (void)co_await room_.wait_until(context_.node.clock, next);
    }
}

}  // namespace dedloc::averaging
