#include "dedloc/peer/web_page.h"

#include "dedloc/peer/peer_directory.h"
#include "dedloc/web/sheets.h"

namespace dedloc::peer {

Outcome<std::unique_ptr<web::RunPage>> open_web_page(web::RunPageOptions options) {
    const std::string directory = options.directory;
    if (!directory.empty()) options.sheets_folder = web::sheets_folder_of(directory);
    auto page = web::RunPage::open(std::move(options));
    if (!page && page.error().kind() == ErrorKind::bad_input) return failure(page.error());
    if (!page) return failure(ExitCode::port, page.error());
    if (directory.empty()) return *std::move(page);
    const std::string file = directory + "/" + std::string(web::page_file_name);
    const Ok written = write_private_file(file, (*page)->address() + "\n");
    if (!written) return failure(ExitCode::disk, written.error());
    return *std::move(page);
}

}  // namespace dedloc::peer
