#include "dedloc/membership/attachments.h"

#include <algorithm>
#include <memory>

#include "dedloc/base/fields.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::membership {
namespace {

constexpr Duration one_piece_max = 20s;
constexpr Duration one_dial_max = 5s;

struct Question {
    Digest run;
    Digest hash;
    std::uint64_t offset = 0;
    Bytes proof;
    DEDLOC_FIELDS(run, hash, offset, proof)
};

struct Answer {
    std::uint64_t bytes = 0;
    Bytes piece;
    DEDLOC_FIELDS(bytes, piece)
};

// No hello: those have nonces of another length.
Meeting meeting_about(const Digest& hash, PeerId asker, PeerId asked) {
    return {.caller = std::move(asker),
            .callee = std::move(asked),
            .nonce_caller = to_bytes(hash.view()),
            .nonce_callee = to_bytes("attachment")};
}

struct Served {
    Digest run;
    std::shared_ptr<Authorizer> authorizer;
    std::map<Digest, SharedBytes> files;
};

Task<Result<Bytes>> answer(p2p::Host* host,
                           std::shared_ptr<const Served> served,
                           PeerId from,
                           Bytes request) {
    DEDLOC_CO_TRY(const Question question, wire::decode<Question>(request));
    if (question.run != served->run)
        co_return make_error(ErrorKind::denied,
                             "the run in your join string is not ours; ask for a fresh join "
                             "string");
    DEDLOC_CO_TRY_VOID(
        check_proof_about(*served->authorizer, question.hash, from, host->id(), question.proof));
    host->vouch(from);
    const auto file = served->files.find(question.hash);
    if (file == served->files.end())
        co_return make_error(
            ErrorKind::not_found, "there is no file {} here", question.hash.short_hex());
    const ByteView whole = *file->second;
    if (question.offset > whole.size())
        co_return make_error(ErrorKind::bad_input,
                             "file {} has {} bytes only",
                             question.hash.short_hex(),
                             whole.size());
    Answer reply;
    reply.bytes = whole.size();
    const ByteView rest = whole.subspan(static_cast<std::size_t>(question.offset));
    reply.piece = to_bytes(rest.first(std::min(rest.size(), attachment_piece_bytes_max)));
    co_return wire::encode(reply);
}

// Appends one piece; an error when it is not what was asked for.
Ok receive_piece(const Answer& reply, const PeerId& from, std::size_t bytes_max, Bytes& file) {
    if (reply.bytes > bytes_max)
        return make_error(ErrorKind::peer_broke_protocol,
                          "peer {} has a file of {} bytes, and at most {} are taken",
                          from.short_text(),
                          reply.bytes,
                          bytes_max);
    const bool last = file.size() + reply.piece.size() == reply.bytes;
    // A peer that gives a byte at a time would be asked for longer than anybody waits.
    if (reply.piece.size() > attachment_piece_bytes_max ||
        file.size() + reply.piece.size() > reply.bytes ||
        (reply.piece.size() < attachment_piece_bytes_max && !last))
        return make_error(ErrorKind::peer_broke_protocol,
                          "peer {} sent a piece that does not fit its file",
                          from.short_text());
    base::append(file, reply.piece);
    return {};
}

// Somebody to ask, with all addresses that are its own.
struct Source {
    std::optional<PeerId> peer;
    std::vector<std::string> addresses;
};

// Sources in order: those already connected come first.
std::vector<Source> sources(const p2p::Host& host, const std::vector<std::string>& addresses) {
    std::vector<Source> all;
    for (const std::string& address : addresses) {
        const auto parsed = wire::Multiaddr::from_text(address);
        const std::optional<PeerId> peer = parsed ? parsed->peer() : std::nullopt;
        const auto known = std::ranges::find(all, peer, &Source::peer);
        if (peer && known != all.end())
            known->addresses.push_back(address);
        else
            all.push_back({peer, {address}});
    }
    std::ranges::stable_partition(
        all, [&host](const Source& one) { return one.peer && host.is_connected(*one.peer); });
    return all;
}

Task<Result<PeerId>> reach(p2p::Host& host, Source source, TimePoint deadline) {
    if (source.peer && host.is_connected(*source.peer)) co_return *source.peer;
    Error last = make_error(ErrorKind::not_found, "it has no address");
    for (const std::string& address : source.addresses) {
        const TimePoint until = std::min(deadline, host.clock().now() + one_dial_max);
        auto peer = co_await host.dial(address, until);
        if (peer) co_return *peer;
        last = std::move(peer).error();
    }
    co_return last;
}

Task<Result<Bytes>> fetch_from(p2p::Host& host,
                               AttachmentWish wish,
                               Source source,
                               TimePoint deadline) {
    DEDLOC_CO_TRY(const PeerId peer, co_await reach(host, std::move(source), deadline));
    Question question;
    question.run = wish.run;
    question.hash = wish.hash;
    question.proof = proof_about(*wish.authorizer, wish.hash, host.id(), peer);
    Bytes file;
    for (bool whole = false; !whole;) {
        question.offset = file.size();
        Bytes request = wire::encode(question);
        std::string method = attachment_method;
        const TimePoint until = std::min(deadline, host.clock().now() + one_piece_max);
        auto bytes = co_await host.call(peer, std::move(method), std::move(request), until);
        if (!bytes) co_return std::move(bytes).error();
        DEDLOC_CO_TRY(const Answer reply, wire::decode<Answer>(*bytes));
        DEDLOC_CO_TRY_VOID(receive_piece(reply, peer, wish.bytes_max, file));
        whole = file.size() == reply.bytes;
    }
    if (security::sha256(file) != wish.hash)
        co_return make_error(ErrorKind::peer_broke_protocol,
                             "peer {} sent a file that has not the hash {}",
                             peer.short_text(),
                             wish.hash.short_hex());
    co_return file;
}

}  // namespace

Bytes proof_about(const Authorizer& authorizer,
                  const Digest& hash,
                  const PeerId& asker,
                  const PeerId& asked) {
    return authorizer.credential(meeting_about(hash, asker, asked), Side::caller);
}

Ok check_proof_about(Authorizer& authorizer,
                     const Digest& hash,
                     const PeerId& asker,
                     const PeerId& asked,
                     ByteView proof) {
    return authorizer.check(meeting_about(hash, asker, asked), Side::caller, proof);
}

AttachmentServer::AttachmentServer(p2p::Host& host,
                                   const Digest& run,
                                   std::shared_ptr<Authorizer> authorizer,
                                   std::vector<Attachment> attachments)
    : host_(host) {
    DEDLOC_CHECK(attachments.size() <= attachments_max);
    auto served = std::make_shared<Served>();
    served->run = run;
    served->authorizer = std::move(authorizer);
    for (Attachment& attachment : attachments)
        served->files[attachment.hash] = std::move(attachment.bytes);
    host_.handle_call(attachment_method,
                      [&host, served = std::shared_ptr<const Served>(std::move(served))](
                          PeerId from, Bytes request) {
                          return answer(&host, served, std::move(from), std::move(request));
                      });
}

AttachmentServer::~AttachmentServer() { host_.remove_handler(attachment_method); }

Task<Result<Bytes>> fetch_attachment(p2p::Host& host, AttachmentWish wish, TimePoint deadline) {
    Error last = make_error(ErrorKind::not_found, "the join string names no address");
    std::string reasons;
    const std::vector<Source> all = sources(host, wish.peers);
    auto left = static_cast<int>(all.size());
    for (const Source& source : all) {
        // An equal share of the time for each who is left, so that nobody has the others' as well.
        const TimePoint now = host.clock().now();
        auto file = co_await fetch_from(host, wish, source, now + (deadline - now) / left--);
        if (file) co_return file;
        if (file.error().kind() == ErrorKind::denied) co_return std::move(file).error();
        reasons += fmt::format("\n  {}: {}", source.addresses.front(), file.error().message());
        last = std::move(file).error();
    }
    co_return make_error(
        last.kind(), "no peer of the run gave the file {}:{}", wish.hash.short_hex(), reasons);
}

}  // namespace dedloc::membership
