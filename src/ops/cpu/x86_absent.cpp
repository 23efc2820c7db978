// On other processors: the kernels of the instruction sets of x86, which are not compiled there. A
// dry run may choose them (`cpu_ops(isa, for_simulation)`); `cpu_ops` refuses to run them.

#if !defined(__x86_64__)

#include "base/error.h"
#include "ops/cpu/attention/attention_tile_blocks.h"
#include "ops/cpu/attention/score_matrix_kernels.h"
#include "ops/cpu/gemm/few_rows.h"
#include "ops/cpu/gemm/gemm_kernels.h"
#include "ops/cpu/gemm/nvfp4_kernels.h"
#include "ops/cpu/gemm/quantize_kernels.h"
#include "ops/cpu/optimizer/adafactor_kernels.h"
#include "ops/cpu/optimizer/optimizer_kernels.h"
#include "ops/cpu/optimizer/state_kernels.h"
#include "ops/cpu/rows/activation_kernels.h"
#include "ops/cpu/rows/column_sum_kernels.h"
#include "ops/cpu/rows/cross_entropy_kernels.h"
#include "ops/cpu/rows/elementwise_kernels.h"
#include "ops/cpu/rows/embedding_kernels.h"
#include "ops/cpu/rows/expert_rows_kernels.h"
#include "ops/cpu/rows/nf4_kernels.h"
#include "ops/cpu/rows/norm_kernels.h"
#include "ops/cpu/rows/rotary_kernels.h"
#include "ops/cpu/rows/softmax_kernels.h"
#include "ops/cpu/tiles/tiles.h"

namespace viaduct::cpu {
namespace {

[[noreturn]] void absent() {
  fail<DeviceError>("cpu: these kernels are for x86 processors only");
}

}  // namespace

// The tables of functions are empty.
#define VIADUCT_ABSENT_TABLES                          \
  const AttentionKernels attention_kernels{};          \
  const ScoreKernels score_kernels{};                  \
  const OptimizerKernels optimizer_kernels{};          \
  const AdafactorKernels adafactor_kernels{};          \
  const StateKernels state_kernels{};                  \
  const RotaryKernels rotary_kernels{};                \
  const Nf4Kernels nf4_kernels{};                      \
  const NormKernels norm_kernels{};                    \
  const ColumnSumKernels column_sum_kernels{};         \
  const ActivationKernels activation_kernels{};        \
  const GemmKernels& gemm_kernels() {                  \
    absent();                                          \
  }                                                    \
  const QuantizeKernels& quantize_kernels() {          \
    absent();                                          \
  }                                                    \
  const Nvfp4Kernels& nvfp4_kernels() {                \
    absent();                                          \
  }                                                    \
  const FewRowsKernelsOf<float>& few_rows_kernels() {  \
    absent();                                          \
  }                                                    \
  const ExpertRowsKernels& expert_rows_kernels() {     \
    absent();                                          \
  }                                                    \
  const EmbeddingKernels& embedding_kernels() {        \
    absent();                                          \
  }                                                    \
  const CrossEntropyKernels& cross_entropy_kernels() { \
    absent();                                          \
  }                                                    \
  const ElementwiseKernels& elementwise_kernels() {    \
    absent();                                          \
  }                                                    \
  const SoftmaxKernels& softmax_kernels() {            \
    absent();                                          \
  }                                                    \
  const TileKernelsOf<float>& float_tile_kernels() {   \
    absent();                                          \
  }

namespace avx2 {
VIADUCT_ABSENT_TABLES
}
namespace avx512 {
VIADUCT_ABSENT_TABLES
}
namespace avx512_bf16 {
const OptimizerKernels optimizer_kernels{};
const RotaryKernels rotary_kernels{};
const NormKernels norm_kernels{};
const ActivationKernels activation_kernels{};
const GemmKernels& gemm_kernels() {
  absent();
}
const FewRowsKernelsOf<bfloat16>& few_rows_kernels() {
  absent();
}
const CrossEntropyKernels& cross_entropy_kernels() {
  absent();
}
const ElementwiseKernels& elementwise_kernels() {
  absent();
}
const TileKernels& tile_kernels() {
  absent();
}
void attention_forward_block(const TileKernels&, const TileForward&, int64_t, char*) {
  absent();
}
void attention_one_query(const TileKernels&, const AttentionHead&, char*) {
  absent();
}
void attention_backward_block(const TileKernels&, const TileBackward&, int64_t, int64_t, int64_t,
                              char*) {
  absent();
}
}  // namespace avx512_bf16
namespace amx {
const TileKernels& tile_kernels() {
  absent();
}
}  // namespace amx

}  // namespace viaduct::cpu

#endif
