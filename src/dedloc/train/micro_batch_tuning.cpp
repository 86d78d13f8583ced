#include "dedloc/train/micro_batch_tuning.h"

#include <algorithm>
#include <utility>

#include "dedloc/run/run_file.h"

namespace dedloc::train {

namespace {

// Searches until one tries again what ran out of memory. An hour: where nothing has changed that
// costs others a full memory for a moment, and a micro-batch that is computed twice.
constexpr int searches_until_more_fit = 6;

}  // namespace

MicroBatchTuning::MicroBatchTuning(runtime::Clock& clock, Options options)
    : clock_(clock), options_(std::move(options)), size_(options_.samples) {}

bool MicroBatchTuning::is_fixed() const { return options_.samples != run::micro_auto; }

void MicroBatchTuning::begin() {
    if (is_fixed()) return;
    memory_before_ = memory();
    begin_search(options_.search.samples_first);
}

std::uint64_t MicroBatchTuning::next() {
    if (!search_ && clock_.now() >= search_at_) begin_search(size_ / 2);
    return search_ ? search_->size() : size_;
}

void MicroBatchTuning::computed(double seconds) {
    if (search_) search_->measured(seconds, memory());
    end_search_if_done();
}

// The search tried too much for this machine, or others leave less of the memory by now.
bool MicroBatchTuning::does_not_fit(std::uint64_t samples) {
    if (is_fixed()) return false;
    const std::uint64_t tried = search_ ? search_->size() : size_;
    if (samples > tried) return true;  // we know it from the first half
    if (!search_) begin_search(tried);
    search_->out_of_memory();
    end_search_if_done();
    samples_fit_ = size_;
    more_fit_at_ = clock_.now() + options_.again * searches_until_more_fit;
    return true;
}

void MicroBatchTuning::begin_search(std::uint64_t samples_first) {
    MicroBatchOptions options = options_.search;
    options.samples_first = std::max(options.samples_first, samples_first);
    options.samples_known = size_;
    // The memory may be free again by now; if not, one micro-batch is computed in halves.
    if (samples_fit_ < options.samples_max && clock_.now() >= more_fit_at_) {
        samples_fit_ *= 2;
        more_fit_at_ = clock_.now() + options_.again * searches_until_more_fit;
    }
    options.samples_max = std::min(options.samples_max, samples_fit_);
    search_.emplace(options, memory_before_);
}

void MicroBatchTuning::end_search_if_done() {
    if (!search_ || !search_->done()) return;
    const bool is_news = search_->size() != size_;
    size_ = search_->size();
    if (is_news && options_.on_found) options_.on_found(*search_);
    search_.reset();
    search_at_ = clock_.now() + options_.again;
}

}  // namespace dedloc::train
