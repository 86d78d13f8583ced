#include "dedloc/data/piece_exchange.h"

#include <algorithm>

#include "dedloc/base/bits.h"
#include "dedloc/base/log.h"
#include "dedloc/membership/attachments.h"
#include "dedloc/wire/message.h"

namespace dedloc::data {
namespace {

constexpr std::size_t wanted_max = 8192;         // further ones are wanted when they are asked for
constexpr std::size_t providers_max = 256;       // known at a time
constexpr std::size_t answers_kept_max = 8192;   // of a provider
constexpr std::size_t shares_at_once = 32;       // pieces of this peer's share that are asked for
constexpr std::size_t shares_looked_at = 16384;  // pieces in one look for the share
constexpr std::size_t unkept_max = 256;
constexpr Duration poll_interval = 1s;
constexpr Duration ask_anew_after = 5s;  // whether a peer has meanwhile what it had not
constexpr Duration homes_wait = 500ms;   // for other homes' answers, before the host is asked
constexpr Duration claim_late = 4s;      // another peer may be asked for what one owes
constexpr Duration question_wait = 10s;
constexpr Duration pieces_wait = 60s;
constexpr Duration home_silent = 90s;  // who has not answered for so long is no home
constexpr Duration lane_idle_wait = 500ms;
constexpr Duration back_off_least = 500ms;
constexpr Duration back_off_most = 30s;

}  // namespace

// Serves questions, and says no once its exchange has stopped.
struct PieceExchange::Served {
    static constexpr std::size_t at_once_max = 32;
    static constexpr std::size_t of_peer_max = 2;

    p2p::Host* host = nullptr;  // nullptr: stopped
    runtime::Workers* workers = nullptr;
    Digest name;
    std::size_t count = 0;
    std::shared_ptr<PieceStore> store;
    std::shared_ptr<membership::Authorizer> authorizer;
    std::map<PeerId, std::size_t> answering;
    std::size_t answering_all = 0;
    std::uint64_t bytes_sent = 0;

    Result<PiecesRequest> admitted(const PeerId& from, ByteView request) {
        if (host == nullptr)
            return make_error(ErrorKind::peer_gone, "this peer shares data no longer");
        DEDLOC_TRY(PiecesRequest question, wire::decode<PiecesRequest>(request));
        if (question.catalogue != name)
            return make_error(ErrorKind::denied, "this peer shares other data");
        DEDLOC_TRY_VOID(
            membership::check_proof_about(*authorizer, name, from, host->id(), question.proof));
        host->vouch(from);
        for (const std::uint64_t index : question.pieces)
            if (index >= count)
                return make_error(ErrorKind::bad_input, "there is no piece {}", index);
        return question;
    }
    bool may_answer(const PeerId& peer) {
        return answering_all < at_once_max && answering[peer] < of_peer_max;
    }
};

namespace {

using ServedPieces = PieceExchange::Served;

// Counts an answer while it is made.
class AnswerSlot {
  public:
    AnswerSlot(std::shared_ptr<ServedPieces> served, PeerId peer)
        : served_(std::move(served)), peer_(std::move(peer)) {
        ++served_->answering_all;
        ++served_->answering[peer_];
    }
    ~AnswerSlot() {
        --served_->answering_all;
        const auto own = served_->answering.find(peer_);
        if (--own->second == 0) served_->answering.erase(own);
    }
    AnswerSlot(const AnswerSlot&) = delete;
    AnswerSlot& operator=(const AnswerSlot&) = delete;

  private:
    std::shared_ptr<ServedPieces> served_;
    PeerId peer_;
};

Task<Result<Bytes>> answer_have(std::shared_ptr<ServedPieces> served, PeerId from, Bytes request) {
    DEDLOC_CO_TRY(const PiecesRequest question, served->admitted(from, request));
    HavePiecesReply reply;
    reply.is_whole = served->store->is_whole();
    reply.bits = Bytes(base::bits_bytes(question.pieces.size()));
    for (std::size_t i = 0; i < question.pieces.size(); ++i)
        if (served->store->has(question.pieces[i])) base::set_bit(reply.bits, i);
    co_return wire::encode(reply);
}

PiecesReply read_pieces(PieceStore& store, const std::vector<std::uint64_t>& indices) {
    PiecesReply reply;
    std::size_t bytes = 0;
    for (const std::uint64_t index : indices) {
        auto piece = store.read(index);
        if (!piece) break;
        bytes += piece->content.size();
        if (!reply.pieces.empty() && bytes > answer_bytes) break;
        reply.pieces.push_back(*std::move(piece));
        if (reply.pieces.size() == answered_max) break;
    }
    return reply;
}

Task<Result<Bytes>> answer_pieces(std::shared_ptr<ServedPieces> served,
                                  PeerId from,
                                  Bytes request) {
    DEDLOC_CO_TRY(PiecesRequest question, served->admitted(from, request));
    if (!served->may_answer(from))
        co_return make_error(ErrorKind::overloaded, "this peer answers others; ask again");
    const AnswerSlot slot(served, from);
    auto read = [store = served->store, indices = std::move(question.pieces)] {
        return read_pieces(*store, indices);
    };
    const PiecesReply reply = co_await served->workers->run(std::move(read));
    if (reply.pieces.empty())
        co_return make_error(ErrorKind::not_found, "the piece is not here (any more)");
    for (const Piece& piece : reply.pieces) served->bytes_sent += piece.content.size();
    co_return wire::encode(reply);
}

}  // namespace

PieceExchange::PieceExchange(runtime::Node node, p2p::Host& host, ExchangeOptions options)
    : node_(std::move(node)),
      host_(host),
      options_(std::move(options)),
      begun_(host.clock().now()),
      arrived_(host.executor()),
      changed_(host.executor()),
      wake_(host.executor()),
      homes_(std::make_shared<PieceHomes>(host.id())),
      served_(std::make_shared<Served>()),
      scope_(host.executor()) {
    served_->host = &host_;
    served_->workers = &node_.workers;
    served_->name = options_.name;
    served_->count = options_.catalogue->count();
    served_->store = options_.store;
    options_.store->set_homes(homes_);
    if (options_.serves) serve_with(options_.authorizer);
    if (!options_.store->is_whole()) scope_.spawn("data of the run", keep_asking());
}

PieceExchange::~PieceExchange() { stop_serving(); }

void PieceExchange::serve_with(std::shared_ptr<membership::Authorizer> authorizer) {
    options_.authorizer = authorizer;
    const bool serves_already = served_->authorizer != nullptr;
    served_->authorizer = std::move(authorizer);
    if (serves_already || stopped_) return;
    host_.handle_call(have_pieces_method, [served = served_](PeerId from, Bytes request) {
        return answer_have(served, std::move(from), std::move(request));
    });
    host_.handle_call(pieces_method, [served = served_](PeerId from, Bytes request) {
        return answer_pieces(served, std::move(from), std::move(request));
    });
}

void PieceExchange::stop_serving() {
    if (served_->host == nullptr) return;
    if (served_->authorizer) {
        host_.remove_handler(have_pieces_method);
        host_.remove_handler(pieces_method);
    }
    served_->host = nullptr;
}

Task<void> PieceExchange::stop() {
    stopped_ = true;
    stop_serving();
    scope_.cancel();
    arrived_.set();
    co_await scope_.stop();
}

ExchangeStats PieceExchange::stats() const {
    ExchangeStats stats = stats_;
    stats.bytes_sent = served_->bytes_sent;
    return stats;
}

Bytes PieceExchange::question_to(const PeerId& peer, std::vector<std::uint64_t> pieces) const {
    PiecesRequest question;
    question.catalogue = options_.name;
    question.pieces = std::move(pieces);
    question.proof = membership::proof_about(*options_.authorizer, options_.name, host_.id(), peer);
    return wire::encode(question);
}

void PieceExchange::tell(DataNews news, const PeerId& peer, std::string text) {
    if (options_.told) options_.told(news, peer, std::move(text));
}

bool PieceExchange::want(std::uint64_t index, bool is_share) {
    const auto known = wanted_.find(index);
    if (known != wanted_.end()) {
        if (known->second.is_share && !is_share) {
            known->second.is_share = false;
            --shares_;
            put_before_shares(index);
        }
        return true;
    }
    if (wanted_.size() >= wanted_max) return false;
    wanted_[index] = Wanted{.since = host_.clock().now(), .is_share = is_share};
    if (is_share) {
        ++shares_;
        order_.push_back(index);
    } else {
        put_before_shares(index);
    }
    return true;
}

void PieceExchange::put_before_shares(std::uint64_t index) {
    const auto first_share = std::ranges::find_if(order_, [this](std::uint64_t other) {
        const auto found = wanted_.find(other);
        return found != wanted_.end() && found->second.is_share;
    });
    order_.insert(first_share, index);
}

void PieceExchange::forget_wanted(std::uint64_t index) {
    const auto known = wanted_.find(index);
    if (known == wanted_.end()) return;
    if (known->second.is_share) --shares_;
    wanted_.erase(known);
    std::erase(order_, index);
    for (auto& [peer, provider] : providers_) provider.has.erase(index);
}

void PieceExchange::expect(const std::vector<std::uint64_t>& pieces) {
    if (options_.store->is_whole()) return;
    bool is_new = false;
    for (const std::uint64_t index : pieces) {
        if (index >= options_.catalogue->count() || options_.store->has(index)) continue;
        if (!want(index, /*is_share=*/false)) break;
        is_new = true;
    }
    if (is_new) wake_.set();
}

Task<Result<Bytes>> PieceExchange::piece(std::uint64_t index) {
    if (index >= options_.catalogue->count())
        co_return make_error(ErrorKind::bad_input, "the run's data have no piece {}", index);
    while (!scope_.stopping()) {
        if (const auto unkept = unkept_.find(index); unkept != unkept_.end())
            co_return unkept->second;
        if (options_.store->has(index)) {
            auto read = [store = options_.store, index] { return store->read(index); };
            Result<Piece> piece = co_await node_.workers.run(std::move(read));
            if (piece) co_return std::move(piece->content);
            if (options_.store->is_whole()) co_return std::move(piece).error();
            continue;
        }
        const bool is_new = !wanted_.contains(index);
        if (want(index, /*is_share=*/false)) {
            // Somebody waits for this piece: it goes before those that are only expected.
            std::erase(order_, index);
            order_.push_front(index);
            if (wanted_.at(index).is_gone)
                co_return make_error(ErrorKind::not_found,
                                     "no peer that answers has piece {} of the run's data",
                                     index);
        }
        is_new ? wake_.set() : changed_.pulse();
        co_await arrived_.wait();
    }
    co_return make_error(ErrorKind::cancelled, "the exchange of data has stopped");
}

// New wishes are asked for at once; peers and what they have by now are looked at every second.
Task<void> PieceExchange::keep_asking() {
    while (true) {
        ask_around();
        note_homes();
        find_gone();
        want_share();
        changed_.pulse();
        const TimePoint next = host_.clock().now() + poll_interval;
        (void)co_await wake_.wait_until(host_.clock(), next);
        wake_.reset();
    }
}

std::vector<std::uint64_t> PieceExchange::not_asked(const Provider& provider) const {
    std::vector<std::uint64_t> pieces;
    for (const std::uint64_t index : order_) {
        if (pieces.size() == asked_max) break;
        if (!provider.has.contains(index)) pieces.push_back(index);
    }
    return pieces;
}

void PieceExchange::ask_around() {
    const TimePoint now = host_.clock().now();
    const std::vector<PeerId> peers = options_.peers ? options_.peers() : host_.connected_peers();
    for (const PeerId& peer : peers) {
        if (peer == host_.id()) continue;
        if (!providers_.contains(peer) && providers_.size() >= providers_max) continue;
        Provider& provider = providers_[peer];
        if (provider.is_liar || provider.is_asked || provider.not_before > now) continue;
        if (now > provider.asked_anew_at + ask_anew_after) {
            std::erase_if(provider.has, [](const auto& entry) { return !entry.second; });
            provider.asked_anew_at = now;
        }
        std::vector<std::uint64_t> pieces;
        if (!provider.is_whole) pieces = not_asked(provider);
        const bool is_silent =
            !provider.answered_at || now > *provider.answered_at + home_silent / 3;
        if (pieces.empty() && !is_silent) continue;
        provider.is_asked = true;
        scope_.spawn("ask for data", ask(peer, std::move(pieces)));
    }
    std::erase_if(providers_, [&](const auto& entry) {
        return !entry.second.has_lane && !entry.second.is_asked && !entry.second.is_liar &&
               std::ranges::find(peers, entry.first) == peers.end();
    });
}

Task<void> PieceExchange::ask(PeerId peer, std::vector<std::uint64_t> pieces) {
    Bytes request = question_to(peer, pieces);
    std::string method = have_pieces_method;
    const TimePoint until = host_.clock().now() + question_wait;
    const auto answer = co_await host_.call(peer, std::move(method), std::move(request), until);
    Provider& provider = providers_.at(peer);
    provider.is_asked = false;
    if (!answer) {
        failed(provider, answer.error());
        co_return;
    }
    const auto reply = wire::decode<HavePiecesReply>(*answer);
    if (!reply || !base::are_bits_of(reply->bits, pieces.size())) {
        failed(provider, make_error(ErrorKind::peer_broke_protocol, "an answer of no sense"));
        co_return;
    }
    receive_answer(provider, pieces, *reply);
    if (!provider.has_lane) {
        provider.has_lane = true;
        scope_.spawn("data from a peer", lane(peer));
    }
    changed_.pulse();
}

void PieceExchange::receive_answer(Provider& provider,
                                   const std::vector<std::uint64_t>& pieces,
                                   const HavePiecesReply& reply) {
    provider.answered_at = host_.clock().now();
    provider.is_whole = reply.is_whole;
    if (provider.has.size() > answers_kept_max) provider.has.clear();
    for (std::size_t i = 0; i < pieces.size(); ++i)
        if (wanted_.contains(pieces[i])) provider.has[pieces[i]] = base::has_bit(reply.bits, i);
}

void PieceExchange::note_homes() {
    const TimePoint now = host_.clock().now();
    std::vector<PeerId> others;
    for (const auto& [peer, provider] : providers_)
        if (!provider.is_whole && !provider.is_liar && provider.answered_at &&
            now < *provider.answered_at + home_silent)
            others.push_back(peer);
    homes_->set_others(others);
}

bool PieceExchange::has_now(const Provider& provider, std::uint64_t index) const {
    if (provider.is_liar || !provider.answered_at) return false;
    if (provider.is_whole) return true;
    const auto answer = provider.has.find(index);
    return answer != provider.has.end() && answer->second;
}

void PieceExchange::find_gone() {
    const TimePoint now = host_.clock().now();
    std::vector<std::uint64_t> shares_gone;
    bool is_news = false;
    for (auto& [index, wanted] : wanted_) {
        const bool somebody = std::ranges::any_of(providers_, [&](const auto& entry) {
            return has_now(entry.second, index) && entry.second.not_before <= now;
        });
        if (somebody && wanted.is_gone) {
            is_news = true;
            found_again(index, wanted);
        }
        if (somebody || wanted.is_gone || wanted.claims > 0 ||
            now < wanted.since + options_.gone_after)
            continue;
        if (wanted.is_share) {
            shares_gone.push_back(index);
            continue;
        }
        wanted.is_gone = true;
        is_news = true;
        ++stats_.gone;
        tell(DataNews::gone,
             {},
             fmt::format("piece {} of the run's data is gone: no peer that answers has it; its "
                         "samples are left out until one comes that does",
                         index));
    }
    for (const std::uint64_t index : shares_gone) forget_wanted(index);
    if (is_news) arrived_.pulse();
}

void PieceExchange::found_again(std::uint64_t index, Wanted& wanted) {
    wanted.is_gone = false;
    tell(DataNews::found_again, {}, fmt::format("piece {} of the run's data is back", index));
}

void PieceExchange::want_share() {
    const TimePoint now = host_.clock().now();
    const PieceStore& store = *options_.store;
    if (now < begun_ + options_.share_after || stats_.bytes_of_share > store.bytes_max() / 2)
        return;
    const bool has_needs = std::ranges::any_of(wanted_, [](const auto& entry) {
        return !entry.second.is_share && !entry.second.is_gone && entry.second.claims == 0;
    });
    if (has_needs) return;
    const std::uint64_t count = options_.catalogue->count();
    const std::uint64_t looked = std::min<std::uint64_t>(count, shares_looked_at);
    for (std::uint64_t i = 0; i < looked && shares_ < shares_at_once; ++i) {
        const std::uint64_t index = share_cursor_;
        share_cursor_ = (share_cursor_ + 1) % count;
        if (!store.has(index) && homes_->is_own(index) && !want(index, /*is_share=*/true)) return;
    }
}

// Before the host is asked, other homes have a moment to say that they have it.
bool PieceExchange::others_may_give(const PeerId& but,
                                    std::uint64_t index,
                                    const Wanted& wanted) const {
    const TimePoint now = host_.clock().now();
    if (now > wanted.since + claim_late && !wanted.is_share) return false;
    return std::ranges::any_of(providers_, [&](const auto& entry) {
        const auto& [peer, provider] = entry;
        if (peer == but || provider.is_whole || provider.is_liar || provider.not_before > now)
            return false;
        if (has_now(provider, index)) return true;
        const bool is_unknown = !provider.has.contains(index);
        return is_unknown && now < wanted.since + homes_wait;
    });
}

std::vector<std::uint64_t> PieceExchange::claim(const PeerId& peer, const Provider& provider) {
    std::vector<std::uint64_t> pieces;
    const TimePoint now = host_.clock().now();
    std::size_t bytes = 0;
    bool has_needs = false;
    for (const std::uint64_t index : order_) {
        Wanted& wanted = wanted_.at(index);
        if (wanted.is_share && has_needs) break;  // needs and shares do not wait for each other
        if (!has_now(provider, index)) continue;
        const bool is_late = wanted.claims == 1 && now > wanted.claimed_at + claim_late;
        if (wanted.claims > 0 && !is_late) continue;
        if (provider.is_whole && others_may_give(peer, index, wanted)) continue;
        bytes += options_.catalogue->sizes[static_cast<std::size_t>(index)];
        if (!pieces.empty() && (bytes > answer_bytes || pieces.size() == answered_max)) break;
        has_needs = has_needs || !wanted.is_share;
        ++wanted.claims;
        wanted.claimed_at = now;
        pieces.push_back(index);
    }
    return pieces;
}

void PieceExchange::release(const std::vector<std::uint64_t>& pieces) {
    for (const std::uint64_t index : pieces) {
        const auto wanted = wanted_.find(index);
        if (wanted != wanted_.end() && wanted->second.claims > 0) --wanted->second.claims;
    }
}

Task<void> PieceExchange::lane(PeerId peer) {
    while (true) {
        const auto known = providers_.find(peer);
        if (known->second.is_liar || !host_.is_connected(peer)) break;
        const std::vector<std::uint64_t> pieces = claim(peer, known->second);
        if (pieces.empty()) {
            const TimePoint next = host_.clock().now() + lane_idle_wait;
            (void)co_await changed_.wait_until(host_.clock(), next);
            continue;
        }
        const Ok fetched = co_await fetch(peer, pieces);
        release(pieces);
        changed_.pulse();
        if (wanted_.size() == shares_ && shares_ < shares_at_once / 2) wake_.set();
        if (fetched) continue;
        failed(known->second, fetched.error());
        const Duration pause = known->second.back_off;
        co_await host_.clock().sleep_for(pause);
    }
    providers_.at(peer).has_lane = false;
}

void PieceExchange::failed(Provider& provider, const Error& error) {
    provider.back_off = std::clamp(provider.back_off * 2, back_off_least, back_off_most);
    if (error.kind() == ErrorKind::denied || error.kind() == ErrorKind::unsupported)
        provider.back_off = back_off_most;
    provider.not_before = host_.clock().now() + provider.back_off;
}

Task<Ok> PieceExchange::fetch(PeerId peer, std::vector<std::uint64_t> pieces) {
    Bytes request = question_to(peer, pieces);
    std::string method = pieces_method;
    const TimePoint until = host_.clock().now() + pieces_wait;
    const auto answer = co_await host_.call(peer, std::move(method), std::move(request), until);
    if (!answer) {
        // The peer has that piece no longer: another one answers, or it is asked again.
        if (answer.error().kind() == ErrorKind::not_found)
            providers_.at(peer).has[pieces.front()] = false;
        co_return answer.error();
    }
    auto reply = wire::decode<PiecesReply>(*answer);
    if (!reply || reply->pieces.empty() || reply->pieces.size() > pieces.size())
        co_return make_error(ErrorKind::peer_broke_protocol,
                             "peer {} gave other pieces than it was asked for",
                             peer.short_text());
    for (std::size_t i = 0; i < reply->pieces.size(); ++i) {
        Ok taken = co_await take(peer, pieces[i], std::move(reply->pieces[i]));
        if (!taken) co_return taken;
    }
    Provider& provider = providers_.at(peer);
    provider.back_off = Duration(0);
    provider.answered_at = host_.clock().now();
    co_return Ok();
}

Task<Ok> PieceExchange::take(PeerId peer, std::uint64_t index, Piece piece) {
    auto work = [catalogue = options_.catalogue, store = options_.store, index, piece]() -> Ok {
        if (!is_piece(*catalogue, index, piece))
            return make_error(ErrorKind::peer_broke_protocol, "it is not that piece");
        return store->keep(index, piece);
    };
    const Ok kept = co_await node_.workers.run(std::move(work));
    if (!kept && kept.error().kind() == ErrorKind::peer_broke_protocol) {
        providers_.at(peer).is_liar = true;
        ++stats_.lies;
        std::string text = fmt::format(
            "peer {} sent false bytes for piece {} of the run's data: "
            "it is asked for nothing more",
            peer.short_text(),
            index);
        tell(DataNews::lied, peer, text);
        co_return make_error(ErrorKind::peer_broke_protocol, "{}", text);
    }
    const std::uint64_t size = piece.content.size();
    if (!kept) {
        log(LogLevel::warning, "data", "a piece is not kept: {}", kept.error().message());
        if (unkept_.size() >= unkept_max) unkept_.erase(unkept_.begin());
        unkept_[index] = std::move(piece.content);
    }
    const auto wanted = wanted_.find(index);
    if (wanted != wanted_.end()) {
        stats_.bytes_received += size;
        if (wanted->second.is_share) stats_.bytes_of_share += size;
        if (wanted->second.is_gone) found_again(index, wanted->second);
    }
    forget_wanted(index);
    arrived_.pulse();
    co_return Ok();
}

}  // namespace dedloc::data
