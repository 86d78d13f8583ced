#include "dedloc/peer/visiting_node.h"

#include <filesystem>
#include <stdlib.h>

#include "dedloc/run/join_string.h"
#include "dedloc/train/host_access.h"

namespace dedloc::peer {

Outcome<std::unique_ptr<VisitingNode>> VisitingNode::open(const std::string& join_text,
                                                          const std::string& directory) {
    const auto join = run::parse_join_string(join_text);
    if (!join) return failure(join.error());
    std::unique_ptr<VisitingNode> visiting(new VisitingNode);
    visiting->join_text_ = join_text;
    OpeningOptions options{.directory = directory, .listen = {"none"}, .workers_count = 1};
    if (join->authority.is_empty()) {
        std::error_code error;
        std::string pattern =
            (std::filesystem::temp_directory_path(error) / "dedloc-visit-XXXXXX").string();
        if (!::mkdtemp(pattern.data()))
            return Failure{ExitCode::disk, "cannot make a temporary folder " + pattern};
        options.directory = visiting->temporary_ = pattern;
    }
    auto opened = open_node(join->run, options);
    if (!opened) return opened.failure();
    visiting->opened_ = std::move(*opened);
    return visiting;
}

VisitingNode::~VisitingNode() {
    opened_.node.reset();
    std::error_code ignored;
    if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
}

Result<collab::Invitation> VisitingNode::reach(Duration timeout) const {
    DEDLOC_TRY(train::ReachedRun reached, train::reach_run(*opened_.node, join_text_, timeout));
    return std::move(reached.invitation);
}

}  // namespace dedloc::peer
