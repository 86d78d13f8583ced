// Where a machine hears that it will be taken away: the metadata service of its cloud, an address,
// or a file. Written by the user; nothing is asked without a word of theirs.
//
//   aws            GET latest/meta-data/spot/instance-action, with a token of IMDSv2; two minutes
//   gcp            GET computeMetadata/v1/instance/preempted; 30 seconds
//   azure          GET metadata/scheduledevents: Preempt or Terminate of this machine; 30 seconds
//   http://…       any answer of status 200 is a notice; 204 and 404 are none
//   file=PATH      the file is there: for clusters with a way of their own
//
// `aws=http://127.0.0.1:1338` asks another address for the same words.
//
// Sources: the clouds' manuals (EC2 "Spot Instance interruption notices", Compute Engine
// "Preemptible VM instances", Azure "Scheduled Events for Linux VMs").
// Errors: bad_input (the words mean nothing), HttpFetch's, peer_broke_protocol (an answer that is
// none of theirs). Thread: one at a time; poll() blocks as HttpFetch does.

#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dedloc/base/result.h"
#include "dedloc/fleet/http_fetch.h"

namespace dedloc::fleet {

struct NoticePlace {
    std::string kind{};     // aws, gcp, azure, http, file
    std::string address{};  // or the path of a file
};
Result<NoticePlace> parse_notice_place(std::string_view text);

using Fetch = std::function<Result<HttpAnswer>(const HttpRequest&)>;

class NoticeSource {
  public:
    virtual ~NoticeSource() = default;
    // The notice, for people; none: the machine stays.
    virtual Result<std::optional<std::string>> poll() = 0;
};
std::unique_ptr<NoticeSource> make_notice_source(const NoticePlace& place, Fetch fetch);

}  // namespace dedloc::fleet
