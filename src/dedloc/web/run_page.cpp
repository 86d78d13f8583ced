#include "dedloc/web/run_page.h"

#include "dedloc/base/file.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/web/steady_seconds.h"

namespace dedloc::web {
namespace {

constexpr double sheets_look_s = 5;
constexpr std::size_t page_file_bytes_max = 1024;

}  // namespace

Result<ServerOptions> server_options(const std::string& where) {
    ServerOptions options;
    if (where == "auto") return options;
    const auto address = parse_web_address(where);
    if (!address)
        return make_error(ErrorKind::bad_input,
                          "'{}' is no place for the web page: write a port (8470; 0: any that is "
                          "free), or ADDRESS:PORT (0.0.0.0:8470, for others' machines as well)",
                          where);
    options.where = *address;
    options.is_default = false;
    return options;
}

Result<std::unique_ptr<RunPage>> RunPage::open(RunPageOptions given) {
    DEDLOC_TRY(ServerOptions options, server_options(given.where));
    const std::string& directory = given.directory;
    if (!directory.empty())
        if (const auto before =
                base::read_file(directory + "/" + std::string(page_file_name), page_file_bytes_max))
            options.token = token_in(*before);
    options.sheets_folder = given.sheets_folder;
    options.in_notebooks = given.in_notebooks;
    for (const auto& [name, action] : given.actions) given.facts.may.push_back(name);
    std::unique_ptr<RunPage> page(new RunPage);
    page->sheets_folder_ = std::move(given.sheets_folder);
    page->store_ = std::make_unique<RunStore>(std::move(given.facts));
    DEDLOC_TRY(page->server_,
               Server::start(*page->store_, std::move(given.actions), std::move(options)));
    if (!directory.empty()) page->read_history(directory);
    return page;
}

RunPage::~RunPage() {
    if (store_) store_->end("the process has ended");
    server_.reset();
    if (history_.joinable()) history_.join();
}

// Reading the event logs may take a while, and nothing waits for it.
void RunPage::read_history(std::string directory) {
    history_ = std::thread([this, directory = std::move(directory)] {
        if (const auto history = monitor::read_history(directory)) store_->add_history(*history);
    });
}

void RunPage::update(RunSnapshot snapshot) {
    const double now = steady_seconds();
    if (!sheets_folder_.empty() && now - sheets_at_ >= sheets_look_s) {
        sheets_at_ = now;
        sheets_ = sheets_in(sheets_folder_);
    }
    snapshot.sheets = sheets_;
    store_->update(std::move(snapshot));
}

}  // namespace dedloc::web
