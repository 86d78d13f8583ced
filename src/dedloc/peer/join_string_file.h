// JoinStringFile: keeps the string with which others join in this peer's folder; a host shows it.
//
// Thread: the main thread.

#pragma once
#include <string>
#include <utility>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/monitor/screen.h"
#include "dedloc/peer/join_offer.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/peer_options.h"

namespace dedloc::peer {

class JoinStringFile {
  public:
    struct Place {
        std::string path;
        std::string way_back;  // the path for a string that names others
        bool hosts = false;
        std::string own_data{};  // JoinOffer::Surroundings
        bool has_experts = false;
        std::string directory{};
    };
    // All outlive this.
    JoinStringFile(collab::Node& node,
                   const collab::CollaborationService& service,
                   monitor::Screen& screen,
                   const PeerOptions& options,
                   Place place)
        : node_(node),
          service_(service),
          screen_(screen),
          options_(options),
          place_(std::move(place)) {}

    // Every few seconds the file is written; at a host the string is shown when it leads in. An
    // error, the first time: it cannot be written.
    Ok refresh();
    // Empty: there is none yet.
    const std::string& text() const { return text_; }

  private:
    void show();
    bool names_others() const;

    collab::Node& node_;
    const collab::CollaborationService& service_;
    monitor::Screen& screen_;
    const PeerOptions& options_;
    Place place_;
    JoinOffer offer_;
    std::string text_;
    double refreshed_ = -join_refresh_s;
};

}  // namespace dedloc::peer
