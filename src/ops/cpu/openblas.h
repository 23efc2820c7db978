#pragma once
// The one door to OpenBLAS. Its own threads stay off (one thread a call): kernels call it from the
// rank's pool.

#include <cstdint>

namespace viaduct::cpu {

/// DeviceError unless the OpenBLAS that runs here may be called from several threads at once.
/// Debian's serial build may not: concurrent products gave wrong numbers. The first call also sets
/// OpenBLAS to one thread.
void require_concurrent_openblas();

/// What the check reads: whether the text of `openblas_get_config()` is that of a build that may be
/// called from several threads.
bool openblas_allows_concurrency(const char* config);

/// c [m, n] (row-major) = op(a) · op(b) + (add ? c : 0), op transposing where asked; leading
/// dimensions in elements.
void sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
           int64_t lda, const float* b, int64_t ldb, bool add, float* c, int64_t ldc);

}  // namespace viaduct::cpu
