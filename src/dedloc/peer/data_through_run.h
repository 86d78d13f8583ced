// DataThroughRun: where a peer's process gets the run's data from, and to whom it gives them; of a
// run whose data each machine has by itself, nothing of it does anything.
//
//   newcomer  agree(), the catalogue fetched, take(), the task made, serve()
//   host      the task made from its own files, give(), serve()
//
// Thread: the main thread. Lifetime: the node outlives it.

#pragma once
#include <functional>
#include <optional>
#include <string>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/events/events.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_options.h"
#include "dedloc/peer/run_data.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::peer {

inline constexpr const char* data_folder = "data";  // below the peer's

class DataThroughRun {
  public:
    // `sink` hears what happens to pieces, on the network thread, until end().
    DataThroughRun(collab::Node& node,
                   const collab::Invitation& invitation,
                   const PeerOptions& options)
        : node_(node), invitation_(invitation), options_(options) {}

    bool is_shared() const;
    // The peer's own folder goes before what others send.
    bool has_own_files() const { return !options_.data_directory.empty(); }
    // After this tasks are made with text from the run's peers. not_found: the catalogue is not
    // here.
    Ok take(events::EventSink& sink);
    // Whether the task's text comes from peers.
    bool takes() const { return text_ != nullptr; }
    void hand_over(tasks::TaskOptions& options) const;
    // Gives others what this machine has. Errors: as TrainingTask::own_pieces.
    Ok give(const tasks::TrainingTask& task, events::EventSink& sink);
    void serve(const collab::Collaboration& collaboration);
    void end();
    // Nothing: the data are each machine's own.
    std::optional<data::ExchangeStats> stats() const;

  private:
    void open(std::shared_ptr<const data::Catalogue> catalogue,
              const Digest& name,
              std::shared_ptr<data::PieceStore> store,
              events::EventSink& sink);

    collab::Node& node_;
    const collab::Invitation& invitation_;
    const PeerOptions& options_;
    RunData* data_ = nullptr;  // the node's
    std::shared_ptr<text::SharedBlocks> text_;
};

// The text that a peer had fetched into its folder, for a task of its checkpoints. Null: the run's
// data are each machine's own, or nothing was fetched.
std::shared_ptr<text::SharedBlocks> text_fetched_by(const std::string& peer_directory,
                                                    const run::TaskConfig& task);

}  // namespace dedloc::peer
