#include "dedloc/peer/data_through_run.h"

#include <limits>

#include "dedloc/data/piece_store.h"
#include "dedloc/runtime/real.h"
#include "dedloc/security/hash.h"
#include "dedloc/tasks/data_section.h"
#include "dedloc/wire/message.h"

namespace dedloc::peer {
namespace {

// A folder may see other data once it begins another run.
std::string folder_of(const Digest& catalogue) {
    return std::string(data_folder) + "/" + catalogue.short_hex();
}

events::Any event_of(data::DataNews news) {
    if (news == data::DataNews::gone) return events::DataGone{};
    if (news == data::DataNews::lied) return events::DataLied{};
    return events::DataFound{};
}

// A store that outlives the folder's disk would have nothing to read from.
struct FolderStore {
    std::unique_ptr<runtime::Disk> disk;
    std::unique_ptr<data::PieceCache> cache;
};

}  // namespace

bool DataThroughRun::is_shared() const { return tasks::shares_data(invitation_.run.task); }

void DataThroughRun::open(std::shared_ptr<const data::Catalogue> catalogue,
                          const Digest& name,
                          std::shared_ptr<data::PieceStore> store,
                          events::EventSink& sink) {
    data::ExchangeOptions options;
    options.name = name;
    options.catalogue = std::move(catalogue);
    options.store = std::move(store);
    options.authorizer = collab::authorizer_for(node_, invitation_);
    options.told = [&sink, &clock = node_.clock()](
                       data::DataNews news, const PeerId& peer, std::string text) {
        sink.record({.time = clock.wall_now(),
                     .peer = peer,
                     .step = 0,
                     .text = std::move(text),
                     .what = event_of(news)});
    };
    options.serves = false;
    data_ = &node_.add<RunData>(node_, std::move(options));
}

Ok DataThroughRun::take(events::EventSink& sink) {
    DEDLOC_TRY(const tasks::RunCatalogue run, tasks::kept_catalogue(invitation_.run.task));
    auto store = std::make_shared<data::PieceCache>(
        node_.disk(), folder_of(run.name), run.catalogue, options_.data_cache_bytes);
    open(run.catalogue, run.name, std::move(store), sink);
    text_ = data_->text();
    return {};
}

void DataThroughRun::hand_over(tasks::TaskOptions& options) const {
    options.shared = text_;
    options.needs_all_data = invitation_.run.is_checked();
}

Ok DataThroughRun::give(const tasks::TrainingTask& task, events::EventSink& sink) {
    if (!is_shared() || takes()) return {};
    DEDLOC_TRY(const auto pieces, task.own_pieces());
    if (!pieces) return {};
    auto catalogue = std::make_shared<const data::Catalogue>(pieces->catalogue);
    const Digest name = security::sha256(wire::encode(*catalogue));
    open(std::move(catalogue), name, std::make_shared<data::OwnStore>(*pieces), sink);
    return {};
}

void DataThroughRun::serve(const collab::Collaboration& collaboration) {
    if (data_) data_->serve_with(collaboration.authorizer());
}

void DataThroughRun::end() {
    if (data_) data_->end();
}

std::optional<data::ExchangeStats> DataThroughRun::stats() const {
    if (!data_) return std::nullopt;
    return data_->stats();
}

std::shared_ptr<text::SharedBlocks> text_fetched_by(const std::string& peer_directory,
                                                    const run::TaskConfig& task) {
    if (!tasks::shares_data(task)) return nullptr;
    const auto run = tasks::kept_catalogue(task);
    auto disk = runtime::real_disk(peer_directory);
    if (!run || !disk) return nullptr;
    auto left = std::make_shared<FolderStore>();
    left->disk = *std::move(disk);
    // Nothing is put there, and nothing goes.
    left->cache = std::make_unique<data::PieceCache>(*left->disk,
                                                     folder_of(run->name),
                                                     run->catalogue,
                                                     std::numeric_limits<std::uint64_t>::max());
    std::shared_ptr<data::PieceStore> store(left, left->cache.get());
    if (store->bytes() == 0) return nullptr;
    return text_left_in(std::move(store), run->catalogue);
}

}  // namespace dedloc::peer
