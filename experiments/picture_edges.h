// Edge energy: how sharp pictures are.
//
// The energy is the mean square of the Laplacian: four times a pixel less the four beside it, in
// 0 … 1 a colour, of pixels that have all four. A soft edge has little of it, also where the
// difference of neighbours, which a silhouette keeps up, is large. Noise has much: the energy says
// something only beside a measure of what is drawn.
//
// Source: "energy of Laplacian", Subbarao, Choi and Nikzad, Focusing techniques (1993).
// Thread: any; pure.

#pragma once
#include <span>

#include "dedloc/images/picture.h"

namespace dedloc::lab {

// 0 without a pixel that has four beside it.
double edge_energy(std::span<const images::Picture> pictures);

}  // namespace dedloc::lab
