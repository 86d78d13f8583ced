// Exchange towards the owners of its parts, and the collectors: what is sent, and the averages.

#include "dedloc/averaging/exchange.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

constexpr Duration turn_look = 50ms;

}  // namespace

Task<SharedBytes> Exchange::encode_own(std::uint32_t part) {
    const consensus::PlanPart& range = plan_.parts[part];
    const codec::CodecId codec = codec_of(plan_, part);
    const std::span<const float> sum =
        std::span(input_->sum)
            .subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.count));
    if (SharedBytes lies = contribution_as_it_lies(codec, sum, input_)) co_return lies;
    auto work = [input = input_, codec, sum] {
        return encode_contribution(codec, sum, input->input);
    };
    SharedBytes encoded = co_await context_.node.workers.run(std::move(work));
    co_return encoded;
}

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
    if (repair == 0) fail_to_pass_on(parts);
    changed_.pulse();
    // A collector that says so has not got it either: it tells of the owner.
    const bool passed_on = repair == 0 && routes_.is_grid() && !routes_.sends_sums(*me_, owner) &&
                           outcome.error().kind() == ErrorKind::not_found;
    if (passed_on) co_return;
    context_.failed_owners.failed(plan_.members[owner].peer,
                                  context_.now(),
                                  outcome.error().kind() == ErrorKind::peer_broke_protocol);
    const RoundNote note{
        RoundNote::Kind::owner_failed, plan_.members[owner].peer, outcome.error().message()};
    context_.listener.note(note);
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
    if (repair == 0 && routes_.sends_sums(*me_, owner))
        both.push_back(send_sums(stream, parts, sent));
    else
        both.push_back(send_parts(stream, owner, parts, repair, sent));
    both.push_back(receive_parts(stream, owner, repair, parts.size(), received));
    co_await runtime::all_of(std::move(both));
    // What counts is that the averages came; a send that failed alone shows in their bitmaps.
    co_return *received;
}

// Another one for each owner, and for each member another owner first: neither a member's way up
// nor an owner's way down gets everything at once.
double Exchange::phase_towards(std::uint32_t owner) const {
    const std::size_t members = plan_.members.size();
    const std::size_t turn = (owner + members - *me_) % members;
    return static_cast<double>(turn) / static_cast<double>(members);
}

Task<void> Exchange::wait_for_turn(std::uint32_t owner) {
    while (!even_.may_send(owner, context_.now()) && context_.now() < reduce_deadline()) {
        const TimePoint next = context_.now() + turn_look;
        (void)co_await sent_.wait_until(context_.node.clock, next);
    }
}

Task<void> Exchange::send_parts(std::shared_ptr<p2p::MessageStream> stream,
                                std::uint32_t owner,
                                std::vector<std::uint32_t> parts,
                                std::uint32_t repair,
                                std::shared_ptr<Result<void>> outcome) {
    const bool evenly = contributes() && repair == 0;
    if (evenly) even_.begin(owner, parts.size(), phase_towards(owner), context_.now());
    for (std::size_t i = 0; contributes() && i < parts.size(); ++i) {
        if (evenly) co_await wait_for_turn(owner);
        if (!input_) {  // the step is decided
            if (evenly) even_.end(owner);
            break;
        }
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

// What our group brought of another one's parts, in their order.
Task<void> Exchange::send_sums(std::shared_ptr<p2p::MessageStream> stream,
                               std::vector<std::uint32_t> parts,
                               std::shared_ptr<Result<void>> outcome) {
    for (const std::uint32_t part : parts) {
        const std::shared_ptr<Reduction> reduction = reductions_.at({0, part});
        co_await reduction->summed->wait();
        PartData data;
        data.part = part;
        data.included = reduction->sum.included;
        SharedBytes sum = std::exchange(reduction->sum.encoded, {});
        if (data.included == consensus::no_members(plan_)) sum = SharedBytes(Bytes{});
        Bytes head = wire::encode_before_body(data, body_field, sum->size());
        *outcome = co_await stream->write_with_body(std::move(head), std::move(sum));
        if (!reduction->encoded) hold(*reduction, 0);
        if (!*outcome) co_return;
    }
    *outcome = co_await stream->finish();
}

// The next one is read while the last is hashed and checked: bytes that nobody waits for are copied
// once more, and the owner's window closes.
Task<void> Exchange::receive_parts(std::shared_ptr<p2p::MessageStream> stream,
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

Task<void> Exchange::read_average(std::shared_ptr<p2p::MessageStream> stream,
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
    received_.add((**message)->size(), context_.now());
    if (plan_.members[owner].peer == plan_.leader) leader_spoke();
    averages_.try_emplace(owner, Rhythm{context_.now()}).first->second.beat(context_.now());
    *into = **std::move(message);
}

Task<void> Exchange::check_average(std::shared_ptr<p2p::MessageStream> stream,
                                   SharedBytes message,
                                   std::uint32_t owner,
                                   std::uint32_t repair,
                                   std::shared_ptr<Result<void>> outcome) {
    auto taken = co_await take_finished(std::move(message), owner, repair);
    if (taken) co_return;
    *outcome = std::move(taken);
    stream->reset();  // for who reads meanwhile
}

Task<Result<void>> Exchange::take_finished(SharedBytes message,
                                           std::uint32_t from,
                                           std::uint32_t repair) {
    auto data = decode_with_body<FinishedPartData>(message);
    if (!data) co_return std::move(data).error();
    consensus::FinishedPart& header = data->header;
    if (header.repair != repair || !consensus::fits_plan(header, plan_, digest_))
        co_return make_error(ErrorKind::peer_broke_protocol, "an average that was not asked for");
    const std::uint32_t owner = repair == 0 ? plan_.parts[header.part].owner : from;
    if (header.owner != owner || (repair == 0 && routes_.next(*me_, header.part) != from))
        co_return make_error(ErrorKind::peer_broke_protocol,
                             "an average that was not asked for of it");
    const codec::CodecId codec = codec_of(plan_, header.part);
    const auto count = static_cast<std::size_t>(plan_.parts[header.part].count);
    if (data->encoded.size() != codec::encoded_size(codec, count))
        co_return make_error(ErrorKind::peer_broke_protocol, "an average of the wrong length");
    if (data->received_us > 0)
        outflows_[from] = {data->received_bytes, static_cast<double>(data->received_us) * 1e-6};
    SharedBytes encoded = message.part(data->encoded);
    const bool sound = co_await is_sound(context_, plan_, header, encoded);
    if (!sound)
        co_return make_error(ErrorKind::peer_broke_protocol, "an average is damaged or not finite");
    if (!context_.verifier.verify(plan_.members[owner].peer,
                                  consensus::part_domain,
                                  header.signed_bytes(),
                                  header.signature))
        co_return make_error(ErrorKind::peer_broke_protocol, "an average's signature is wrong");
    keep(std::move(header), std::move(encoded));
    co_return Result<void>();
}

}  // namespace dedloc::averaging
