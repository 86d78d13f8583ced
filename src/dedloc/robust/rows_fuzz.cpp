// Rows as they come from the network: the first byte says how many there should be. What decodes
// encodes to the same bytes, and no numbers make the checks fail but by an error.

#include <cstdlib>
#include <vector>

#include "dedloc/robust/recheck.h"
#include "dedloc/robust/rows.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc::robust;
    if (size == 0) return 0;
    const dedloc::ByteView bytes(data + 1, size - 1);
    const auto rows = decode_rows(bytes, data[0]);
    if (!rows) return 0;
    if (!dedloc::base::equal(encode_rows(*rows), bytes)) std::abort();
    std::vector<WeightedRow> weighted;
    for (const Row& row : *rows) weighted.push_back({8, &row});
    (void)check_sums(weighted, std::vector<PartAllowance>{{8.0 * data[0], 1, 1e-3}}, 1e-6);
    const std::vector<Row> nothing(rows->size());
    if (!rows->empty() && agree(nothing, *rows, 2e-3) &&
        distance_between(nothing, *rows).length > 0)
        std::abort();
    return 0;
}
