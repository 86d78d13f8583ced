#include "dedloc/base/random.h"

#include <bit>
#include <cmath>

#include "dedloc/base/check.h"

namespace dedloc::base {

std::uint64_t mix64(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

Random::Random(std::uint64_t seed) : state_{}, seed_(seed) {
    std::uint64_t word = seed;
    for (std::uint64_t& slot : state_) {
        slot = mix64(word);
        word += 0x9e3779b97f4a7c15u;
    }
}

Random Random::fork(std::string_view name) const {
    std::uint64_t seed = mix64(seed_ ^ 0x5851f42d4c957f2du);
    for (const char letter : name) seed = mix64(seed ^ static_cast<std::uint8_t>(letter));
    return Random(seed);
}

std::uint64_t Random::next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
}

std::uint64_t Random::below(std::uint64_t bound) {
    DEDLOC_CHECK(bound > 0);
    const std::uint64_t limit = ~std::uint64_t{0} - (~std::uint64_t{0} % bound + 1) % bound;
    std::uint64_t draw = next();
    while (draw > limit) draw = next();
    return draw % bound;
}

std::int64_t Random::between(std::int64_t low, std::int64_t high) {
    DEDLOC_CHECK(low <= high, "{} > {}", low, high);
    const auto width = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
    const std::uint64_t offset = width == 0 ? next() : below(width);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
double Random::uniform(double low, double high) { return low + (high - low) * uniform(); }
bool Random::chance(double probability) { return uniform() < probability; }
double Random::exponential(double mean) { return -mean * std::log1p(-uniform()); }

double Random::normal() {
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
}

Duration Random::duration(Duration low, Duration high) {
    return Duration(between(low.count(), high.count()));
}

Bytes Random::bytes(std::size_t count) {
    Bytes out(count);
    for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>(next());
    return out;
}

}  // namespace dedloc::base
