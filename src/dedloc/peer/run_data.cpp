#include "dedloc/peer/run_data.h"

#include "dedloc/runtime/future.h"

namespace dedloc::peer {
namespace {

Task<void> expect_pieces(data::PieceExchange& exchange, std::vector<std::uint64_t> pieces) {
    exchange.expect(pieces);
    co_return;
}

Task<Result<void>> stop_exchange(data::PieceExchange& exchange) {
    co_await exchange.stop();
    co_return Result<void>();
}

class TextOfCatalogue : public text::SharedBlocks {
  public:
    explicit TextOfCatalogue(std::shared_ptr<const data::Catalogue> catalogue)
        : catalogue_(std::move(catalogue)) {}
    std::span<const std::uint32_t> sizes() const override { return catalogue_->sizes; }
    ByteView table() const override { return catalogue_->table; }

  private:
    std::shared_ptr<const data::Catalogue> catalogue_;
};

class ExchangedText final : public TextOfCatalogue {
  public:
    ExchangedText(const collab::Node& node,
                  data::PieceExchange& exchange,
                  std::shared_ptr<const data::Catalogue> catalogue)
        : TextOfCatalogue(std::move(catalogue)), node_(node), exchange_(exchange) {}

    Result<std::string> read(std::uint64_t block) override {
        DEDLOC_TRY(const Bytes piece,
                   node_.call("a piece of the run's data", exchange_.piece(block)));
        return std::string(as_text(piece));
    }
    void expect(const std::vector<std::uint64_t>& blocks) override {
        node_.spawn()("expect data", expect_pieces(exchange_, blocks));
    }

  private:
    const collab::Node& node_;
    data::PieceExchange& exchange_;
};

class TextLeft final : public TextOfCatalogue {
  public:
    TextLeft(std::shared_ptr<data::PieceStore> store,
             std::shared_ptr<const data::Catalogue> catalogue)
        : TextOfCatalogue(std::move(catalogue)), store_(std::move(store)) {}

    Result<std::string> read(std::uint64_t block) override {
        DEDLOC_TRY(const data::Piece piece, store_->read(block));
        return std::string(as_text(piece.content));
    }
    void expect(const std::vector<std::uint64_t>&) override {}

  private:
    std::shared_ptr<data::PieceStore> store_;
};

}  // namespace

RunData::RunData(const collab::Node& node, data::ExchangeOptions options)
    : node_(node), catalogue_(options.catalogue) {
    node_.run_on_network_thread([&] {
        exchange_ = std::make_unique<data::PieceExchange>(
            node_.environment(), node_.host(), std::move(options));
    });
}

Task<void> RunData::stop() { co_await exchange_->stop(); }

std::shared_ptr<text::SharedBlocks> RunData::text() const {
    return std::make_shared<ExchangedText>(node_, *exchange_, catalogue_);
}

void RunData::serve_with(std::shared_ptr<membership::Authorizer> authorizer) {
    node_.run_on_network_thread([&] { exchange_->serve_with(std::move(authorizer)); });
}

void RunData::end() {
    const Result<void> ended = node_.call("end the exchange of data", stop_exchange(*exchange_));
    (void)ended;  // cancelled: somebody stopped the node meanwhile
}

data::ExchangeStats RunData::stats() const {
    return node_.run_on_network_thread([this] { return exchange_->stats(); });
}

std::shared_ptr<text::SharedBlocks> text_left_in(std::shared_ptr<data::PieceStore> store,
                                                 std::shared_ptr<const data::Catalogue> catalogue) {
    return std::make_shared<TextLeft>(std::move(store), std::move(catalogue));
}

}  // namespace dedloc::peer
