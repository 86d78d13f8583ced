// TensorboardWriter: event files of TensorBoard while a run goes on (`--tensorboard DIR`): each
// process begins a file of its own in the folder, and every step's numbers are in it as soon as the
// event log has them. They are the events' own (scalars_of), as floats.
//
//   DEDLOC_TRY(auto writer, TensorboardWriter::open(folder, now, traffic));
//   … a sink of the engine's events …
//
// A step that is not later than the one before it (a run that goes on from an older checkpoint, a
// branch that won) says so in the file: TensorBoard then forgets the steps from there on.
//
// Errors of open: local_fault. Later ones are a warning, because training must go on: what the disk
// does not take is missing, and records stay whole. Thread: record() and add() any, they never
// wait; a thread of its own writes. Limits: queued_records_max; beyond them the newest are missing.

#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/events/events.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/monitor/run_view.h"
#include "dedloc/runtime/traffic.h"

namespace dedloc::monitor {

inline constexpr std::size_t queued_records_max = 4096;

// The bytes that this peer has sent and received; record() asks for them when a step was made.
using TrafficNow = std::function<runtime::Traffic()>;

// events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER: TensorBoard reads files in the order of names.
std::string tensorboard_file_name(WallSeconds now);

class TensorboardWriter final : public events::EventSink {
  public:
    // The folder is made. `traffic`: its bytes are curves as well; null: they are not.
    static Result<std::unique_ptr<TensorboardWriter>> open(const std::string& folder,
                                                           WallSeconds now,
                                                           TrafficNow traffic = nullptr);
    ~TensorboardWriter() override;  // writes what is queued
    TensorboardWriter(const TensorboardWriter&) = delete;
    TensorboardWriter& operator=(const TensorboardWriter&) = delete;

    void record(const events::Event& event) override;
    // For observers, who have no events of steps: each step of the view once.
    void see(const RunView& view, WallSeconds now);
    void flush();  // returns when all that was recorded before is handed to the system
    const std::string& path() const;

    struct State;

  private:
    explicit TensorboardWriter(std::unique_ptr<State> state);
    void add(std::uint64_t step_made, std::vector<Scalar> scalars);

    std::unique_ptr<State> state_;
};

}  // namespace dedloc::monitor
