// RunPage: the web page of a peer of this machine, or of an observer: a RunStore and its Server.
// The caller writes a peer's address, with the token that stays the same over restarts, into the
// file `web` of its folder.
//
// Errors: bad_input (`where`), local_fault (the port). Thread: the owner's, which is never one of
// the server's.

#pragma once
#include <memory>
#include <string>
#include <thread>

#include "dedloc/web/run_store.h"
#include "dedloc/web/server.h"

namespace dedloc::web {

inline constexpr std::string_view page_file_name = "web";

struct RunPageOptions {
    std::string where;            // "8470", "0.0.0.0:8470"; "auto": the usual port, or a free one
    RunFacts facts{};             // `may` is filled in from the actions
    std::string directory{};      // of the peer; empty: an observer's
    std::string sheets_folder{};  // of what prompts become (sheets.h); empty: none
    Actions actions{};
    bool in_notebooks = false;  // notebooks of this machine may show it in a frame
};

class RunPage {
  public:
    static Result<std::unique_ptr<RunPage>> open(RunPageOptions options);
    ~RunPage();
    RunPage(const RunPage&) = delete;
    RunPage& operator=(const RunPage&) = delete;

    RunStore& store() { return *store_; }
    std::string address() const { return server_->address(); }
    // Fills in which sheets there are.
    void update(RunSnapshot snapshot);
    // Viewers are told that nothing more comes, and why.
    void end(std::string reason) { store_->end(std::move(reason)); }

  private:
    RunPage() = default;
    void read_history(std::string directory);

    std::string sheets_folder_;
    std::unique_ptr<RunStore> store_;
    std::unique_ptr<Server> server_;
    Sheets sheets_;
    double sheets_at_ = 0;
    std::thread history_;  // reads the certificates of earlier processes
};

// The meaning of what `--web` was given.
Result<ServerOptions> server_options(const std::string& where);

}  // namespace dedloc::web
