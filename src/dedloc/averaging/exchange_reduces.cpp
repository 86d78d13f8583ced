// Exchange as an owner, and as a collector: reductions, and the streams they come and go on.

#include "dedloc/averaging/exchange.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

constexpr Duration room_look = 50ms;
// Of one member before the slowest one: what the slowest brings in a second, but some parts at
// least. More only takes its share of the owner's line.
constexpr Duration read_ahead = 1s;
constexpr std::size_t read_ahead_min = 4;  // parts

Error bad_contribution(const char* why) {
    return make_error(ErrorKind::peer_broke_protocol, "a part of its contribution {}", why);
}

}  // namespace

Exchange::Reduction& Exchange::open_reduction(std::uint32_t part, std::uint32_t repair) {
    auto& slot = reductions_[{repair, part}];
    if (slot) return *slot;
    slot = std::make_shared<Reduction>();
    if (repair == 0) ++opened_;
    slot->part = part;
    slot->repair = repair;
    slot->opened = context_.now();
    slot->collects = repair == 0 && routes_.collects(*me_, part);
    slot->summed = std::make_unique<runtime::Event>(context_.node.executor);
    slot->done = std::make_unique<runtime::Event>(context_.node.executor);
    if (repair == 0) slot->waiting = routes_.sources(*me_, part);
    for (std::uint32_t i = 0; i < plan_.members.size() && repair > 0; ++i)
        if (!plan_.members[i].input.is_empty()) slot->waiting.insert(i);
    std::erase_if(slot->waiting, [this](std::uint32_t member) { return is_gone(member); });
    return *slot;
}

Task<void> Exchange::contribute_own(std::vector<std::uint32_t> parts, std::uint32_t repair) {
    for (const std::uint32_t part : parts) {
        SharedBytes encoded;
        if (contributes() && input_) encoded = co_await encode_own(part);
        Reduction& reduction = *reductions_.at({repair, part});
        if (encoded && !reduction.closed && reduction.waiting.contains(*me_)) {
            reduction.inputs[*me_] = {*me_, std::move(encoded)};
            reduction.arrival.push_back(*me_);
        }
        reduction.waiting.erase(*me_);
        close_if_ready(reduction);
    }
}

bool Exchange::is_waited_for(std::uint32_t member) const {
    return member == me_ || !doubtful_.contains(member) || arrived_.contains(member) ||
           context_.now() < started_ + time_to_begin();
}

void Exchange::close_if_ready(Reduction& reduction) {
    const auto is_awaited = [this](std::uint32_t member) { return is_waited_for(member); };
    if (reduction.closed || std::ranges::any_of(reduction.waiting, is_awaited)) return;
    reduction.closed = true;
    if (reduction.repair == 0) ++closed_;
    scope_.spawn("reduce", reduce(reductions_.at({reduction.repair, reduction.part})));
}

Task<void> Exchange::close_at(TimePoint deadline, std::uint32_t repair) {
    // The owner still waits for what is collected.
    if (repair == 0 && routes_.is_grid()) {
        co_await context_.node.clock.sleep_until(started_ + time_to_contribute());
        close_all(repair, /*collected_only=*/true);
    }
    co_await context_.node.clock.sleep_until(deadline);
    close_all(repair, /*collected_only=*/false);
}

Task<void> Exchange::close_without_doubtful() {
    co_await context_.node.clock.sleep_until(started_ + time_to_begin());
    for (auto& [key, reduction] : reductions_) close_if_ready(*reduction);
}

void Exchange::close_all(std::uint32_t repair, bool collected_only) {
    for (auto& [key, reduction] : reductions_) {
        if (key.first != repair || reduction->closed || (collected_only && !reduction->collects))
            continue;
        reduction->waiting.clear();
        close_if_ready(*reduction);
    }
}

Task<void> Exchange::reduce(std::shared_ptr<Reduction> reduction) {
    std::vector<PartInput> inputs;
    if (context_.options.bugs.sum_by_arrival) {
        for (const std::uint32_t member : reduction->arrival)
            inputs.push_back(reduction->inputs.at(member));
    } else {
        for (const auto& [member, input] : reduction->inputs) inputs.push_back(input);
    }
    const bool bounded = plan_.is_bounded(plan_.parts[reduction->part]);
    auto work = [plan = &plan_,
                 part = reduction->part,
                 inputs = std::move(inputs),
                 only_sum = reduction->collects,
                 norm_max = bounded ? context_.options.norm_max : 0.0] {
        return only_sum ? sum_part(*plan, part, inputs, norm_max)
                        : reduce_part(*plan, part, inputs, norm_max);
    };
    ReducedPart reduced = co_await context_.node.workers.run(std::move(work));
    for (const RefusedInput& refused : reduced.refused)
        refuse_input(refused.member, reduction->repair, refused.why);
    reduction->inputs.clear();
    hold(*reduction, reduced.encoded->size());
    if (reduction->collects) {
        reduction->sum = std::move(reduced);
        reduction->summed->set();
    } else {
        finish(*reduction, std::move(reduced));
    }
}

// A sum is what a collector owes to all of its group.
void Exchange::refuse_input(std::uint32_t member, std::uint32_t repair, std::string why) {
    const PeerId& peer = plan_.members[member].peer;
    if (repair == 0 && routes_.sends_sums(member, *me_))
        context_.failed_owners.failed(peer, context_.now(), /*broke_protocol=*/true);
    context_.refuse(RoundNote::Kind::refused_input, peer, std::move(why));
}

// Instead of what it held until now.
void Exchange::hold(Reduction& reduction, std::size_t bytes) {
    context_.memory.give_back(reduction.bytes);
    reduction.bytes = bytes;
    context_.memory.take(bytes);
    room_.pulse();
}

void Exchange::finish(Reduction& reduction, ReducedPart reduced) {
    consensus::FinishedPart& header = reduction.header;
    header.plan = digest_;
    header.part = reduction.part;
    header.repair = reduction.repair;
    header.owner = *me_;
    header.included = std::move(reduced.included);
    header.digest = reduced.digest;
    header.signature = context_.signer.sign(consensus::part_domain, header.signed_bytes());
    reduction.encoded = std::move(reduced.encoded);
    reduction.done->set();
    keep(header, reduction.encoded);
}

// Our group waits for the average of what was collected here.
void Exchange::pass_on(const consensus::FinishedPart& header, const SharedBytes& encoded) {
    if (header.repair > 0 || !me_ || !routes_.collects(*me_, header.part)) return;
    Reduction& reduction = *reductions_.at({0, header.part});
    if (reduction.encoded) return;
    reduction.header = header;
    reduction.encoded = encoded;
    hold(reduction, encoded->size());
    reduction.done->set();
}

void Exchange::fail_to_pass_on(const std::vector<std::uint32_t>& parts) {
    for (const std::uint32_t part : parts)
        if (routes_.collects(*me_, part)) reductions_.at({0, part})->done->set();
}

// ---- streams ------------------------------------------------------------------------------------

// What this member sends us, and gets from us, on one stream.
std::vector<std::uint32_t> Exchange::parts_for(std::uint32_t member, std::uint32_t repair) const {
    std::vector<std::uint32_t> parts;
    for (const auto& [key, reduction] : reductions_)
        if (key.first == repair && (repair > 0 || routes_.next(member, key.second) == *me_))
            parts.push_back(key.second);
    return parts;
}

Task<void> Exchange::serve(std::shared_ptr<p2p::MessageStream> stream,
                           std::uint32_t repair,
                           TimePoint begun) {
    const auto member = index_of(stream->remote());
    // A repair's header may overtake the leader's repair message.
    const TimePoint deadline = std::min(round_deadline(), context_.now() + Duration(2s));
    std::vector<std::uint32_t> parts;
    while (member && me_ && context_.now() < deadline) {
        parts = parts_for(*member, repair);
        if (!parts.empty()) break;
        (void)co_await changed_.wait_until(context_.node.clock, context_.now() + 50ms);
    }
    if (parts.empty()) {
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

Result<PartInput> Exchange::check_contribution(const SharedBytes& message,
                                               const PartData& data,
                                               std::uint32_t member,
                                               std::uint32_t repair) const {
    const bool sum = repair == 0 && routes_.sends_sums(member, *me_);
    if (sum && data.encoded.empty()) return PartInput{member, {}};
    const auto codec = sum ? codec::CodecId::fp32 : codec_of(plan_, data.part);
    if (data.encoded.size() != codec::encoded_size(codec, plan_.parts[data.part].count))
        return bad_contribution("has the wrong length");
    if (!sum && plan_.members[member].input.is_empty())
        return bad_contribution("has no weight in the plan");
    if (sum && (data.included == consensus::no_members(plan_) ||
                !routes_.may_include(member, data.included)))
        return bad_contribution("has somebody in it who is not of its group");
    return PartInput{member, message.part(data.encoded), sum ? data.included : Bytes{}};
}

Result<void> Exchange::take_contribution(SharedBytes message,
                                         std::uint32_t member,
                                         std::uint32_t repair) {
    const auto data = decode_with_body<PartData>(message);
    if (!data) return bad_contribution("cannot be read");
    const auto found = reductions_.find({repair, data->part});
    if (found == reductions_.end() || (repair == 0 && routes_.next(member, data->part) != *me_))
        return bad_contribution("is none that is reduced here");
    Reduction& reduction = *found->second;
    DEDLOC_TRY(PartInput input, check_contribution(message, *data, member, repair));
    if (reduction.inputs.contains(member)) return bad_contribution("came twice");
    arrived_[member] = context_.now();
    if (reduction.closed || !reduction.waiting.contains(member)) return {};  // too late
    if (input.encoded) {
        reduction.inputs[member] = std::move(input);
        reduction.bytes += message->size();
        context_.memory.take(message->size());
        reduction.arrival.push_back(member);
    }
    reduction.waiting.erase(member);
    close_if_ready(reduction);
    return {};
}

Task<void> Exchange::read_contributions(std::shared_ptr<p2p::MessageStream> stream,
                                        std::uint32_t member,
                                        std::uint32_t repair,
                                        std::shared_ptr<Inflow> inflow) {
    for (;;) {
        co_await wait_for_room(member, repair, inflow);
        auto message = co_await stream->read();
        if (!message || !message->has_value()) break;
        const SharedBytes whole = **std::move(message);
        inflow->bytes += whole->size();
        ++inflow->parts;
        received_.add(whole->size(), context_.now());
        if (stream->remote() == plan_.leader) leader_spoke();
        inflow->seconds = to_seconds(context_.now() - inflow->begun);
        const Result<void> taken = take_contribution(whole, member, repair);
        if (!taken) {
            refuse_input(member, repair, taken.error().message());
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
    links::Flow written_so_far;
    std::optional<TimePoint> begun;
    bool all_passed_on = true;
    for (const std::uint32_t part : parts) {
        const std::shared_ptr<Reduction> reduction = reductions_.at({repair, part});
        co_await reduction->done->wait();
        if (!reduction->encoded) {
            all_passed_on = false;
            continue;
        }
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
    if (all_passed_on) {
        (void)co_await stream->finish();
    } else {
        Error error = make_error(ErrorKind::not_found, "an average did not come to its collector");
        (void)co_await stream->fail(std::move(error));
    }
}

Exchange::Reduction* Exchange::oldest_open(std::uint32_t repair) {
    for (const auto& [key, reduction] : reductions_)
        if (key.first == repair && !reduction->closed) return reduction.get();
    return nullptr;
}

// How long a part takes until it is closed, on average.
Duration Exchange::part_pace() const {
    const Duration pace =
        (context_.now() - started_) / static_cast<int>(std::max<std::size_t>(closed_, 1));
    return std::max(pace, Duration(1));
}

// Will the parts be closed in time, if they go on as they have?
bool Exchange::is_on_schedule() const {
    const double share = static_cast<double>(closed_ + 1) / static_cast<double>(opened_);
    const double due = to_seconds(time_to_contribute()) * 3 / 4 * share;
    return context_.now() - started_ <= patience_with_one() + from_seconds(due);
}

// Has this member sent what is due much later than what the slowest one sends?
bool Exchange::is_far_ahead(const Inflow& inflow) const {
    if (inflow.parts < closed_ + read_ahead_min) return false;
    const auto in_a_second = static_cast<std::size_t>(read_ahead / part_pace());
    return inflow.parts >= closed_ + in_a_second;
}

// Waits while this member is ahead of somebody and memory is full, or it is far ahead of one who
// still sends, and fast enough for the deadline: what the others bring has to be there by then. All
// send in the same order: who is missing in the oldest open part is behind, and is read from
// whatever the memory holds.
Task<void> Exchange::wait_for_room(std::uint32_t member,
                                   std::uint32_t repair,
                                   std::shared_ptr<Inflow> inflow) {
    const std::size_t most = context_.options.reduce_bytes_max;
    const Duration patience = patience_with_one();
    while (context_.now() < round_deadline()) {
        const bool full = most > 0 && context_.memory.now >= most;
        const bool too_far = repair == 0 && is_far_ahead(*inflow) && is_on_schedule();
        if (!full && !too_far) co_return;
        Reduction* oldest = oldest_open(repair);
        if (oldest == nullptr || oldest->waiting.contains(member)) co_return;
        TimePoint newest = oldest->opened;
        for (const std::uint32_t late : oldest->waiting)
            if (const auto at = arrived_.find(late); at != arrived_.end())
                newest = std::max(newest, at->second);
        const Duration silent = context_.now() - newest;
        if (full && silent > patience) {
            oldest->waiting.clear();
            close_if_ready(*oldest);
        }
        if (!full && silent > std::min(std::max(part_pace() * 2, read_ahead), patience)) co_return;
        const TimePoint next = context_.now() + room_look;
        (void)co_await room_.wait_until(context_.node.clock, next);
    }
}

}  // namespace dedloc::averaging
