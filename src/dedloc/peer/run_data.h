// RunData: this peer's part in sharing the run's data (docs/data.md): what it gives others, and the
// text that it takes from them while it trains.
//
//   RunData& data = node.add<RunData>(node, options);
//   task_options.shared = data.text();       // for tasks::make_task()
//   data.serve_with(collaboration.authorizer());
//   data.end();                              // whoever still waits for a piece is told
//
// Thread: the main thread, but for text(), which trainers read. Lifetime: the node's.

#pragma once
#include <memory>
#include <string>

#include "dedloc/collab/node.h"
#include "dedloc/data/piece_exchange.h"
#include "dedloc/text/shared_blocks.h"

namespace dedloc::peer {

class RunData final : public collab::Service {
  public:
    RunData(const collab::Node& node, data::ExchangeOptions options);

    membership::Role role() const override { return membership::Role::observer; }
    Task<void> stop() override;

    std::shared_ptr<text::SharedBlocks> text() const;
    void serve_with(std::shared_ptr<membership::Authorizer> authorizer);
    void end();
    data::ExchangeStats stats() const;

  private:
    const collab::Node& node_;
    std::shared_ptr<const data::Catalogue> catalogue_;
    std::unique_ptr<data::PieceExchange> exchange_;
};

// The pieces that an earlier peer left in this folder, and no other: for evaluation without a run.
std::shared_ptr<text::SharedBlocks> text_left_in(std::shared_ptr<data::PieceStore> store,
                                                 std::shared_ptr<const data::Catalogue> catalogue);

}  // namespace dedloc::peer
