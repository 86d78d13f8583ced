// PieceExchange: the pieces of a run's data, taken from peers that have them and given on to those
// that ask. Nobody has to have all: a home takes what its own samples need, ahead of use, from
// whichever other home has it, and from the host what no other has. While nothing is needed it
// takes its share of the rest (each piece has one of the live homes, drawn by its hash), so that
// the host may leave once one copy is out.
//
//   /dedloc/data/1/have     call  {1 catalogue, 2 pieces, 3 proof} -> {1 bits, 2 is_whole}
//   /dedloc/data/1/pieces   call  {1 catalogue, 2 pieces, 3 proof} -> {1 {1 path, 2 content}…}
//   (docs/spec/data.md)
//
// A newcomer needs data before it is a member: each question carries the proof that attachments
// have. A piece is checked against the catalogue before it is kept; a sender of a false one is
// named, and asked nothing more. A piece that nobody who is reached has for `gone_after` is gone:
// that is told, piece() says not_found, and the exchange goes on to look for it now and then.
//
// Thread: the network thread; hashing and disk on workers. Lifetime: stop() before destruction.

#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/data/catalogue.h"
#include "dedloc/data/data_messages.h"
#include "dedloc/data/homes.h"
#include "dedloc/data/piece_store.h"
#include "dedloc/membership/authorizer.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/node.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::data {

inline constexpr const char* have_pieces_method = "/dedloc/data/1/have";
inline constexpr const char* pieces_method = "/dedloc/data/1/pieces";

enum class DataNews { lied, gone, found_again };

struct ExchangeOptions {
    Digest name;  // of the catalogue: the hash in the run file
    std::shared_ptr<const Catalogue> catalogue;
    std::shared_ptr<PieceStore> store;
    std::shared_ptr<membership::Authorizer> authorizer;
    // Lists peers that may have pieces and can be asked now. Null: all connected.
    std::function<std::vector<PeerId>()> peers{};
    // A sentence for people; the peer, where there is one.
    std::function<void(DataNews, const PeerId&, std::string)> told{};
    // False: questions are answered only from serve_with() on.
    bool serves = true;
    Duration gone_after = 60s;
    Duration share_after = 20s;  // a newcomer's own samples come first
};

struct ExchangeStats {
    std::uint64_t bytes_sent = 0;      // contents of pieces
    std::uint64_t bytes_received = 0;  // checked
    std::uint64_t bytes_of_share = 0;  // of them: not asked for by samples
    std::uint64_t lies = 0;
    std::uint64_t gone = 0;
};

class PieceExchange {
  public:
    PieceExchange(runtime::Node node, p2p::Host& host, ExchangeOptions options);
    ~PieceExchange();
    PieceExchange(const PieceExchange&) = delete;
    PieceExchange& operator=(const PieceExchange&) = delete;

    // The content of a piece, as soon as it is here. not_found: it is gone; cancelled: stopped.
    Task<Result<Bytes>> piece(std::uint64_t index);
    // The pieces will be asked for, in this order.
    void expect(const std::vector<std::uint64_t>& pieces);
    // Answers from now on whom this authorizer lets, and asks with what it shows. Once the run has
    // one that hears of revocations, that is the one to take.
    void serve_with(std::shared_ptr<membership::Authorizer> authorizer);
    Task<void> stop();

    bool has_stopped() const { return stopped_; }  // any thread

    ExchangeStats stats() const;

    struct Served;

  private:
    struct Wanted {
        TimePoint since;
        bool is_share = false;
        bool is_gone = false;
        std::size_t claims = 0;
        TimePoint claimed_at{};
    };
    struct Provider {
        std::map<std::uint64_t, bool> has;  // of what was asked
        std::optional<TimePoint> answered_at;
        TimePoint not_before{};
        Duration back_off{};
        bool is_whole = false;
        bool is_liar = false;
        bool has_lane = false;
        bool is_asked = false;      // a question is under way
        TimePoint asked_anew_at{};  // what it had not then is asked again
    };

    bool want(std::uint64_t index, bool is_share);
    void put_before_shares(std::uint64_t index);
    void forget_wanted(std::uint64_t index);
    Task<void> keep_asking();
    void ask_around();
    Task<void> ask(PeerId peer, std::vector<std::uint64_t> pieces);
    void receive_answer(Provider& provider,
                        const std::vector<std::uint64_t>& pieces,
                        const HavePiecesReply& reply);
    std::vector<std::uint64_t> not_asked(const Provider& provider) const;
    void note_homes();
    void find_gone();
    void found_again(std::uint64_t index, Wanted& wanted);
    void want_share();
    bool has_now(const Provider& provider, std::uint64_t index) const;
    bool others_may_give(const PeerId& but, std::uint64_t index, const Wanted& wanted) const;
    std::vector<std::uint64_t> claim(const PeerId& peer, const Provider& provider);
    void release(const std::vector<std::uint64_t>& pieces);
    Task<void> lane(PeerId peer);
    Task<Ok> fetch(PeerId peer, std::vector<std::uint64_t> pieces);
    Task<Ok> take(PeerId peer, std::uint64_t index, Piece piece);
    void failed(Provider& provider, const Error& error);
    Bytes question_to(const PeerId& peer, std::vector<std::uint64_t> pieces) const;
    void stop_serving();
    void tell(DataNews news, const PeerId& peer, std::string text);

    runtime::Node node_;
    p2p::Host& host_;
    ExchangeOptions options_;
    std::map<PeerId, Provider> providers_;
    std::map<std::uint64_t, Wanted> wanted_;
    std::deque<std::uint64_t> order_;  // of wanted_, the soonest first; shares last
    std::size_t shares_ = 0;           // of wanted_
    std::uint64_t share_cursor_ = 0;
    TimePoint begun_;
    ExchangeStats stats_;
    runtime::Event arrived_;  // pulsed: a piece is here, or is gone
    runtime::Event changed_;  // pulsed: something can be claimed
    runtime::Event wake_;     // something was wanted
    std::atomic<bool> stopped_ = false;
    std::map<std::uint64_t, Bytes> unkept_;  // the disk did not take them
    std::shared_ptr<PieceHomes> homes_;
    std::shared_ptr<Served> served_;
    runtime::Scope scope_;
};

}  // namespace dedloc::data
