// CapSetting: the caps of a peer's line as the user has set them, at the start (--max-up) or later
// (`dedloc limit`, the web page).
//
// Thread: any.

#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"
#include "dedloc/peer/cap_schedule.h"
#include "dedloc/runtime/limited_network.h"

namespace dedloc::peer {

class CapSetting {
  public:
    using Caps = std::function<runtime::LineCaps(WallSeconds)>;

    // The texts are those of --max-up and --max-down; an empty one is no cap.
    static Result<std::shared_ptr<CapSetting>> make(std::string max_up, std::string max_down) {
        auto setting = std::make_shared<CapSetting>();
        DEDLOC_TRY_VOID(setting->set(max_up, max_down));
        return setting;
    }

    runtime::LineCaps at(WallSeconds now) const {
        const std::lock_guard lock(mutex_);
        return caps_ ? caps_(now) : runtime::LineCaps{};
    }
    // The texts are written alike; the cap of an empty one stays. Errors: bad_input; then both
    // stay.
    Ok set(const std::string& max_up, const std::string& max_down) {
        const std::lock_guard lock(mutex_);
        const std::string up = max_up.empty() ? up_ : max_up;
        const std::string down = max_down.empty() ? down_ : max_down;
        DEDLOC_TRY(Caps caps, caps_of_day(up, down));
        caps_ = std::move(caps);
        up_ = up;
        down_ = down;
        return {};
    }

  private:
    mutable std::mutex mutex_;
    std::string up_;
    std::string down_;
    Caps caps_;
};

}  // namespace dedloc::peer
