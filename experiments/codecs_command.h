// `dedloc-lab codecs`: error, size and speed of every codec, measured here and now.
//
//   rmse          root of the mean squared error of one encoding, relative to the vector's RMS
//   average of P  the same for the average of P peers: contributions encoded, and the average again
//   feedback      after 100 encodings of the same vector with error feedback, of their mean
//   GB/s          of fp32, one thread: 64 MiB (from memory) and one part of 1 MiB (in the cache),
//                 beside a plain copy in the same run
//
// Errors: exit code 9 if block-wise 8-bit is worse than 1.2 % of normal data at any group size, or
// was not measured (the field says it of other data, too); 2 for wrong arguments. Time: about 20 s.

#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dedloc::lab {

struct CodecsCommand {
    std::string data = "normal";  // normal, laplace, spread (scales from 1 to 128)
    std::uint64_t seed = 1;
    std::size_t mebibytes = 64;
    bool json = false;
};

struct CodecSpeed {  // GB of fp32 a second
    double copy = 0;
    double encode = 0;
    double decode = 0;
    double accumulate = 0;
};

struct CodecRow {
    std::string name;
    double bytes_per_element = 0;
    double once = 0;
    std::vector<double> averages;  // of 2, 8, 32; empty: not for averages
    std::optional<double> feedback;
    CodecSpeed memory;
    CodecSpeed part;
};

// The table has a row of block-wise 8-bit, and its averages are within 1.2 %, of every group size.
bool block8_within(std::span<const CodecRow> rows);

int run_codecs(const CodecsCommand& command);

}  // namespace dedloc::lab
