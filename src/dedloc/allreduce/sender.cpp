#include "dedloc/allreduce/sender.h"

#include "dedloc/allreduce/gathered.h"
#include "dedloc/allreduce/messages.h"
#include "dedloc/allreduce/own_commitment.h"
#include "dedloc/allreduce/part_codec.h"
#include "dedloc/allreduce/plan_check.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::allreduce {
namespace {

constexpr Duration turn_look = 50ms;

}  // namespace

Sender::Sender(Transfer& transfer,
               const Pacing& pacing,
               PartOwner& owner,
               Collector& collector,
               ExchangeMeter& meter)
    : transfer_(transfer),
      environment_(transfer.environment),
      owner_(owner),
      collector_(collector),
      meter_(meter),
      send_pacing_(pacing.timeout_with_one(),
                   std::chrono::milliseconds(transfer.plan.reduce_ms) * 3 / 4),
      sent_(environment_.node.executor) {}

Task<void> Sender::talk_to_owner(std::uint32_t owner,
                                 std::vector<std::uint32_t> parts,
                                 std::uint32_t repair) {
    Task<Result<void>> talk = exchange_with(owner, parts, repair);
    // Beyond the round's deadline nobody waits; the grace lets a late average still arrive.
    const TimePoint deadline = transfer_.round_deadline() + Duration(1s);
    const Result<void> outcome = co_await runtime::with_deadline(
        environment_.node.clock, deadline, "an owner's average", std::move(talk));
    if (outcome) co_return;
    collector_.fail(parts, repair);
    if (repair == 0) owner_.fail_to_pass_on(parts);
    collector_.changed().pulse();
    // A collector that says so has not got it either: it tells of the owner.
    const bool passed_on = repair == 0 && transfer_.routes.is_grid() &&
                           !transfer_.routes.sends_sums(*transfer_.me, owner) &&
                           outcome.error().kind() == ErrorKind::not_found;
    if (passed_on) co_return;
    transfer_.state.failed_owners.failed(transfer_.plan.members[owner].peer,
                                         transfer_.now(),
                                         outcome.error().kind() == ErrorKind::peer_broke_protocol);
    environment_.teller.tell(
        events::OwnerFailed{}, transfer_.plan.members[owner].peer, outcome.error().message());
}

Task<Result<void>> Sender::exchange_with(std::uint32_t owner,
                                         std::vector<std::uint32_t> parts,
                                         std::uint32_t repair) {
    const PeerId peer = transfer_.plan.members[owner].peer;
    auto opened =
        co_await environment_.host.open_stream(peer, parts_method, transfer_.round_deadline());
    if (!opened) {
        transfer_.state.unreachable.failed(environment_.host, peer, transfer_.now());
        co_return std::move(opened).error();
    }
    std::shared_ptr<p2p::MessageStream> stream = *std::move(opened);
    PartsHeader header{transfer_.digest, repair};
    if (transfer_.commits()) {
        co_await transfer_.committed_event.wait();
        // The step was made without this stream, and what it would have brought is forgotten.
        if (!transfer_.committed) co_return Result<void>();
        header.commitment = transfer_.committed->commitment;
    }
    Bytes header_bytes = wire::encode(header);
    DEDLOC_CO_TRY_VOID(co_await stream->write(std::move(header_bytes)));
    auto sent = std::make_shared<Result<void>>();
    auto received = std::make_shared<Result<void>>();
    std::vector<Task<void>> both;
    if (repair == 0 && transfer_.routes.sends_sums(*transfer_.me, owner))
        both.push_back(send_sums(stream, parts, sent));
    else
        both.push_back(send_parts(stream, owner, parts, repair, sent));
    both.push_back(receive_parts(stream, owner, repair, parts.size(), received));
    co_await runtime::all_of(std::move(both));
    // The result counts whether the averages came; a send that failed alone shows in their bitmaps.
    co_return *received;
}

// Another one for each owner, and for each member another owner first: neither a member's way up
// nor an owner's way down gets everything at once.
double Sender::phase_towards(std::uint32_t owner) const {
    const std::size_t members = transfer_.plan.members.size();
    const std::size_t turn = (owner + members - *transfer_.me) % members;
    return static_cast<double>(turn) / static_cast<double>(members);
}

Task<void> Sender::wait_for_turn(std::uint32_t owner) {
    while (!send_pacing_.may_send(owner, transfer_.now()) &&
           transfer_.now() < transfer_.reduce_deadline()) {
        const TimePoint next = transfer_.now() + turn_look;
        (void)co_await sent_.wait_until(environment_.node.clock, next);
    }
}

Task<void> Sender::send_parts(std::shared_ptr<p2p::MessageStream> stream,
                              std::uint32_t owner,
                              std::vector<std::uint32_t> parts,
                              std::uint32_t repair,
                              std::shared_ptr<Result<void>> outcome) {
    const bool evenly = transfer_.contributes && repair == 0;
    if (evenly) send_pacing_.begin(owner, parts.size(), phase_towards(owner), transfer_.now());
    for (std::size_t i = 0; transfer_.contributes && i < parts.size(); ++i) {
        if (evenly) co_await wait_for_turn(owner);
        if (!transfer_.input) {  // the step is decided
            if (evenly) send_pacing_.end(owner);
            break;
        }
        PartData data;
        data.part = parts[i];
        SharedBytes encoded;
        if (const auto committed = transfer_.committed) {
            encoded = committed->encoded[parts[i]];
            data.path = committed->tree.path(parts[i]);
        } else {
            encoded = co_await encode_own(transfer_, parts[i]);
        }
        Bytes head = wire::encode_before_body(data, body_field, encoded->size());
        *outcome = co_await stream->write_with_body(std::move(head), std::move(encoded));
        if (evenly) send_pacing_.sent(owner, transfer_.now());
        sent_.pulse();
        if (!*outcome) {
            if (evenly) send_pacing_.end(owner);
            co_return;
        }
    }
    *outcome = co_await stream->finish();
}

// Sends what our group brought of another one's parts, in their order.
Task<void> Sender::send_sums(std::shared_ptr<p2p::MessageStream> stream,
                             std::vector<std::uint32_t> parts,
                             std::shared_ptr<Result<void>> outcome) {
    for (const std::uint32_t part : parts) {
        const std::shared_ptr<Reduction> reduction = owner_.reduction(part, /*repair=*/0);
        co_await reduction->summed->wait();
        PartData data;
        data.part = part;
        data.included = reduction->sum.included;
        SharedBytes sum = std::exchange(reduction->sum.encoded, {});
        if (data.included == consensus::no_members(transfer_.plan)) sum = SharedBytes(Bytes{});
        Bytes head = wire::encode_before_body(data, body_field, sum->size());
        *outcome = co_await stream->write_with_body(std::move(head), std::move(sum));
        owner_.sum_has_left(*reduction);
        if (!*outcome) co_return;
    }
    *outcome = co_await stream->finish();
}

// The next one is read while the last is hashed and checked: bytes that nobody waits for are copied
// once more, and the owner's window closes.
Task<void> Sender::receive_parts(std::shared_ptr<p2p::MessageStream> stream,
                                 std::uint32_t owner,
                                 std::uint32_t repair,
                                 std::size_t count,
                                 std::shared_ptr<Result<void>> outcome) {
    const auto next = std::make_shared<SharedBytes>();
    if (count > 0) co_await read_average(stream, owner, next, outcome);
    for (std::size_t i = 1; *outcome && i < count; ++i) {
        SharedBytes message = std::move(*next);
        std::vector<Task<void>> both;
        both.push_back(check_average(stream, std::move(message), owner, repair, outcome));
        both.push_back(read_average(stream, owner, next, outcome));
        co_await runtime::all_of(std::move(both));
    }
    if (*outcome && count > 0) {
        SharedBytes last = std::move(*next);
        co_await check_average(stream, std::move(last), owner, repair, outcome);
    }
    if (!*outcome) stream->reset();
}

Task<void> Sender::read_average(std::shared_ptr<p2p::MessageStream> stream,
                                std::uint32_t owner,
                                std::shared_ptr<SharedBytes> into,
                                std::shared_ptr<Result<void>> outcome) {
    auto message = co_await stream->read();
    if (!*outcome) co_return;  // the one before was wrong, and ended the stream
    if (!message) {
        *outcome = std::move(message).error();
        co_return;
    }
    if (!message->has_value()) {
        *outcome = make_error(ErrorKind::peer_gone, "the owner ended before its last average");
        co_return;
    }
    meter_.came((**message)->size());
    if (transfer_.plan.members[owner].peer == transfer_.plan.leader) transfer_.leader_spoke();
    collector_.is_heard_of(owner);
    *into = **std::move(message);
}

Task<void> Sender::check_average(std::shared_ptr<p2p::MessageStream> stream,
                                 SharedBytes message,
                                 std::uint32_t owner,
                                 std::uint32_t repair,
                                 std::shared_ptr<Result<void>> outcome) {
    auto taken = co_await receive_finished(std::move(message), owner, repair);
    if (taken) co_return;
    *outcome = std::move(taken);
    stream->reset();  // for who reads meanwhile
}

Task<Result<void>> Sender::receive_finished(SharedBytes message,
                                            std::uint32_t from,
                                            std::uint32_t repair) {
    auto data = decode_with_body<FinishedPartData>(message);
    if (!data) co_return std::move(data).error();
    consensus::FinishedPart& header = data->header;
    if (header.repair != repair || !consensus::fits_plan(header, transfer_.plan, transfer_.digest))
        co_return make_error(ErrorKind::peer_broke_protocol, "an average that was not asked for");
    const std::uint32_t owner = repair == 0 ? transfer_.plan.parts[header.part].owner : from;
    if (header.owner != owner ||
        (repair == 0 && transfer_.routes.next(*transfer_.me, header.part) != from))
        co_return make_error(ErrorKind::peer_broke_protocol,
                             "an average that was not asked for of it");
    SharedBytes encoded = message.part(data->encoded);
    // A member that handed something in knows it, and gets the others'.
    const std::optional<OwnStretch> own = stretch_of(transfer_.plan, header, *transfer_.me);
    if (own && encoded->size() >= own->offset) {
        if (!transfer_.input) co_return make_error(ErrorKind::cancelled, "the step is decided");
        const SharedBytes mine = co_await encode_own(transfer_, header.part);
        encoded = with(*encoded, *own, *mine);
    }
    if (!is_average_size(transfer_.plan, header, encoded->size()))
        co_return make_error(ErrorKind::peer_broke_protocol, "an average of the wrong length");
    if (data->received_us > 0)
        meter_.flowed_out(from,
                          {data->received_bytes, static_cast<double>(data->received_us) * 1e-6});
    const bool sound =
        co_await is_sound(environment_.node.workers, transfer_.plan, header, encoded);
    if (!sound)
        co_return make_error(ErrorKind::peer_broke_protocol, "an average is damaged or not finite");
    if (!environment_.verifier.verify(transfer_.plan.members[owner].peer,
                                      consensus::part_domain,
                                      header.signed_bytes(),
                                      header.signature))
        co_return make_error(ErrorKind::peer_broke_protocol, "an average's signature is wrong");
    collector_.keep(std::move(header), std::move(encoded));
    co_return Result<void>();
}

}  // namespace dedloc::allreduce
