// For fuzz targets: takes all signatures for true, or none. Of the tests only.
#pragma once
#include "dedloc/security/signer.h"

namespace dedloc::security {

class ConstantVerifier final : public Verifier {
  public:
    explicit ConstantVerifier(bool answer) : answer_(answer) {}
    bool verify(const PeerId&, std::string_view, ByteView, ByteView) const override {
        return answer_;
    }

  private:
    bool answer_;
};

}  // namespace dedloc::security
