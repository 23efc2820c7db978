#pragma once
// Products of linear layers with few rows (few_rows.h): a generation's tokens. The weight is read
// in place, once, and its columns are cut into tasks; the bits are those of `gemm_on_tiles`.

#include "base/thread_pool.h"
#include "ops/cpu/gemm/few_rows.h"
#include "ops/cpu/gemm/gemm_epilogue.h"

namespace viaduct::cpu {

/// Whether rows are few, and b has a layout that the kernels read: rows along the contracted dim,
/// or BF16 tiles.
bool has_few_rows(const GemmArgs& args);

/// Bytes of workspace that `gemm_of_few_rows` needs.
template <class Element>
int64_t few_rows_workspace_bytes(const GemmArgs& args);

/// `visit`: steps of a visit (tile_visit), which determine the order of summation. Sums are
/// multiplied by `factor` before all else.
template <class Element>
void gemm_of_few_rows(ThreadPool& pool, const GemmArgs& args, int64_t visit,
                      const FewRowsKernelsOf<Element>& rows, const FinishKernels& kernels,
                      void* workspace, float factor);

}  // namespace viaduct::cpu
