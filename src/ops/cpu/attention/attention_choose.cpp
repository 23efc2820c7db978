#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "ops/cpu/attention/attention_backward_launch.h"
#include "ops/cpu/attention/attention_bias.h"
#include "ops/cpu/attention/attention_heads.h"
#include "ops/cpu/attention/attention_kernels.h"
#include "ops/cpu/attention/attention_launch.h"
#include "ops/cpu/attention/attention_one_query.h"
#include "ops/cpu/attention/attention_tiles.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

const AttentionKernels& kernels(const Choice& choice) {
  return kernels_of(choice, portable::attention_kernels, avx2::attention_kernels,
                    avx512::attention_kernels);
}

Choice flash_choice(std::string_view op, CpuIsa isa, DType dtype) {
  const bool codes = dtype == DType::e4m3;
  Choice choice = vector_choice(op, isa, codes ? DType::f32 : dtype);
  if (choice.variant == kPortableKernel)
    choice.kernel = codes ? "flash_fp8_portable" : "flash_portable";
  if (choice.variant == kAvx2Kernel) choice.kernel = codes ? "flash_fp8_avx2" : "flash_avx2";
  if (choice.variant == kAvx512Kernel) choice.kernel = codes ? "flash_fp8_avx512" : "flash_avx512";
  return choice;
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
  choice.cost = cost_of(args);
  if (choice.variant != kReferenceKernel) {
    choice.workspace_bytes =
        (forward_slots(args) * forward_floats(args) + HeadBiases::floats(args.problem)) * 4;
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
  ThreadPool& pool = context.device.pool();
  const HeadBiases biases(
      pool, problem, static_cast<float*>(workspace) + forward_slots(args) * forward_floats(args));
  run_on_attention_slots(pool, static_cast<int64_t>(blocks.size()) * kv_heads, forward_slots(args),
                         forward_floats(args), workspace, [&](int64_t task, float* scratch) {
                           const Block& block = blocks[static_cast<size_t>(task / kv_heads)];
                           const int64_t kv_head = task % kv_heads;
                           AttentionHead head = forward_head(args, block.document, kv_head);
                           biases.give(head, kv_head);
                           kernels(choice).forward(head, block.row, scratch);
                         });
}

static_assert(kBackwardKeys == kAttentionKeys);

int64_t backward_scratch(const AttentionBackwardArgs& args) {
  return round_up_to(attention_backward_scratch(args.q.dim(2), args.v.dim(2)), 16);
}

template <CpuIsa isa>
Choice choose_backward(const AttentionBackwardArgs& args, const Traits&) {
  Choice choice = flash_choice("attention_backward", isa, args.q.dtype());
  choice.cost = cost_of(args);
  if (choice.variant != kReferenceKernel) {
    const BackwardCut cut(args);
    choice.workspace_bytes = cut.bytes(backward_scratch(args));
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
  run_attention_backward(
      context.device.pool(), args, BackwardCut(args), backward_scratch(args), workspace,
      [&](const AttentionHead& head, int64_t, int64_t, int64_t begin, int64_t end, float* scratch) {
        kernels(choice).backward(head, begin, end, scratch);
      });
}

/// BF16 uses tiles if the instruction set has products of them.
constexpr int kTileKernel = kFamilyKernels;

template <CpuIsa isa>
Choice on_tiles(Choice choice, int64_t workspace_bytes) {
  choice.kernel = isa == CpuIsa::amx ? "flash_tiles_amx" : "flash_tiles_avx512_bf16";
  choice.variant = kTileKernel;
  choice.workspace_bytes = workspace_bytes;
  move_flops(choice.cost, FlopFormat::bf16);
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
    case CpuIsa::portable:
      fill<CpuIsa::portable>(table);
      break;
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
  table.biased_attention = true;
  add_attention_rows(table, isa);
}

}  // namespace viaduct::cpu
