#include "dedloc/monitor/tensorboard_writer.h"

#include <atomic>
#include <cmath>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

#include "dedloc/base/log.h"
#include "dedloc/monitor/tensorboard.h"
#include "dedloc/monitor/write_some.h"
#include "dedloc/monitor/writer_queue.h"

namespace dedloc::monitor {
namespace {

constexpr const char* sent_tag = "traffic/sent_bytes";
constexpr const char* received_tag = "traffic/received_bytes";

std::string this_machine() {
    char name[64] = {};
    const bool is_known = ::gethostname(name, sizeof name - 1) == 0 && name[0] != 0;
    return is_known ? name : "machine";
}

// A file to which whole records are appended, or nothing.
class RecordFile {
  public:
    explicit RecordFile(std::string path) : path_(std::move(path)) {}
    ~RecordFile() {
        if (file_ >= 0) ::close(file_);
    }
    RecordFile(const RecordFile&) = delete;
    RecordFile& operator=(const RecordFile&) = delete;

    const std::string& path() const { return path_; }
    Ok open() {
        file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
        return file_ >= 0 ? Ok() : cannot_write(system_error());
    }
    Ok append(ByteView bytes) {
        std::string_view rest = as_text(bytes);
        if (const Ok written = write_some(file_, rest); !written) {
            (void)!::ftruncate(file_, static_cast<off_t>(bytes_));
            return cannot_write(written.error());
        }
        bytes_ += bytes.size();
        return {};
    }

  private:
    Error cannot_write(const Error& why) const { return why.with_context("cannot write " + path_); }

    std::string path_;
    int file_ = -1;
    std::uint64_t bytes_ = 0;
};

void put(std::vector<Scalar>& scalars, const Scalar& scalar) {
    if (std::isfinite(scalar.value)) scalars.push_back(scalar);
}

}  // namespace

struct TensorboardWriter::State {
    State(const std::string& path, TrafficNow now) : file(path), traffic(std::move(now)) {}

    struct Record {
        std::uint64_t step_made = 0;  // 0: none
        std::vector<Scalar> scalars;
    };

    // The queue's thread alone uses these, once the writer is open.
    RecordFile file;
    bool failing = false;
    std::uint64_t newest_step = 0;

    TrafficNow traffic;
    std::uint64_t seen_step = 0;      // see()'s
    std::uint64_t seen_accuracy = 0;  // see()'s

    Bytes bytes_of(const Record& record) {
        Bytes bytes;
        const bool goes_back = record.step_made > 0 && record.step_made <= newest_step;
        if (goes_back)
            base::append(bytes, tensorboard_restart(record.scalars.front().time, record.step_made));
        if (record.step_made > 0) newest_step = record.step_made;
        base::append(bytes, tensorboard_records(record.scalars));
        return bytes;
    }
    void write(const std::deque<Record>& records) {
        Bytes bytes;
        for (const Record& record : records) base::append(bytes, bytes_of(record));
        const Ok written = file.append(bytes);
        if (!written && !failing)
            log(LogLevel::warning,
                "monitor",
                "{}; until it can be written, numbers are missing for TensorBoard",
                written.error().message());
        failing = !written;
    }

    // The last member: its thread ends before what it writes to goes.
    WriterQueue<Record> queue{
        queued_records_max,
        [this](const std::deque<Record>& records, std::uint64_t) { write(records); }};
};

std::string tensorboard_file_name(WallSeconds now) {
    static std::atomic<int> number = 0;  // of this process: two files may begin in one second
    return fmt::format("events.out.tfevents.{:010}.{}.{}.{}",
                       static_cast<std::uint64_t>(std::max(0.0, now)),
                       this_machine(),
                       ::getpid(),
                       number.fetch_add(1));
}

Result<std::unique_ptr<TensorboardWriter>> TensorboardWriter::open(const std::string& folder,
                                                                   WallSeconds now,
                                                                   TrafficNow traffic) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        return make_error(ErrorKind::local_fault, "cannot make {}: {}", folder, error.message());
    auto state =
        std::make_unique<State>(folder + "/" + tensorboard_file_name(now), std::move(traffic));
    DEDLOC_TRY_VOID(state->file.open());
    DEDLOC_TRY_VOID(state->file.append(tensorboard_begin(now)));
    return std::unique_ptr<TensorboardWriter>(new TensorboardWriter(std::move(state)));
}

TensorboardWriter::TensorboardWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

TensorboardWriter::~TensorboardWriter() = default;

void TensorboardWriter::record(const events::Event& event) {
    std::vector<Scalar> scalars = scalars_of(event);
    if (scalars.empty()) return;
    const auto* made = event.as<events::StepMade>();
    if (made != nullptr && state_->traffic) {
        const runtime::Traffic traffic = state_->traffic();
        put(scalars, {event.time, made->step, sent_tag, static_cast<double>(traffic.sent_bytes)});
        put(scalars,
            {event.time, made->step, received_tag, static_cast<double>(traffic.received_bytes)});
    }
    add(made != nullptr ? made->step : 0, std::move(scalars));
}

void TensorboardWriter::see(const RunView& view, WallSeconds now) {
    std::vector<Scalar> scalars;
    const bool has_step = view.step > state_->seen_step;
    if (has_step) {
        state_->seen_step = view.step;
        if (view.loss > 0) put(scalars, {now, view.step, "loss", view.loss});
        put(scalars, {now, view.step, "samples_per_s", view.samples_per_s});
        put(scalars, {now, view.step, "peers", static_cast<double>(view.live_peers())});
    }
    if (view.accuracy_step > state_->seen_accuracy) {
        state_->seen_accuracy = view.accuracy_step;
        put(scalars, {now, view.accuracy_step, "evaluation/accuracy", view.accuracy});
    }
    if (!scalars.empty()) add(has_step ? view.step : 0, std::move(scalars));
}

void TensorboardWriter::add(std::uint64_t step_made, std::vector<Scalar> scalars) {
    state_->queue.add({step_made, std::move(scalars)});
}

void TensorboardWriter::flush() { state_->queue.flush(); }

const std::string& TensorboardWriter::path() const { return state_->file.path(); }

}  // namespace dedloc::monitor
