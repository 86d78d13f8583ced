// The crops of SwAV's samples: two resolutions, as bytes, made ahead on worker threads.
//
// Sample `number` of a peer is a pure function of (run's seed, peer, number) and the pictures.
// Thread: take() from one. Errors: those of SwavPictures.

#pragma once
#include <memory>

#include "dedloc/collab/samples.h"
#include "dedloc/images/read_ahead.h"
#include "dedloc/tasks/swav/swav_pictures.h"

namespace dedloc::tasks {

// Planes of one picture after the other: crops × channels × side × side.
struct SwavSample {
    Bytes large;
    Bytes small;
};

// Channel planes, the first or all three.
void append_planes(const images::Picture& picture, std::uint32_t channels, Bytes& out);

// Pure.
SwavSample crops_of(const images::Picture& picture,
                    const SwavKeys& keys,
                    std::uint32_t channels,
                    Random& random);

class SwavCrops {
  public:
    SwavCrops(std::shared_ptr<const SwavPictures> pictures,
              const SwavKeys& keys,
              std::uint32_t channels,
              std::uint64_t seed,
              const PeerId& peer,
              std::size_t threads);

    Result<SwavSample> take(std::uint64_t number);

  private:
    using Samples = images::ReadAhead<Result<SwavSample>>;
    std::unique_ptr<Samples> samples_;
};

}  // namespace dedloc::tasks
