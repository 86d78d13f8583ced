// OwnLink: what this peer says of its link: measured by rounds and probes, at most what the user
// grants.
//
// Thread: the network thread.

#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "dedloc/allreduce/exchange.h"
#include "dedloc/averaging/environment.h"
#include "dedloc/averaging/open_round.h"
#include "dedloc/links/bandwidth_probe.h"

namespace dedloc::averaging {

// The user grants this much, bytes per second; 0: everything.
struct LinkCaps {
    double upload_max = 0;
    double download_max = 0;

    // True: more than before.
    bool set(double upload, double download) {
        const auto grew = [](double before, double now) {
            return before > 0 && (now <= 0 || now > before);
        };
        const bool more = grew(upload_max, upload) || grew(download_max, download);
        upload_max = upload;
        download_max = download;
        return more;
    }
};

class OwnLink {
  public:
    // `idle`: is this peer in no round?
    OwnLink(const RoundEnvironment& environment, std::function<bool()> idle);

    Task<void> run() { return probe_.run(); }
    // Somebody else's probe.
    Task<void> serve(std::unique_ptr<p2p::MessageStream> stream);

    // Bytes per second, 0 before the first measurement.
    double upload_bytes_per_s() const;
    double download_bytes_per_s() const;
    // An announcement says this: of a link in doubt only the user's word is sure.
    double announced_upload() const { return in_doubt_ ? caps_.upload_max : upload_bytes_per_s(); }
    double announced_download() const {
        return in_doubt_ ? caps_.download_max : download_bytes_per_s();
    }
    void set_caps(double upload_max, double download_max);
    // Plans leave us out for our link from now on (true), or we try again. What rounds showed of it
    // grows old meanwhile: it is probed, and if nobody had time for that, it counts as not measured
    // until a round shows it anew.
    void set_left_out(bool left_out);
    bool settled() const { return probe_.settled(); }
    // The newest exchange has given all it will.
    void learn_from(const std::shared_ptr<allreduce::Exchange>& newest, const OpenRound& open);

  private:
    const RoundEnvironment& environment_;
    LinkCaps caps_;
    links::BandwidthProbe probe_;
    int probes_before_ = 0;  // when we were left out
    bool in_doubt_ = false;
    std::optional<Digest> learnt_;  // from which plan
};

}  // namespace dedloc::averaging
