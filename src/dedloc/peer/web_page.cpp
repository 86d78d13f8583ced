#include "dedloc/peer/web_page.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "dedloc/monitor/run_history.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/prompts.h"

namespace dedloc::peer {
namespace {

namespace fs = std::filesystem;

constexpr double pictures_look_s = 5;
constexpr std::size_t web_file_bytes_max = 1024;

// The newest of `step-N.png`, in order.
std::vector<std::uint64_t> pictures_in(const std::string& folder) {
    constexpr std::string_view begin = "step-";
    constexpr std::string_view end = ".png";
    std::vector<std::uint64_t> steps;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(begin) || !name.ends_with(end)) continue;
        std::uint64_t step = 0;
        const char* last = name.data() + name.size() - end.size();
        const auto [at, wrong] = std::from_chars(name.data() + begin.size(), last, step);
        if (wrong == std::errc() && at == last) steps.push_back(step);
    }
    std::ranges::sort(steps);
    if (steps.size() > pictures_shown_max)
        steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(pictures_shown_max));
    return steps;
}

}  // namespace

Outcome<web::ServerOptions> web_options(const std::string& where) {
    web::ServerOptions options;
    if (where == "auto") return options;
    const auto address = web::parse_web_address(where);
    if (!address)
        return Failure{ExitCode::bad_input,
                       "'" + where +
                           "' is no place for the web page: write a port (8470; 0: any that is "
                           "free), or ADDRESS:PORT (0.0.0.0:8470, for others' machines as well)"};
    options.where = *address;
    options.is_default = false;
    return options;
}

Outcome<std::unique_ptr<WebPage>> WebPage::start(WebPageOptions given) {
    auto options = web_options(given.where);
    if (!options) return options.failure();
    std::unique_ptr<WebPage> page(new WebPage);
    page->directory_ = given.directory;
    const std::string file = given.directory + "/" + std::string(web_file);
    if (!given.directory.empty()) {
        if (const auto before = read_text_file(file, web_file_bytes_max))
            options->token = web::token_in(*before);
        options->pictures_folder = given.directory + "/" + sheets_folder;
    }
    for (const auto& [name, action] : given.actions) given.facts.may.push_back(name);
    page->store_ = std::make_unique<web::RunStore>(std::move(given.facts));
    auto server = web::Server::start(*page->store_, std::move(given.actions), *options);
    if (!server) return failure(ExitCode::port, server.error());
    page->server_ = *std::move(server);
    if (!given.directory.empty()) {
        const Ok written = write_private_file(file, page->server_->address() + "\n");
        if (!written) return failure(ExitCode::disk, written.error());
        page->read_history();
    }
    return page;
}

WebPage::~WebPage() {
    if (store_) store_->end("the process has ended");
    server_.reset();
    if (history_.joinable()) history_.join();
}

// Reading the event logs may take a while, and nothing waits for it.
void WebPage::read_history() {
    history_ = std::thread([this] {
        if (const auto history = monitor::read_history(directory_)) store_->add_history(*history);
    });
}

void WebPage::update(web::Look look) {
    const double now = steady_seconds();
    if (!directory_.empty() && now - pictures_at_ >= pictures_look_s) {
        pictures_at_ = now;
        pictures_ = pictures_in(directory_ + "/" + sheets_folder);
    }
    look.pictures = pictures_;
    store_->update(std::move(look));
}

}  // namespace dedloc::peer
