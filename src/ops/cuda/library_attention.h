#pragma once
// Which attention cuDNN computes, and how: decided from shapes alone, so that dry runs and launches
// agree. No CUDA header.
//
// cuDNN takes B documents of one length as a batch. Its deterministic backward keeps a matrix of
// 16-bit score gradients [queries, keys] for each head of each document, so a large backward is cut
// into calls of some documents or some key-value heads, with the same plan for each.

#include <cstdint>
#include <string_view>

#include "ops/attention.h"

namespace viaduct::cuda {

/// A kind of call: what cuDNN's plan depends on. Strides are in elements.
struct LibraryAttention {
  DType format = DType::bf16;
  bool backward = false, causal = false;
  int64_t documents = 0, heads = 0, kv_heads = 0;  // of a call
  int64_t queries = 0, keys = 0;                   // of a document
  int64_t width = 0, value_width = 0;
  struct Strides {
    int64_t token = 0, head = 0;
    auto operator<=>(const Strides&) const = default;
  };
  Strides q, k, v, out, d_out;  // d_out: of the backward
  // Of the op: queries (from one head to the next in lse) and heads.
  int64_t all_queries = 0, all_heads = 0, all_kv_heads = 0;
  auto operator<=>(const LibraryAttention&) const = default;
};

/// How one op runs.
struct LibraryCalls {
  LibraryAttention kind;
  int64_t document_calls = 1, head_calls = 1;  // the op's documents and key-value heads in parts
  // Offsets in the op's workspace, whose start is aligned to kLibraryAlignment first.
  int64_t delta_at = 0, dq_at = 0, dk_at = 0, dv_at = 0, library_at = 0;
  int64_t library_bytes = 0;    // what a call of cuDNN may use
  int64_t workspace_bytes = 0;  // of the op
  int64_t calls() const { return document_calls * head_calls; }
};

/// The kernel of choices that cuDNN computes; their plan is LibraryCalls.
inline constexpr std::string_view kLibraryKernel = "cudnn";
inline constexpr int64_t kLibraryAlignment = 256;
/// Kernels of a call of the backward: row sums, the products of queries and keys, that of dq.
inline constexpr int kLibraryBackwardKernels = 3;

/// Widest head with plans for every target, and what widths are multiples of: cuDNN reads runs of
/// 16 bytes.
inline constexpr int64_t kMostLibraryWidth = 128, kLibraryRun = 8;
/// The most that a call of cuDNN may use. Beyond it our own kernels, which hold no matrix, are
/// used.
inline constexpr int64_t kMostLibraryWorkspace = int64_t{4} << 30;

/// Bytes that cuDNN requests for a call at most: what its plans for compute capability 9.0 request,
/// those for 8.0 and 10.0 less (cuDNN 9.19).
int64_t library_workspace(const LibraryAttention& kind);

/// Whether cuDNN computes the op; if so, `calls` is set.
bool library_takes(const AttentionForwardArgs& args, LibraryCalls& calls);
bool library_takes(const AttentionBackwardArgs& args, LibraryCalls& calls);

}  // namespace viaduct::cuda
