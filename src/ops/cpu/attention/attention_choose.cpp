#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "ops/cpu/attention/attention_heads.h"
#include "ops/cpu/attention/attention_kernels.h"
#include "ops/cpu/attention/attention_launch.h"
#include "ops/cpu/attention/attention_one_query.h"
#include "ops/cpu/attention/attention_tiles.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

const AttentionKernels& kernels(const Choice& choice) {
  return choice.variant == kAvx2Kernel ? avx2::attention_kernels : avx512::attention_kernels;
}

Choice flash_choice(std::string_view op, CpuIsa isa, DType dtype) {
  Choice choice = vector_choice(op, isa, dtype);
  if (choice.variant == kAvx2Kernel) choice.kernel = "flash_avx2";
  if (choice.variant == kAvx512Kernel) choice.kernel = "flash_avx512";
  return choice;
}

/// Visible (query, key) pairs of one head, as given or estimated from the longest runs.
double visible_pairs(const AttentionProblem& problem, const Tensor& q, const Tensor& k) {
  if (problem.visible_pairs > 0) return problem.visible_pairs;
  const auto tokens = static_cast<double>(q.dim(0));
  const auto keys = static_cast<double>(problem.max_keys > 0 ? problem.max_keys : k.dim(0));
  const auto queries =
      static_cast<double>(problem.max_queries > 0 ? problem.max_queries : q.dim(0));
  // Query i of the last `queries` positions sees keys − queries + i + 1 keys, on average:
  double seen = problem.causal ? std::max(1.0, keys - (std::min(queries, keys) - 1) / 2) : keys;
  if (problem.window > 0) seen = std::min(seen, static_cast<double>(problem.window));
  return tokens * seen;
}

int64_t forward_slots(const AttentionForwardArgs& args) {
  const int64_t rows = args.q.dim(0) * args.q.dim(1);
  return std::min(kAttentionSlots,
                  rows / kAttentionRows + attention_documents(args.problem) * args.k.dim(1) + 1);
}

int64_t forward_floats(const AttentionForwardArgs& args) {
  return round_up_to(attention_forward_scratch(args.q.dim(2), args.v.dim(2)), 16);
}

template <CpuIsa isa>
Choice choose_forward(const AttentionForwardArgs& args, const Traits&) {
  Choice choice = flash_choice("attention_forward", isa, args.q.dtype());
  const double pairs =
      visible_pairs(args.problem, args.q, args.k) * static_cast<double>(args.q.dim(1));
  add_flops(choice, args.q.dtype(), 2 * pairs * static_cast<double>(args.q.dim(2) + args.v.dim(2)));
  choice.cost.bytes_read = bytes_of(args.q) + bytes_of(args.k) + bytes_of(args.v);
  choice.cost.bytes_written = bytes_of(args.out) + bytes_of(args.lse);
  if (choice.variant != kReferenceKernel) {
    choice.workspace_bytes = forward_slots(args) * forward_floats(args) * 4;
  }
  return choice;
}

void launch_forward(OpContext& context, const Choice& choice, const AttentionForwardArgs& args,
                    void* workspace) {
  const AttentionProblem& problem = args.problem;
  check_attention_offsets("attention_forward", "q_offsets", problem.q_offsets, args.q.dim(0));
  check_attention_offsets("attention_forward", "kv_offsets", problem.kv_offsets, args.k.dim(0));
  if (choice.variant == kReferenceKernel) return reference::attention_forward(args);
  if (asks_single_queries(args)) {
    return for_each_single_query(
        context.device.pool(), args, forward_slots(args), forward_floats(args), workspace,
        [&](int64_t document, int64_t kv_head, float* scratch) {
          kernels(choice).one_query(forward_head(args, document, kv_head), scratch);
        });
  }
  struct Block {
    int64_t document, row;
  };
  std::vector<Block> blocks;
  const auto* offsets = problem.q_offsets.data<int32_t>();
  const int64_t group = args.q.dim(1) / args.k.dim(1), kv_heads = args.k.dim(1);
  for (int64_t d = attention_documents(problem) - 1; d >= 0; --d) {
    // The last rows see the most keys: they are first, so that no thread starts one at the end.
    const int64_t rows = (offsets[d + 1] - offsets[d]) * group;
    for (int64_t row = round_up_to(rows, kAttentionRows) - kAttentionRows; row >= 0;
         row -= kAttentionRows) {
      blocks.push_back({d, row});
    }
  }
  run_on_attention_slots(
      context.device.pool(), static_cast<int64_t>(blocks.size()) * kv_heads, forward_slots(args),
      forward_floats(args), workspace, [&](int64_t task, float* scratch) {
        const Block& block = blocks[static_cast<size_t>(task / kv_heads)];
        const int64_t kv_head = task % kv_heads;
        kernels(choice).forward(forward_head(args, block.document, kv_head), block.row, scratch);
      });
}

/// How the backward is cut: the keys of a document go to `chunks` tasks per key-value head, each
/// with its own part of dq, so that few heads still use all threads. Depends on shapes alone.
struct BackwardCut {
  int64_t chunks, slots, floats, dq_floats;
  explicit BackwardCut(const AttentionBackwardArgs& args) {
    const int64_t heads = std::max<int64_t>(1, attention_documents(args.problem) * args.k.dim(1));
    chunks = std::clamp<int64_t>(16 / heads, 1, 4);
    if (args.problem.max_keys > 0) {
      chunks = std::min(chunks, (args.problem.max_keys + 255) / 256);
    }
    slots = std::min(kAttentionSlots, heads * chunks);
    floats = round_up_to(attention_backward_scratch(args.q.dim(2), args.v.dim(2)), 16);
    dq_floats = round_up_to(args.q.elements(), 16);
  }
};

template <CpuIsa isa>
Choice choose_backward(const AttentionBackwardArgs& args, const Traits&) {
  Choice choice = flash_choice("attention_backward", isa, args.q.dtype());
  const double pairs =
      visible_pairs(args.problem, args.q, args.k) * static_cast<double>(args.q.dim(1));
  add_flops(choice, args.q.dtype(),
            2 * pairs * static_cast<double>(3 * args.q.dim(2) + 2 * args.v.dim(2)));
  choice.cost.bytes_written = bytes_of(args.dq) + bytes_of(args.dk) + bytes_of(args.dv);
  choice.cost.bytes_read = bytes_of(args.q) + bytes_of(args.k) + bytes_of(args.v) +
                           bytes_of(args.d_out) + bytes_of(args.lse) + bytes_of(args.delta) +
                           choice.cost.bytes_written;
  if (choice.variant != kReferenceKernel) {
    const BackwardCut cut(args);
    choice.workspace_bytes = (cut.slots * cut.floats + (cut.chunks - 1) * cut.dq_floats) * 4;
    choice.launches = cut.chunks > 1 ? 2 : 1;
  }
  return choice;
}

void launch_backward(OpContext& context, const Choice& choice, const AttentionBackwardArgs& args,
                     void* workspace) {
  const AttentionProblem& problem = args.problem;
  check_attention_offsets("attention_backward", "q_offsets", problem.q_offsets, args.q.dim(0));
  check_attention_offsets("attention_backward", "kv_offsets", problem.kv_offsets, args.k.dim(0));
  if (choice.variant == kReferenceKernel) return reference::attention_backward(args);
  const BackwardCut cut(args);
  const int64_t kv_heads = args.k.dim(1), group = args.q.dim(1) / kv_heads;
  const int64_t width = args.q.dim(2), value_width = args.v.dim(2);
  const int64_t dq_token = args.q.dim(1) * width;
  const auto* q_offsets = problem.q_offsets.data<int32_t>();
  const auto* kv_offsets = problem.kv_offsets.data<int32_t>();
  float* shares = static_cast<float*>(workspace) + cut.slots * cut.floats;
  const int64_t tasks = attention_documents(problem) * kv_heads * cut.chunks;
  run_on_attention_slots(
      context.device.pool(), tasks, cut.slots, cut.floats, workspace,
      [&](int64_t task, float* scratch) {
        const int64_t chunk = task % cut.chunks, kv_head = task / cut.chunks % kv_heads;
        const int64_t d = task / cut.chunks / kv_heads, token = q_offsets[d];
        AttentionHead head = attention_head(problem, args.q, args.k, args.v, args.lse, d, kv_head);
        head.d_out = tensor_at(args.d_out, token, kv_head * group);
        head.out_token = args.d_out.stride(0);
        head.out_head = args.d_out.stride(1);
        head.delta = args.delta.data<float>() + kv_head * group * args.q.dim(0) + token;
        head.dq_token = dq_token;
        head.dq_head = width;
        head.dk_token = kv_heads * width;
        head.dv_token = kv_heads * value_width;
        float* dq = chunk == 0 ? args.dq.data<float>() : shares + (chunk - 1) * cut.dq_floats;
        head.dq = dq + token * dq_token + kv_head * group * width;
        head.dk = args.dk.data<float>() + kv_offsets[d] * head.dk_token + kv_head * width;
        head.dv = args.dv.data<float>() + kv_offsets[d] * head.dv_token + kv_head * value_width;
        if (chunk > 0) {
          for (int64_t i = 0; i < head.queries; ++i) {
            std::fill_n(head.dq + i * dq_token, group * width, 0.0f);
          }
        }
        const int64_t step = round_up_to((head.keys + cut.chunks - 1) / cut.chunks, kAttentionKeys);
        const int64_t begin = chunk * step, end = std::min(head.keys, begin + step);
        if (begin < end) kernels(choice).backward(head, begin, end, scratch);
      });
  if (cut.chunks == 1) return;
  constexpr int64_t kRun = 16384;
  const int64_t elements = args.q.elements();
  context.device.pool().run((elements + kRun - 1) / kRun, [&](int64_t run, int) {
    float* dq = args.dq.data<float>();
    for (int64_t i = run * kRun, end = std::min(elements, i + kRun); i < end; ++i) {
      float sum = shares[i];
      for (int64_t c = 1; c < cut.chunks - 1; ++c) sum += shares[c * cut.dq_floats + i];
      dq[i] += sum;
    }
  });
}

/// BF16 uses tiles if the instruction set has products of them.
constexpr int kTileKernel = kFamilyKernels;

template <CpuIsa isa>
Choice on_tiles(Choice choice, int64_t workspace_bytes) {
  choice.kernel = isa == CpuIsa::amx ? "flash_tiles_amx" : "flash_tiles_avx512_bf16";
  choice.variant = kTileKernel;
  choice.workspace_bytes = workspace_bytes;
  std::swap(choice.cost.flops[static_cast<size_t>(FlopFormat::f32)],
            choice.cost.flops[static_cast<size_t>(FlopFormat::bf16)]);
  return choice;
}

template <CpuIsa isa>
const TileKernels& tiles_of() {
  return isa == CpuIsa::amx ? amx::tile_kernels() : avx512_bf16::tile_kernels();
}

template <CpuIsa isa>
Choice choose_tiled_forward(const AttentionForwardArgs& args, const Traits& traits) {
  const Choice choice = choose_forward<isa>(args, traits);
  if (args.q.dtype() != DType::bf16) return choice;
  return on_tiles<isa>(choice, attention_tiles_forward_bytes(args));
}

template <CpuIsa isa>
void launch_tiled_forward(OpContext& context, const Choice& choice,
                          const AttentionForwardArgs& args, void* workspace) {
  if (choice.variant != kTileKernel) return launch_forward(context, choice, args, workspace);
  check_attention_offsets("attention_forward", "q_offsets", args.problem.q_offsets, args.q.dim(0));
  check_attention_offsets("attention_forward", "kv_offsets", args.problem.kv_offsets,
                          args.k.dim(0));
  attention_forward_on_tiles(context.device.pool(), args, tiles_of<isa>(), workspace);
}

template <CpuIsa isa>
Choice choose_tiled_backward(const AttentionBackwardArgs& args, const Traits& traits) {
  const Choice choice = choose_backward<isa>(args, traits);
  if (args.q.dtype() != DType::bf16) return choice;
  return on_tiles<isa>(choice, attention_tiles_backward_bytes(args));
}

template <CpuIsa isa>
void launch_tiled_backward(OpContext& context, const Choice& choice,
                           const AttentionBackwardArgs& args, void* workspace) {
  if (choice.variant != kTileKernel) return launch_backward(context, choice, args, workspace);
  check_attention_offsets("attention_backward", "q_offsets", args.problem.q_offsets, args.q.dim(0));
  check_attention_offsets("attention_backward", "kv_offsets", args.problem.kv_offsets,
                          args.k.dim(0));
  attention_backward_on_tiles(context.device.pool(), args, tiles_of<isa>(), workspace);
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.attention_forward = {choose_forward<isa>, launch_forward};
  table.attention_backward = {choose_backward<isa>, launch_backward};
}

template <CpuIsa isa>
void fill_with_tiles(OpTable& table) {
  table.attention_forward = {choose_tiled_forward<isa>, launch_tiled_forward<isa>};
  table.attention_backward = {choose_tiled_backward<isa>, launch_tiled_backward<isa>};
}

}  // namespace

void add_attention(OpTable& table, CpuIsa isa) {
  switch (isa) {
    case CpuIsa::avx2:
      fill<CpuIsa::avx2>(table);
      break;
    case CpuIsa::avx512:
      fill<CpuIsa::avx512>(table);
      break;
    case CpuIsa::avx512_bf16:
      fill_with_tiles<CpuIsa::avx512_bf16>(table);
      break;
    case CpuIsa::amx:
      fill_with_tiles<CpuIsa::amx>(table);
      break;
  }
  add_attention_rows(table, isa);
}

}  // namespace viaduct::cpu
