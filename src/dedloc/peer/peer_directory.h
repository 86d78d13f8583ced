// A peer's own folder on this machine: identity, run file, join string, event log, certificates,
// votes, checkpoints. One process at a time has it (the identity's lock).
//
//   $XDG_STATE_HOME/dedloc/<run>/<n>, else ~/.local/state/dedloc/<run>/<n>
//   <run>: first 8 hex digits of the run's hash; <n>: the lowest number whose identity is free, so
//   that a restarted peer is itself again and a second one on the same machine is somebody else.
//
//   identity.key identity.lock   who the peer is (security/identity_file.h)
//   run.toml                     the run file
//   join.txt                     a current join string; holds the run secret, so 0600
//   place                        where this folder is (copied_folder.h)
//   way-back.txt                 the last one that named other peers; it stays when this peer ends
//   events[.1].jsonl             docs/events.md
//   certificates[.N].log         every certificate the peer applied (the ledger writes it)
//   checkpoints/                 state/checkpoint.h
//   files/<hash>                 what they are worth nothing without (run_files.h)
//   published                    which copies of them --publish made (checkpoint_hook.h)
//
// Errors: local_fault, bad_input. Blocks for a few file operations.

#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"
#include "dedloc/security/identity_file.h"
#include "dedloc/train/find_checkpoint.h"
#include "dedloc/train/run_copy.h"

namespace dedloc::peer {

inline constexpr int peers_per_machine_max = 64;  // numbered folders of one run

inline constexpr std::string_view join_file = "join.txt";
inline constexpr std::string_view way_back_file = "way-back.txt";
inline constexpr double join_refresh_s = 5;  // how often a peer writes it
inline constexpr std::string_view events_file = "events.jsonl";
using security::identity_file;
using train::checkpoints_folder;
using train::run_copy_file;

// Errors: local_fault when neither XDG_STATE_HOME nor HOME is set.
Result<std::string> state_root();  // ".../dedloc"

std::string numbered_directory(const std::string& root, const Digest& run, int number);

struct RunningPeer {
    std::string path;
    std::string run_name;  // as its run.toml says, or the folder's name
    std::string join_string;
    double join_age_s = 0;  // since it was refreshed
};
// Peers on this machine whose identity is in use right now, most recently refreshed first.
std::vector<RunningPeer> running_peers(const std::string& root);
// Finds the peer of one folder; not_found when nobody runs there.
Result<RunningPeer> running_peer(const std::string& path);

// The newest join string in a peer's folder, whether that peer is at work or not.
Result<std::string> way_back_of(const std::string& path);

// The folder of another peer of the same run file that is at work on this machine, beside the given
// numbered folder; empty: there is none.
std::string peer_at_work_beside(const std::string& directory);

// As base::read_file; but a file that is not there is bad input, too: the user has named it.
Result<std::string> read_text_file(const std::string& path, std::size_t bytes_max);
// Whole or not at all; readable by the owner only.
Ok write_private_file(const std::string& path, std::string_view text);

}  // namespace dedloc::peer
