// TorchScript files of strangers: reading them never crashes, and nothing unpacks to another size
// than it says.

#include "dedloc/base/check.h"
#include "dedloc/tasks/torchscript/script_archive.h"
#include "dedloc/tasks/torchscript/script_data.h"
#include "dedloc/tasks/torchscript/script_pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc;
    const ByteView file(data, size);
    (void)tasks::check_script_pickle(file, "data.pkl");
    (void)tasks::parse_idx(to_bytes(file), "idx");
    (void)tasks::parse_npy(to_bytes(file), "npy");
    const auto archive = tasks::ScriptArchive::parse(file);
    if (!archive) return 0;
    for (const tasks::ScriptEntry& entry : archive->entries()) {
        if (!entry.is_source() && !entry.is_pickle()) continue;
        const auto bytes = tasks::ScriptArchive::unpack(entry);
        if (!bytes) continue;
        DEDLOC_CHECK(bytes->size() == entry.bytes, "{}", entry.name);
        if (entry.is_pickle()) (void)tasks::check_script_pickle(*bytes, entry.name);
    }
    return 0;
}
