// Intel's multi-buffer library, for the files that are built with it (DEDLOC_IPSEC_MB).

#pragma once
#define NO_COMPAT_IMB_API_053  // names that OpenSSL has, too
#include <intel-ipsec-mb.h>
#include <memory>

namespace dedloc::security {

struct FreeManager {
    void operator()(IMB_MGR* manager) const { free_mb_mgr(manager); }
};

// The library's functions for this processor, and the jobs of one thread.
using VectorManager = std::unique_ptr<IMB_MGR, FreeManager>;

// Null: the library does not know this processor.
//
// Where there is no AVX-512, the library chooses AVX2 also when the processor has instructions for
// SHA, which only its functions for SSE use: half as long (hash_bench.cpp), and no longer for AES.
inline VectorManager make_vector_manager(IMB_ARCH& architecture) {
    VectorManager made(alloc_mb_mgr(0));
    if (!made) return nullptr;
    init_mb_mgr_auto(made.get(), &architecture);
    if (architecture < IMB_ARCH_AVX512 && (made->features & IMB_FEATURE_SHANI) != 0) {
        init_mb_mgr_sse(made.get());
        architecture = IMB_ARCH_SSE;
    }
    return imb_get_errno(made.get()) == 0 ? std::move(made) : nullptr;
}

}  // namespace dedloc::security
