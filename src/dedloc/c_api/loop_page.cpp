#include "dedloc/c_api/loop_page.h"

#include <utility>

#include "dedloc/base/release.h"
#include "dedloc/monitor/screen.h"

namespace dedloc::c_api {
namespace {

using Json = nlohmann::ordered_json;

web::Actions actions_of(train::LoopSession& session) {
    const auto pauses = [&session](bool paused) {
        return [&session, paused](const Json&) -> Result<Json> {
            session.set_paused(paused);
            return Json{{"paused", paused}};
        };
    };
    return {{"pause", pauses(true)}, {"resume", pauses(false)}};
}

}  // namespace

void PageEvents::record(const events::Event& event) {
    const std::lock_guard lock(mutex_);
    if (page_ != nullptr) return page_->record(event);
    if (early_.size() >= early_events_max) early_.pop_front();
    early_.push_back(event);
}

void PageEvents::tell(events::EventSink* page) {
    const std::lock_guard lock(mutex_);
    page_ = page;
    if (page == nullptr) return;
    for (const events::Event& event : std::exchange(early_, {})) page->record(event);
}

LoopPage::LoopPage(train::LoopSession& session, PageEvents& events)
    : session_(session),
      events_(events),
      model_(session.run(), session.peer_id(), session.node().clock().wall_now()) {}

Result<std::unique_ptr<LoopPage>> LoopPage::open(train::LoopSession& session,
                                                 PageEvents& events,
                                                 const std::string& where,
                                                 const std::string& directory) {
    std::unique_ptr<LoopPage> page(new LoopPage(session, events));
    DEDLOC_TRY(page->page_,
               web::RunPage::open({.where = where,
                                   .facts = {.mode = web::Mode::peer,
                                             .version = std::string(base::release),
                                             .run = session.run(),
                                             .us = session.peer_id(),
                                             .started = session.node().clock().wall_now(),
                                             .vector_bytes = session.vector_bytes()},
                                   .directory = directory,
                                   .actions = actions_of(session),
                                   .in_notebooks = true}));
    DEDLOC_TRY_VOID(session.node().disk().write_atomically(std::string(web::page_file_name),
                                                           as_bytes(page->address() + "\n")));
    page->fan_ = std::make_unique<monitor::EventFan>(
        std::vector<events::EventSink*>{&page->page_->store(), &page->mailbox_});
    events.tell(page->fan_.get());
    page->poll();
    page->thread_ = std::thread([page = page.get()] { page->poll_until_closed(); });
    return page;
}

LoopPage::~LoopPage() {
    events_.tell(nullptr);
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void LoopPage::poll() {
    for (const events::Event& event : mailbox_.take()) model_.add(event);
    web::RunSnapshot snapshot;
    snapshot.statuses = session_.peers();
    snapshot.now = session_.node().clock().wall_now();
    model_.update(snapshot.statuses, snapshot.now);
    snapshot.view = model_.view();
    snapshot.paused = session_.paused();
    for (const auto& [peer, traffic] : session_.traffic_with(snapshot.statuses))
        snapshot.carried.push_back({peer, traffic.sent_bytes, traffic.received_bytes});
    page_->update(std::move(snapshot));
}

void LoopPage::poll_until_closed() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, monitor::frame_time, [this] { return closing_; })) {
        lock.unlock();
        poll();
        lock.lock();
    }
}

}  // namespace dedloc::c_api
