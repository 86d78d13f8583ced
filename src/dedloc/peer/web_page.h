// WebPage: the web page of a peer of this machine, or of an observer: `--web [PORT]`. Of a peer its
// address, with the token that stays the same over restarts, is in the file `web` of its folder.
//
// Errors: Failure with port, bad_input, disk. Thread: the owner's, which is never one of the
// server's.

#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dedloc/peer/exit_codes.h"
#include "dedloc/web/run_store.h"
#include "dedloc/web/server.h"

namespace dedloc::peer {

inline constexpr std::string_view web_file = "web";
inline constexpr std::size_t pictures_shown_max = 12;

struct WebPageOptions {
    std::string where;        // "8470", "0.0.0.0:8470"; "auto": the usual port, or a free one
    web::RunFacts facts{};    // `may` is filled in from the actions
    std::string directory{};  // of the peer; empty: an observer's
    web::Actions actions{};
};

class WebPage {
  public:
    static Outcome<std::unique_ptr<WebPage>> start(WebPageOptions options);
    ~WebPage();
    WebPage(const WebPage&) = delete;
    WebPage& operator=(const WebPage&) = delete;

    web::RunStore& store() { return *store_; }
    std::string address() const { return server_->address(); }
    // Fills in which pictures there are.
    void update(web::Look look);
    // Viewers are told that nothing more comes, and why.
    void end(std::string reason) { store_->end(std::move(reason)); }

  private:
    WebPage() = default;
    void read_history();

    std::string directory_;
    std::unique_ptr<web::RunStore> store_;
    std::unique_ptr<web::Server> server_;
    std::vector<std::uint64_t> pictures_;
    double pictures_at_ = 0;
    std::thread history_;  // reads the certificates of earlier processes
};

// The meaning of what `--web` was given.
Outcome<web::ServerOptions> web_options(const std::string& where);

}  // namespace dedloc::peer
