#pragma once
// Attention as graphs of cuDNN. Only graphs that its attention kernels recognise have plans, so
// their steps are those of the library's documentation ("Fused Flash Attention fprop", "… bprop").

#include "ops/cuda/launch/cudnn_graph.h"
#include "ops/cuda/library_attention.h"

namespace viaduct::cuda {

/// The tensors and numbers that an execution binds.
enum CudnnAttentionId : int64_t {
  kCudnnQ = 1,
  kCudnnK,
  kCudnnV,
  kCudnnOut,
  kCudnnLse,
  kCudnnScale,   // factor on scores
  kCudnnMasked,  // score of a pair that does not see each other
  // Of the backward:
  kCudnnDOut,
  kCudnnDelta,  // f32 [documents, heads, queries], written
  kCudnnOne,    // 1, where dropout would have its factor
  kCudnnDq,  // in the format of q, [tokens, heads, width] contiguous for the op; so are dk and dv
  kCudnnDk,
  kCudnnDv,
};

CudnnGraph cudnn_attention(const CudnnCalls& calls, const LibraryAttention& kind);

/// A plan within the bound that `library_workspace` gives.
CudnnPlan cudnn_attention_plan(const CudnnCalls& calls, const LibraryAttention& kind,
                               const CudnnTarget& target);

}  // namespace viaduct::cuda
