// LoopPage: the web page of a loop's peer (docs/web.md), from when dedloc_web() asks for it.
// PageEvents: keeps the newest events for a page that may open later.
//
// The page never calls the loop's owner: a thread of its own looks at the run a few times a second.
// Its user can pause the loop, which then waits in dedloc_step().
//
// Errors of open: bad_input (`where`), local_fault (the port, the disk). Thread: record(): the
// network's; the rest: the owner's. Lifetime: session and events outlive the page.

#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "dedloc/events/events.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/monitor/run_view.h"
#include "dedloc/train/session.h"
#include "dedloc/web/run_page.h"

namespace dedloc::c_api {

inline constexpr std::size_t early_events_max = web::inbox_events_max / 2;

class PageEvents final : public events::EventSink {
  public:
    void record(const events::Event& event) override;
    // `page` gets the events that were kept, and all from now on; null: nobody gets them any more.
    void tell(events::EventSink* page);

  private:
    std::mutex mutex_;
    std::deque<events::Event> early_;
    events::EventSink* page_ = nullptr;
};

class LoopPage {
  public:
    static Result<std::unique_ptr<LoopPage>> open(train::LoopSession& session,
                                                  PageEvents& events,
                                                  const std::string& where,
                                                  const std::string& directory);
    ~LoopPage();
    LoopPage(const LoopPage&) = delete;
    LoopPage& operator=(const LoopPage&) = delete;

    std::string address() const { return page_->address(); }
    // Viewers are told that nothing more comes.
    void end(std::string reason) { page_->end(std::move(reason)); }

  private:
    LoopPage(train::LoopSession& session, PageEvents& events);
    void poll();
    void poll_until_closed();

    train::LoopSession& session_;
    PageEvents& events_;
    monitor::RunModel model_;
    monitor::EventMailbox mailbox_;
    std::unique_ptr<web::RunPage> page_;
    std::unique_ptr<monitor::EventFan> fan_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool closing_ = false;
    std::thread thread_;
};

}  // namespace dedloc::c_api
