// `dedloc-lab swav-mini`: SwAV's miniature learns from Fashion-MNIST without labels, in a
// collaboration of which one peer is killed and one joins; then one process plays the
// contributions.
//
// Four peers of this process, each with its own identity, folder, sockets and trainer thread. At
// step 150 the third is killed, at step 250 a fifth joins. After the last step everybody's state is
// compared; then the certificates are replayed (replay.h) and every state's hash compared again.
//
//   knn_0, knn_100, knn_600  share of 5,000 test pictures whose class 20 nearest neighbours among
//                            5,000 others tell; nobody trained on any of the 10,000
//   linear_600               the same by a linear layer on the features
//   loss_first, loss         training's, at the first step and over the last ten
//   state_hashes             different states after the last step that all living peers applied
//   replay_identical         no state and no averaged part of the replay differs
//
// Cost: some 77,000 pictures computed twice. Holds when knn_100 >= 0.70, knn_600 >= 0.73 and 0.02
// above knn_0 (the untrained network has some 0.71 already), loss <= 2.8, state_hashes = 1 and the
// replay is identical. Needs libtorch and dataset-fashion-mnist. Errors: exit code 9 when it does
// not hold; 5 without the data; 6 for the disk.

#pragma once
#include <cstdint>

namespace dedloc::lab {

struct SwavMiniCommand {
    std::uint64_t steps = 600;
    bool replay = true;
    double seconds_max = 1800;
    bool json = false;
};

int run_swav_mini(const SwavMiniCommand& command);

}  // namespace dedloc::lab
