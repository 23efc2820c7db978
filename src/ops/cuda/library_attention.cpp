#include "ops/cuda/library_attention.h"

#include "ops/cuda/regions.h"

namespace viaduct::cuda {
namespace {

/// A backward is cut until its calls use no more, as far as it can be cut: rows of 8,192 tokens
/// with groups of 4 heads, whose 256 blocks of 128 rows still keep a GPU busy.
constexpr int64_t kWantedWorkspace = (int64_t{1} << 29) + (int64_t{64} << 20);
/// Beyond the matrices: counters of the library, 256 bytes in 9.19.
constexpr int64_t kSmallParts = 4096;

bool has_plans_for(const Tensor& heads) {
  const int64_t width = heads.dim(2);
  return width > 0 && width <= kMostLibraryWidth && width % kLibraryRun == 0 &&
         heads.stride(0) % kLibraryRun == 0 && heads.stride(1) % kLibraryRun == 0;
}

LibraryAttention::Strides strides_of(const Tensor& heads) {
  return {heads.stride(0), heads.stride(1)};
}

/// Whether all documents have the longest lengths, which are upper bounds.
bool has_equal_documents(const AttentionProblem& problem, const Tensor& q, const Tensor& k) {
  const int64_t documents = problem.q_offsets.dim(0) - 1;
  return q.dim(0) > 0 && k.dim(0) > 0 && documents * problem.max_queries == q.dim(0) &&
         documents * problem.max_keys == k.dim(0);
}

bool takes_problem(const AttentionProblem& problem, const Tensor& q, const Tensor& k,
                   const Tensor& v) {
  const bool narrow = q.dtype() == DType::bf16 || q.dtype() == DType::f16;
  // Dropout's random numbers are the library's own.
  const bool plain =
      !problem.diagonal && problem.window == 0 && problem.softcap == 0 && problem.dropout == 0;
  return problem.library && narrow && plain && has_equal_documents(problem, q, k) &&
         has_plans_for(q) && has_plans_for(k) && has_plans_for(v);
}

LibraryAttention whole_call(const AttentionProblem& problem, const Tensor& q, const Tensor& k,
                            const Tensor& v) {
  LibraryAttention kind;
  kind.format = q.dtype();
  kind.causal = problem.causal;
  kind.documents = problem.q_offsets.dim(0) - 1;
  kind.heads = q.dim(1), kind.kv_heads = k.dim(1);
  kind.queries = problem.max_queries, kind.keys = problem.max_keys;
  kind.width = q.dim(2), kind.value_width = v.dim(2);
  kind.q = strides_of(q), kind.k = strides_of(k), kind.v = strides_of(v);
  kind.all_queries = q.dim(0), kind.all_heads = kind.heads, kind.all_kv_heads = kind.kv_heads;
  return kind;
}

int64_t next_divisor(int64_t of, int64_t below) {
  do --below;
  while (of % below != 0);
  return below;
}

/// Cuts the op until a call is small: documents first, then key-value heads. False if the smallest
/// does not fit.
bool cut(LibraryCalls& calls) {
  LibraryAttention& kind = calls.kind;
  const int64_t documents = kind.documents, kv_heads = kind.kv_heads;
  const int64_t group = kind.heads / kv_heads;
  while (library_workspace(kind) > kWantedWorkspace) {
    if (kind.documents > 1) {
      kind.documents = next_divisor(documents, kind.documents);
    } else if (kind.kv_heads > 1) {
      kind.kv_heads = next_divisor(kv_heads, kind.kv_heads);
      kind.heads = kind.kv_heads * group;
    } else {
      break;
    }
  }
  if (library_workspace(kind) > kMostLibraryWorkspace) return false;
  calls.document_calls = documents / kind.documents;
  calls.head_calls = kv_heads / kind.kv_heads;
  return true;
}

}  // namespace

int64_t library_workspace(const LibraryAttention& kind) {
  if (!kind.backward) return kSmallParts;
  constexpr int64_t kBytes = 2;  // of an element
  const int64_t matrix = rounded_up(kind.queries, 64) * rounded_up(kind.keys, 128);
  // dk and dv of each query head, before they are summed over those of a key-value head.
  const int64_t parts =
      kind.heads == kind.kv_heads ? 0 : kind.keys * (kind.width + kind.value_width);
  return kind.documents * kind.heads * (matrix + parts) * kBytes + kSmallParts;
}

bool library_takes(const AttentionForwardArgs& args, LibraryCalls& calls) {
  if (!takes_problem(args.problem, args.q, args.k, args.v) || !has_plans_for(args.out))
    return false;
  calls.kind = whole_call(args.problem, args.q, args.k, args.v);
  calls.kind.out = strides_of(args.out);
  calls.library_bytes = library_workspace(calls.kind);
  calls.workspace_bytes = kLibraryAlignment + calls.library_bytes;
  return true;
}

bool library_takes(const AttentionBackwardArgs& args, LibraryCalls& calls) {
  if (!takes_problem(args.problem, args.q, args.k, args.v) || !args.out ||
      !has_plans_for(args.out) || !has_plans_for(args.d_out))
    return false;
  calls.kind = whole_call(args.problem, args.q, args.k, args.v);
  calls.kind.backward = true;
  calls.kind.out = strides_of(args.out), calls.kind.d_out = strides_of(args.d_out);
  if (!cut(calls)) return false;
  int64_t end = 0;
  const auto place = [&](int64_t bytes) {
    const int64_t begin = end;
    end += rounded_up(bytes, kLibraryAlignment);
    return begin;
  };
  const auto in_16_bits = [](const Tensor& gradient) { return 2 * gradient.elements(); };
  calls.delta_at = place(args.delta.bytes());
  calls.dq_at = place(in_16_bits(args.dq));
  calls.dk_at = place(in_16_bits(args.dk));
  calls.dv_at = place(in_16_bits(args.dv));
  calls.library_bytes = library_workspace(calls.kind);
  calls.library_at = place(calls.library_bytes);
  calls.workspace_bytes = kLibraryAlignment + end;
  return true;
}

}  // namespace viaduct::cuda
