#include "dedloc/allreduce/part_owner.h"

#include "dedloc/allreduce/gathered.h"
#include "dedloc/allreduce/mean_reducer.h"
#include "dedloc/allreduce/messages.h"
#include "dedloc/allreduce/own_commitment.h"
#include "dedloc/allreduce/part_codec.h"
#include "dedloc/allreduce/sparse_sums.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::allreduce {
namespace {

constexpr Duration room_look = 50ms;

// Our own in a sum that we send on sparsely: nothing is left out of it before.
PartInput owners_input(const Transfer& transfer, std::uint32_t part) {
    PartInput own{*transfer.me, own_whole(transfer, part), consensus::no_members(transfer.plan)};
    base::set_bit(own.members, *transfer.me);
    return own;
}

Error bad_contribution(const char* why) {
    return make_error(ErrorKind::peer_broke_protocol, "a part of its contribution {}", why);
}

}  // namespace

PartOwner::PartOwner(Transfer& transfer,
                     KeptInputs& kept,
                     Pacing& pacing,
                     Collector& collector,
                     ExchangeMeter& meter,
                     runtime::Scope& scope)
    : transfer_(transfer),
      kept_(kept),
      environment_(transfer.environment),
      pacing_(pacing),
      collector_(collector),
      meter_(meter),
      scope_(scope),
      reducer_(environment_.options.reducer),
      room_(environment_.node.executor) {
    if (!reducer_) reducer_ = std::make_shared<MeanReducer>(environment_.options.norm_max);
}

PartOwner::~PartOwner() {
    for (const auto& [key, reduction] : reductions_)
        transfer_.state.memory.give_back(reduction->bytes);
}

void PartOwner::lose(std::uint32_t member) {
    for (auto& [key, reduction] : reductions_) {
        if (reduction->closed) continue;
        reduction->waiting.erase(member);
        close_if_ready(*reduction);
    }
}

void PartOwner::close_to_latecomers() {
    for (auto& [key, reduction] : reductions_) {
        if (reduction->closed) continue;
        std::erase_if(reduction->waiting,
                      [this](std::uint32_t member) { return is_too_late(member); });
        close_if_ready(*reduction);
    }
}

Reduction& PartOwner::open_reduction(std::uint32_t part, std::uint32_t repair) {
    auto& slot = reductions_[{repair, part}];
    if (slot) return *slot;
    slot = std::make_shared<Reduction>();
    if (repair == 0) pacing_.part_opened();
    slot->part = part;
    slot->repair = repair;
    slot->opened = transfer_.now();
    slot->collects = repair == 0 && transfer_.routes.collects(*transfer_.me, part);
    slot->summed = std::make_unique<runtime::Event>(environment_.node.executor);
    slot->done = std::make_unique<runtime::Event>(environment_.node.executor);
    if (repair == 0) slot->waiting = transfer_.routes.sources(*transfer_.me, part);
    for (std::uint32_t i = 0; i < transfer_.plan.members.size() && repair > 0; ++i)
        if (!transfer_.plan.members[i].input.is_empty()) slot->waiting.insert(i);
    std::erase_if(slot->waiting, [this](std::uint32_t member) {
        return pacing_.is_gone(member) || is_too_late(member);
    });
    return *slot;
}

Task<void> PartOwner::contribute_own(std::vector<std::uint32_t> parts, std::uint32_t repair) {
    if (transfer_.commits()) co_await transfer_.committed_event.wait();
    for (const std::uint32_t part : parts) {
        PartInput own{*transfer_.me, {}};
        if (const auto committed = transfer_.committed) {
            own.encoded = committed->encoded[part];
        } else if (transfer_.contributes && transfer_.input) {
            if (sums_sparsely(transfer_.plan, part))
                own = owners_input(transfer_, part);
            else
                own.encoded = co_await encode_own(transfer_, part);
        }
        Reduction& reduction = *reductions_.at({repair, part});
        if (own.encoded && !reduction.closed && reduction.waiting.contains(*transfer_.me)) {
            reduction.inputs[*transfer_.me] = std::move(own);
            reduction.arrival.push_back(*transfer_.me);
        }
        reduction.waiting.erase(*transfer_.me);
        close_if_ready(reduction);
    }
}

void PartOwner::close_if_ready(Reduction& reduction) {
    const auto is_awaited = [this](std::uint32_t member) {
        return pacing_.is_waited_for(member) && !pacing_.is_weightless(member);
    };
    if (reduction.closed || std::ranges::any_of(reduction.waiting, is_awaited) ||
        waits_only_a_moment(reduction))
        return;
    reduction.closed = true;
    if (reduction.repair == 0) pacing_.part_closed();
    scope_.spawn("reduce", reduce(reductions_.at({reduction.repair, reduction.part})));
}

// Nobody is missing but members that weigh nothing: they are waited for, but not for long.
bool PartOwner::waits_only_a_moment(Reduction& reduction) {
    std::vector<std::uint32_t> missing;
    for (const std::uint32_t member : reduction.waiting)
        if (pacing_.is_weightless(member) && pacing_.is_waited_for(member))
            missing.push_back(member);
    if (missing.empty()) return false;
    if (!reduction.grace_ends) {
        reduction.grace_ends = transfer_.now() + pacing_.grace();
        scope_.spawn("wait a moment",
                     close_after_grace(reductions_.at({reduction.repair, reduction.part})));
    }
    if (transfer_.now() < *reduction.grace_ends) return true;
    for (const std::uint32_t member : missing) pacing_.do_not_wait_for(member);
    return false;
}

Task<void> PartOwner::close_after_grace(std::shared_ptr<Reduction> reduction) {
    co_await environment_.node.clock.sleep_until(*reduction->grace_ends);
    close_if_ready(*reduction);
}

Task<void> PartOwner::close_at(TimePoint deadline, std::uint32_t repair) {
    // The owner still waits for what is collected.
    if (repair == 0 && transfer_.routes.is_grid()) {
        co_await environment_.node.clock.sleep_until(transfer_.started +
                                                     pacing_.time_to_contribute());
        close_all(repair, /*collected_only=*/true);
    }
    co_await environment_.node.clock.sleep_until(deadline);
    close_all(repair, /*collected_only=*/false);
}

Task<void> PartOwner::close_without_doubtful() {
    co_await environment_.node.clock.sleep_until(transfer_.started + pacing_.time_to_begin());
    for (auto& [key, reduction] : reductions_) close_if_ready(*reduction);
}

void PartOwner::close_all(std::uint32_t repair, bool collected_only) {
    for (auto& [key, reduction] : reductions_) {
        if (key.first != repair || reduction->closed || (collected_only && !reduction->collects))
            continue;
        reduction->waiting.clear();
        close_if_ready(*reduction);
    }
}

Task<void> PartOwner::reduce(std::shared_ptr<Reduction> reduction) {
    std::vector<PartInput> inputs;
    if (environment_.options.sum_by_arrival) {
        for (const std::uint32_t member : reduction->arrival)
            inputs.push_back(reduction->inputs.at(member));
    } else {
        for (const auto& [member, input] : reduction->inputs) inputs.push_back(input);
    }
    auto work = [reducer = reducer_,
                 plan = &transfer_.plan,
                 part = reduction->part,
                 inputs = std::move(inputs),
                 only_sum = reduction->collects] {
        return only_sum ? reducer->sum(*plan, part, inputs) : reducer->reduce(*plan, part, inputs);
    };
    ReducedPart reduced = co_await environment_.node.workers.run(std::move(work));
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
void PartOwner::refuse_input(std::uint32_t member, std::uint32_t repair, std::string why) {
    const PeerId& peer = transfer_.plan.members[member].peer;
    if (repair == 0 && transfer_.routes.sends_sums(member, *transfer_.me))
        transfer_.state.failed_owners.failed(peer, transfer_.now(), /*broke_protocol=*/true);
    if (peer == environment_.me()) transfer_.state.own_refused = true;
    environment_.complaints.add(peer, environment_.now(), std::move(why), events::InputRefused{});
}

// Instead of what it held until now.
void PartOwner::hold(Reduction& reduction, std::size_t bytes) {
    transfer_.state.memory.give_back(reduction.bytes);
    reduction.bytes = bytes;
    transfer_.state.memory.take(bytes);
    room_.pulse();
}

void PartOwner::finish(Reduction& reduction, ReducedPart reduced) {
    consensus::FinishedPart& header = reduction.header;
    header.plan = transfer_.digest;
    header.part = reduction.part;
    header.repair = reduction.repair;
    header.owner = *transfer_.me;
    header.included = std::move(reduced.included);
    header.digest = reduced.digest;
    if (environment_.options.proves)
        header.commitments = kept_.commitments_of(header.included, transfer_.plan);
    header.signature = environment_.signer.sign(consensus::part_domain, header.signed_bytes());
    if (reduced.left_out)
        transfer_.state.rests.put(transfer_.plan, header, std::move(reduced.left_out));
    reduction.encoded = std::move(reduced.encoded);
    reduction.done->set();
    collector_.keep(header, reduction.encoded);
}

// Our group waits for the average of what was collected here.
void PartOwner::pass_on(const consensus::FinishedPart& header, const SharedBytes& encoded) {
    if (header.repair > 0 || !transfer_.me ||
        !transfer_.routes.collects(*transfer_.me, header.part))
        return;
    Reduction& reduction = *reductions_.at({0, header.part});
    if (reduction.encoded) return;
    reduction.header = header;
    reduction.encoded = encoded;
    hold(reduction, encoded->size());
    reduction.done->set();
}

void PartOwner::fail_to_pass_on(const std::vector<std::uint32_t>& parts) {
    for (const std::uint32_t part : parts)
        if (transfer_.routes.collects(*transfer_.me, part)) reductions_.at({0, part})->done->set();
}

// ---- streams ------------------------------------------------------------------------------------

// Parts that this member sends us, and gets from us, on one stream.
std::vector<std::uint32_t> PartOwner::parts_for(std::uint32_t member, std::uint32_t repair) const {
    std::vector<std::uint32_t> parts;
    for (const auto& [key, reduction] : reductions_)
        if (key.first == repair &&
            (repair > 0 || transfer_.routes.next(member, key.second) == *transfer_.me))
            parts.push_back(key.second);
    return parts;
}

// A member's commitment comes before everything else of it.
Ok PartOwner::receive_commitment(std::uint32_t member, const PartsHeader& header) {
    const consensus::PlanMember& author = transfer_.plan.members[member];
    if (!environment_.options.proves || author.input.is_empty()) return {};
    if (!header.commitment) return bad_contribution("comes without a commitment");
    if (!is_signed(environment_.verifier, author.peer, transfer_.digest, *header.commitment))
        return bad_contribution("has a commitment that it did not sign");
    return kept_.commit(member, *header.commitment);
}

// Is this the part that its author committed to? On a worker: it is hashed.
Task<Result<void>> PartOwner::check_path(SharedBytes message, std::uint32_t member) {
    const Commitment* const commitment = kept_.commitment(member);
    if (!environment_.options.proves || commitment == nullptr) co_return Result<void>();
    const auto data = decode_with_body<PartData>(message);
    if (!data) co_return bad_contribution("cannot be read");
    const std::uint32_t part = data->part;
    CommittedInput input{message.part(data->encoded), data->path};
    auto work = [input = std::move(input),
                 root = commitment->root,
                 part,
                 count = transfer_.plan.parts.size()] {
        return is_committed(input, root, part, count);
    };
    const bool committed = co_await environment_.node.workers.run(std::move(work));
    if (!committed) {
        kept_.contradicts(member);
        co_return bad_contribution("is none that it committed to");
    }
    co_return Result<void>();
}

void PartOwner::keep_input(const SharedBytes& message, std::uint32_t member) {
    const bool decided = transfer_.contributes && !transfer_.input;
    if (!environment_.options.proves || decided) return;
    const auto data = decode_with_body<PartData>(message);
    if (data) kept_.keep(data->part, member, {message.part(data->encoded), data->path});
}

Task<void> PartOwner::serve(std::shared_ptr<p2p::MessageStream> stream,
                            PartsHeader header,
                            TimePoint begun) {
    const std::uint32_t repair = header.repair;
    const auto member = transfer_.index_of(stream->remote());
    // A repair's header may overtake the leader's repair message.
    const TimePoint deadline = std::min(transfer_.round_deadline(), transfer_.now() + Duration(2s));
    std::vector<std::uint32_t> parts;
    while (member && transfer_.me && transfer_.now() < deadline) {
        parts = parts_for(*member, repair);
        if (!parts.empty()) break;
        (void)co_await collector_.changed().wait_until(environment_.node.clock,
                                                       transfer_.now() + 50ms);
    }
    if (parts.empty()) {
        Error error = make_error(ErrorKind::not_found, "no such parts are reduced here");
        (void)co_await stream->fail(std::move(error));
        co_return;
    }
    if (Ok committed = receive_commitment(*member, header); !committed) {
        refuse_input(*member, repair, committed.error().message());
        lose(*member);
        (void)co_await stream->fail(std::move(committed).error());
        co_return;
    }
    auto inflow = std::make_shared<Inflow>();
    inflow->begun = begun;
    if (repair == 0) meter_.flows_in(*member, inflow);
    std::vector<Task<void>> both;
    both.push_back(read_contributions(stream, *member, repair, inflow));
    both.push_back(write_finished(stream, *member, parts, repair, inflow));
    co_await runtime::all_of(std::move(both));
}

Result<PartInput> PartOwner::check_contribution(const SharedBytes& message,
                                                const PartData& data,
                                                std::uint32_t member,
                                                std::uint32_t repair) const {
    const bool sum = repair == 0 && transfer_.routes.sends_sums(member, *transfer_.me);
    if (sum && data.encoded.empty()) return PartInput{member, {}};
    const auto codec = sum ? codec::CodecId::fp32 : codec_of(transfer_.plan, data.part);
    if (data.encoded.size() != codec::encoded_size(codec, transfer_.plan.parts[data.part].count))
        return bad_contribution("has the wrong length");
    if (!sum && transfer_.plan.members[member].input.is_empty())
        return bad_contribution("has no weight in the plan");
    if (sum && (data.included == consensus::no_members(transfer_.plan) ||
                !transfer_.routes.may_include(member, data.included)))
        return bad_contribution("has somebody in it who is not of its group");
    return PartInput{member, message.part(data.encoded), sum ? data.included : Bytes{}};
}

Result<void> PartOwner::receive_contribution(SharedBytes message,
                                             std::uint32_t member,
                                             std::uint32_t repair) {
    const auto data = decode_with_body<PartData>(message);
    if (!data) return bad_contribution("cannot be read");
    const auto found = reductions_.find({repair, data->part});
    if (found == reductions_.end() ||
        (repair == 0 && transfer_.routes.next(member, data->part) != *transfer_.me))
        return bad_contribution("is none that is reduced here");
    Reduction& reduction = *found->second;
    DEDLOC_TRY(PartInput input, check_contribution(message, *data, member, repair));
    if (reduction.inputs.contains(member)) return bad_contribution("came twice");
    pacing_.arrived(member);
    if (reduction.closed || !reduction.waiting.contains(member)) return {};  // too late
    if (input.encoded) {
        reduction.inputs[member] = std::move(input);
        reduction.bytes += message->size();
        transfer_.state.memory.take(message->size());
        reduction.arrival.push_back(member);
    }
    reduction.waiting.erase(member);
    close_if_ready(reduction);
    return {};
}

Task<void> PartOwner::read_contributions(std::shared_ptr<p2p::MessageStream> stream,
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
        meter_.came(whole->size());
        if (stream->remote() == transfer_.plan.leader) transfer_.leader_spoke();
        inflow->seconds = to_seconds(transfer_.now() - inflow->begun);
        Result<void> taken = co_await check_path(whole, member);
        if (taken) taken = receive_contribution(whole, member, repair);
        if (!taken) {
            refuse_input(member, repair, taken.error().message());
            break;
        }
        keep_input(whole, member);
    }
    // Ended, cut or nonsense: nothing more comes from this member on this stream.
    for (auto& [key, reduction] : reductions_) {
        if (key.first != repair || reduction->closed) continue;
        reduction->waiting.erase(member);
        close_if_ready(*reduction);
    }
}

Task<void> PartOwner::write_finished(std::shared_ptr<p2p::MessageStream> stream,
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
        if (!begun) begun = transfer_.now();
        FinishedPartData data;
        data.header = reduction->header;
        data.received_bytes = inflow->bytes;
        data.received_us = static_cast<std::uint64_t>(inflow->seconds * 1e6);
        SharedBytes encoded = reduction->encoded;
        if (const auto own = stretch_of(transfer_.plan, data.header, member))
            encoded = without(encoded, *own);
        Bytes head = wire::encode_before_body(data, body_field, encoded->size());
        const std::size_t bytes = head.size() + encoded->size();
        auto written = co_await stream->write_with_body(std::move(head), std::move(encoded));
        if (!written) co_return;
        written_so_far.bytes += bytes;
        written_so_far.seconds = to_seconds(transfer_.now() - *begun);
        // An aggregator sends nothing else whose speed others could tell it.
        if (transfer_.only_reduces() && repair == 0) meter_.flowed_out(member, written_so_far);
    }
    if (all_passed_on) {
        (void)co_await stream->finish();
    } else {
        Error error = make_error(ErrorKind::not_found, "an average did not come to its collector");
        (void)co_await stream->fail(std::move(error));
    }
}

Reduction* PartOwner::oldest_open(std::uint32_t repair) {
    for (const auto& [key, reduction] : reductions_)
        if (key.first == repair && !reduction->closed) return reduction.get();
    return nullptr;
}

// Waits while this member is ahead of somebody and memory is full, or it is far ahead of one who
// still sends, and fast enough for the deadline: what the others bring has to be there by then. All
// send in the same order: who is missing in the oldest open part is behind, and is read from
// whatever the memory holds.
Task<void> PartOwner::wait_for_room(std::uint32_t member,
                                    std::uint32_t repair,
                                    std::shared_ptr<Inflow> inflow) {
    const std::size_t most = environment_.options.reduce_bytes_max;
    const Duration timeout = pacing_.timeout_with_one();
    while (transfer_.now() < transfer_.round_deadline()) {
        const bool full = most > 0 && transfer_.state.memory.now >= most;
        const bool too_far =
            repair == 0 && pacing_.is_far_ahead(inflow->parts) && pacing_.is_on_schedule();
        if (!full && !too_far) co_return;
        Reduction* oldest = oldest_open(repair);
        if (oldest == nullptr || oldest->waiting.contains(member)) co_return;
        const Duration silent =
            transfer_.now() - pacing_.newest_of(oldest->waiting, oldest->opened);
        if (full && silent > timeout) {
            oldest->waiting.clear();
            close_if_ready(*oldest);
        }
        if (!full && silent > std::min(std::max(pacing_.part_pace() * 2, read_ahead), timeout))
            co_return;
        const TimePoint next = transfer_.now() + room_look;
        (void)co_await room_.wait_until(environment_.node.clock, next);
    }
}

}  // namespace dedloc::allreduce
