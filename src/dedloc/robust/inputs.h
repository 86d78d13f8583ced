// Inputs that the members of a round bring to one part, as robust rules see them: one mean vector
// and one weight a member. The numbers are finite; a member that brings others was refused before.
//
// Thread: any; read() may run on several threads at once.

#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace dedloc::robust {

// Elements that are read at once: a multiple of every codec's block and of 16.
inline constexpr std::size_t piece_elements = 4096;

class Inputs {
  public:
    virtual ~Inputs() = default;
    virtual std::size_t members() const = 0;
    virtual std::size_t elements() const = 0;
    // Elements [first, first + out.size()) of this member's mean; `first` is a multiple of
    // piece_elements, and out.size() at most that many.
    virtual void read(std::size_t member, std::size_t first, std::span<float> out) const = 0;
};

// Vectors that lie in memory.
class VectorInputs final : public Inputs {
  public:
    explicit VectorInputs(std::vector<std::span<const float>> vectors);
    std::size_t members() const override { return vectors_.size(); }
    std::size_t elements() const override { return elements_; }
    void read(std::size_t member, std::size_t first, std::span<float> out) const override;

  private:
    std::vector<std::span<const float>> vectors_;
    std::size_t elements_ = 0;
};

}  // namespace dedloc::robust
