#include "ops/cuda/launch/library_attention_launch.h"

#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/launch/attention_library.h"
#include "ops/cuda/launch/launch_args.h"

namespace viaduct::cuda {
namespace {

constexpr int64_t kBytes = 2;  // of an element of heads

char* aligned(void* workspace) {
  const auto begin = reinterpret_cast<uintptr_t>(workspace);
  constexpr uintptr_t kAlignment = kLibraryAlignment;
  return static_cast<char*>(workspace) + (kAlignment - begin % kAlignment) % kAlignment;
}

void check_addresses(std::string_view op, std::initializer_list<const Tensor*> heads) {
  for (const Tensor* tensor : heads)
    VIADUCT_CHECK(DeviceError, is_wide(tensor->raw()),
                  "{}: cuDNN reads heads at multiples of 16 bytes, found {}: set "
                  "model.attention_backend to flash",
                  op, tensor->raw());
}

/// Where a call's part of [tokens, heads, width] begins.
char* part(const void* data, int64_t first_token, int64_t first_head,
           const LibraryAttention::Strides& strides) {
  const int64_t element = first_token * strides.token + first_head * strides.head;
  return static_cast<char*>(const_cast<void*>(data)) + element * kBytes;
}

AttentionMemory memory_of(const LibraryCalls& calls, int64_t document_call, int64_t head_call,
                          const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                          const Tensor& lse) {
  const LibraryAttention& kind = calls.kind;
  const int64_t query = document_call * kind.documents * kind.queries;
  const int64_t key = document_call * kind.documents * kind.keys;
  const int64_t head = head_call * kind.heads, kv_head = head_call * kind.kv_heads;
  AttentionMemory memory;
  memory.q = part(q.raw(), query, head, kind.q);
  memory.k = part(k.raw(), key, kv_head, kind.k);
  memory.v = part(v.raw(), key, kv_head, kind.v);
  memory.out = part(out.raw(), query, head, kind.out);
  memory.lse = lse.data<float>() + head * kind.all_queries + query;
  return memory;
}

/// to += the gradient in 16 bits.
void add_gradient(const void* from, DType format, const Tensor& to, Stream stream) {
  constexpr std::string_view op = "attention_backward";
  const Rows rows{const_cast<void*>(from), format_of(op, format)};
  elementwise({Elementwise::accumulate, rows, {}, one_row(op, to), 1, to.elements()}, stream);
}

}  // namespace

bool is_library(const Choice& choice) {
  return choice.kernel == kLibraryKernel;
}

void launch_library_forward(OpContext& context, const LibraryCalls& calls,
                            const AttentionForwardArgs& args, void* workspace) {
  check_addresses("attention_forward", {&args.q, &args.k, &args.v, &args.out});
  AttentionMemory memory = memory_of(calls, 0, 0, args.q, args.k, args.v, args.out, args.lse);
  memory.scale = static_cast<float>(args.problem.scale);
  memory.workspace = aligned(workspace);
  attention_library(context).run(calls.kind, memory, stream_of(context));
}

void launch_library_backward(OpContext& context, const LibraryCalls& calls,
                             const AttentionBackwardArgs& args, void* workspace) {
  check_addresses("attention_backward", {&args.q, &args.k, &args.v, &args.out, &args.d_out});
  const LibraryAttention& kind = calls.kind;
  const Stream stream = stream_of(context);
  char* const begin = aligned(workspace);
  char* const dq = begin + calls.dq_at;
  char* const dk = begin + calls.dk_at;
  char* const dv = begin + calls.dv_at;
  for (int64_t d = 0; d < calls.document_calls; ++d) {
    for (int64_t h = 0; h < calls.head_calls; ++h) {
      AttentionMemory memory = memory_of(calls, d, h, args.q, args.k, args.v, args.out, args.lse);
      memory.scale = static_cast<float>(args.problem.scale);
      memory.workspace = begin + calls.library_at;
      const int64_t query = d * kind.documents * kind.queries;
      const int64_t key = d * kind.documents * kind.keys;
      memory.d_out = part(args.d_out.raw(), query, h * kind.heads, kind.d_out);
      memory.delta = begin + calls.delta_at;
      // Gradients are contiguous, as those of the op.
      const auto place = [&](char* data, int64_t token, int64_t head, int64_t heads,
                             int64_t width) {
        return part(data, token, head, {heads * width, width});
      };
      memory.dq = place(dq, query, h * kind.heads, kind.all_heads, kind.width);
      memory.dk = place(dk, key, h * kind.kv_heads, kind.all_kv_heads, kind.width);
      memory.dv = place(dv, key, h * kind.kv_heads, kind.all_kv_heads, kind.value_width);
      attention_library(context).run(kind, memory, stream);
    }
  }
  add_gradient(dq, kind.format, args.dq, stream);
  add_gradient(dk, kind.format, args.dk, stream);
  add_gradient(dv, kind.format, args.dv, stream);
}

}  // namespace viaduct::cuda
