#include "ops/cpu/attention/attention_tiles.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/cpu/attention/attention_backward_launch.h"
#include "ops/cpu/attention/attention_heads.h"
#include "ops/cpu/attention/attention_launch.h"
#include "ops/cpu/attention/attention_one_query.h"
#include "ops/cpu/attention/attention_tile_blocks.h"
#include "ops/cpu/attention/attention_tile_packing.h"

namespace viaduct::cpu {
namespace {

/// Places the operands one after the other in `memory` and packs them on all threads. Returns the
/// address behind them.
char* pack_all(ThreadPool& pool, const TileKernels& tiles, const AttentionProblem& problem,
               int64_t kv_heads, std::initializer_list<PackedOperand*> operands, char* memory) {
  const auto* offsets = problem.kv_offsets.data<int32_t>();
  const int64_t documents = attention_documents(problem);
  for (PackedOperand* operand : operands) {
    operand->place(memory, offsets, documents);
    memory += operand->bytes();
  }
  struct Piece {
    int64_t document, begin;
  };
  std::vector<Piece> pieces;
  for (int64_t d = 0; d < documents; ++d) {
    for (int64_t begin = 0; begin < offsets[d + 1] - offsets[d]; begin += kPackKeys)
      pieces.push_back({d, begin});
  }
  pool.run(static_cast<int64_t>(pieces.size()) * kv_heads, [&](int64_t task, int) {
    const Piece& piece = pieces[static_cast<size_t>(task / kv_heads)];
    for (const PackedOperand* operand : operands)
      operand->pack(tiles, piece.document, task % kv_heads, piece.begin, task % kv_heads);
  });
  return memory;
}

/// One query head of a group.
AttentionHead member_of(const AttentionHead& group, int64_t member) {
  AttentionHead head = group;
  const auto move = [&](const void* data, int64_t stride) {
    return static_cast<const bfloat16*>(data) + member * stride;
  };
  head.group = 1;
  head.q = move(group.q, group.q_head);
  if (group.out != nullptr) head.out = static_cast<bfloat16*>(group.out) + member * group.out_head;
  if (group.d_out != nullptr) head.d_out = move(group.d_out, group.out_head);
  head.lse += member * group.lse_head;
  if (group.delta != nullptr) head.delta += member * group.lse_head;
  if (group.dq != nullptr) head.dq += member * group.dq_head;
  head.first_head += member;
  return head;
}

int64_t forward_scratch(const AttentionForwardArgs& args) {
  return round_up_to(tile_forward_scratch(args.q.dim(2), args.v.dim(2)), 64);
}

int64_t forward_slots(const AttentionForwardArgs& args) {
  const int64_t blocks = args.q.dim(0) / kTileQueries + attention_documents(args.problem);
  return std::min(kAttentionSlots, blocks * args.q.dim(1) + 1);
}

int64_t one_query_scratch(const AttentionForwardArgs& args) {
  return round_up_to(tile_one_query_scratch(args.q.dim(2), args.v.dim(2)), 64);
}

int64_t one_query_slots(const AttentionForwardArgs& args) {
  return std::min(kAttentionSlots, attention_documents(args.problem) * args.k.dim(1));
}

struct ForwardOperands {
  PackedOperand keys, values;
  explicit ForwardOperands(const AttentionForwardArgs& args)
      : ForwardOperands(args, attention_documents(args.problem), args.k.dim(0), args.k.dim(1)) {}
  ForwardOperands(const AttentionForwardArgs& args, int64_t documents, int64_t tokens,
                  int64_t heads)
      : keys(args.k, Packing::key_columns, documents, tokens, heads),
        values(args.v, Packing::key_depth, documents, tokens, heads) {}

  int64_t bytes() const { return keys.bytes() + values.bytes(); }
};

/// Room for one head of the longest document.
ForwardOperands longest_operands(const AttentionForwardArgs& args) {
  return {args, 1, args.problem.max_keys, 1};
}

/// Whether a task is a whole document and key-value head, which packs its keys and values itself:
/// they are in the L2 cache when they are used. It needs enough tasks, and short documents.
bool packs_in_tasks(const AttentionForwardArgs& args) {
  constexpr int64_t kLeastTasks = 32, kMostBytes = 512 << 10;
  return args.problem.max_keys > 0 &&
         attention_documents(args.problem) * args.k.dim(1) >= kLeastTasks &&
         longest_operands(args).bytes() <= kMostBytes;
}

int64_t document_slots(const AttentionForwardArgs& args) {
  return std::min(kAttentionSlots, attention_documents(args.problem) * args.k.dim(1));
}

int64_t document_scratch(const AttentionForwardArgs& args) {
  return forward_scratch(args) + longest_operands(args).bytes();
}

/// The forward with a task for each document and key-value head.
void forward_by_documents(ThreadPool& pool, const AttentionForwardArgs& args,
                          const TileKernels& tiles, char* workspace) {
  const AttentionProblem& problem = args.problem;
  const int64_t kv_heads = args.k.dim(1), group = args.q.dim(1) / kv_heads;
  const auto* offsets = problem.kv_offsets.data<int32_t>();
  const auto keys_of = [&](int64_t d) { return int64_t{offsets[d + 1]} - offsets[d]; };
  // The longest first, so that no thread starts one at the end.
  std::vector<int64_t> order(static_cast<size_t>(attention_documents(problem)));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return keys_of(a) > keys_of(b); });
  VIADUCT_CHECK(ShapeError, keys_of(order.front()) <= problem.max_keys,
                "attention_forward: document {} has {} keys, but max_keys is {}", order.front(),
                keys_of(order.front()), problem.max_keys);
  const int64_t slots = document_slots(args), bytes = document_scratch(args);
  const HeadBiases biases(pool, problem, reinterpret_cast<float*>(workspace + slots * bytes));
  run_on_attention_slots(
      pool, static_cast<int64_t>(order.size()) * kv_heads, slots, bytes / 4, workspace,
      [&](int64_t task, float* scratch) {
        const int64_t d = order[static_cast<size_t>(task / kv_heads)], kv_head = task % kv_heads;
        AttentionHead whole = forward_head(args, d, kv_head);
        biases.give(whole, kv_head);
        char* mine = reinterpret_cast<char*>(scratch);
        ForwardOperands operands = longest_operands(args);
        operands.keys.place(mine + forward_scratch(args), offsets + d, 1);
        operands.values.place(mine + forward_scratch(args) + operands.keys.bytes(), offsets + d, 1);
        for (int64_t begin = 0; begin < whole.keys; begin += kPackKeys) {
          operands.keys.pack(tiles, 0, kv_head, begin, 0);
          operands.values.pack(tiles, 0, kv_head, begin, 0);
        }
        for (int64_t member = 0; member < group; ++member) {
          const TileForward forward{member_of(whole, member), operands.keys.at(0, 0),
                                    operands.values.at(0, 0)};
          for (int64_t query = 0; query < whole.queries; query += kTileQueries)
            avx512_bf16::attention_forward_block(tiles, forward, query, mine);
        }
      });
}

static_assert(kBackwardKeys == kTileBackwardKeys);

/// Keys whose dk and dv are summed in scratch.
int64_t backward_run_keys(const AttentionBackwardArgs& args) {
  const int64_t run = tile_backward_run(args.q.dim(2), args.v.dim(2));
  if (args.problem.max_keys == 0) return run;
  return std::min(run, round_up_to(args.problem.max_keys, kTileBackwardKeys));
}

/// Floats of scratch of a task.
int64_t backward_scratch(const AttentionBackwardArgs& args) {
  const int64_t width = args.q.dim(2), value_width = args.v.dim(2);
  const int64_t run = backward_run_keys(args);
  return (round_up_to(tile_backward_scratch(width, value_width), 64) +
          RunOperands(run, width, value_width).bytes()) /
             4 +
         run * (tile_room(width) + tile_room(value_width));
}

/// to[j] += sums[j] for `keys` rows.
void add_sums(const float* sums, int64_t stride, int64_t keys, int64_t width, float* to,
              int64_t token) {
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t i = 0; i < width; ++i) to[j * token + i] += sums[j * stride + i];
  }
}

/// All queries of a group of heads against the keys [begin, end), whose dk and dv are summed in
/// `sums`, dense, and then added to the gradients.
void backward_run(const TileKernels& tiles, const AttentionHead& group, int64_t begin, int64_t end,
                  float* sums) {
  const int64_t width = tile_room(group.width), value_width = tile_room(group.value_width);
  const int64_t keys = tile_room(end - begin);
  const RunOperands operands(keys, group.width, group.value_width);
  TileBackward problem;
  problem.dk = sums;
  problem.dv = sums + keys * width;
  auto* packed = reinterpret_cast<bfloat16*>(problem.dv + keys * value_width);
  operands.pack(tiles, group, begin, end, packed, problem);
  char* scratch = reinterpret_cast<char*>(packed) + operands.bytes();
  std::fill_n(sums, keys * (width + value_width), 0.0f);
  for (int64_t member = 0; member < group.group; ++member) {
    problem.head = member_of(group, member);
    for (int64_t query = 0; query < group.queries; query += kTileBackwardQueries) {
      problem.last = member + 1 == group.group && query + kTileBackwardQueries >= group.queries;
      avx512_bf16::attention_backward_block(tiles, problem, query, begin, end, scratch);
    }
  }
  add_sums(problem.dk, width, end - begin, group.width, group.dk + begin * group.dk_token,
           group.dk_token);
  add_sums(problem.dv, value_width, end - begin, group.value_width,
           group.dv + begin * group.dv_token, group.dv_token);
}

}  // namespace

int64_t attention_tiles_forward_bytes(const AttentionForwardArgs& args) {
  if (asks_single_queries(args)) return one_query_slots(args) * one_query_scratch(args);
  const int64_t biases = HeadBiases::floats(args.problem) * 4;
  if (packs_in_tasks(args)) return document_slots(args) * document_scratch(args) + biases;
  return ForwardOperands(args).bytes() + forward_slots(args) * forward_scratch(args) + biases;
}

void attention_forward_on_tiles(ThreadPool& pool, const AttentionForwardArgs& args,
                                const TileKernels& tiles, void* workspace) {
  if (asks_single_queries(args)) {
    return for_each_single_query(pool, args, one_query_slots(args), one_query_scratch(args) / 4,
                                 workspace, [&](int64_t document, int64_t kv_head, float* scratch) {
                                   avx512_bf16::attention_one_query(
                                       tiles, forward_head(args, document, kv_head),
                                       reinterpret_cast<char*>(scratch));
                                 });
  }
  if (packs_in_tasks(args))
    return forward_by_documents(pool, args, tiles, static_cast<char*>(workspace));
  const AttentionProblem& problem = args.problem;
  ForwardOperands operands(args);
  const int64_t kv_heads = args.k.dim(1), heads = args.q.dim(1), group = heads / kv_heads;
  char* scratch = pack_all(pool, tiles, problem, kv_heads, {&operands.keys, &operands.values},
                           static_cast<char*>(workspace));
  struct Block {
    int64_t document, query;
  };
  std::vector<Block> blocks;
  const auto* offsets = problem.q_offsets.data<int32_t>();
  for (int64_t d = attention_documents(problem) - 1; d >= 0; --d) {
    // The last queries see the most keys: they are first, so that no thread starts one at the end.
    const int64_t queries = offsets[d + 1] - offsets[d];
    for (int64_t query = round_up_to(queries, kTileQueries) - kTileQueries; query >= 0;
         query -= kTileQueries) {
      blocks.push_back({d, query});
    }
  }
  const auto per_head = static_cast<int64_t>(blocks.size());
  const HeadBiases biases(
      pool, problem,
      reinterpret_cast<float*>(scratch + forward_slots(args) * forward_scratch(args)));
  run_on_attention_slots(pool, per_head * heads, forward_slots(args), forward_scratch(args) / 4,
                         scratch, [&](int64_t task, float* mine) {
                           // Blocks of a head are consecutive: its keys and values stay in the
                           // caches.
                           const int64_t n = task / per_head, kv_head = n / group;
                           const Block& block = blocks[static_cast<size_t>(task % per_head)];
                           AttentionHead whole = forward_head(args, block.document, kv_head);
                           biases.give(whole, kv_head);
                           const TileForward forward{member_of(whole, n % group),
                                                     operands.keys.at(block.document, kv_head),
                                                     operands.values.at(block.document, kv_head)};
                           avx512_bf16::attention_forward_block(tiles, forward, block.query,
                                                                reinterpret_cast<char*>(mine));
                         });
}

int64_t attention_tiles_backward_bytes(const AttentionBackwardArgs& args) {
  return BackwardCut(args).bytes(backward_scratch(args));
}

void attention_backward_on_tiles(ThreadPool& pool, const AttentionBackwardArgs& args,
                                 const TileKernels& tiles, void* workspace) {
  const int64_t run = backward_run_keys(args);
  run_attention_backward(pool, args, BackwardCut(args), backward_scratch(args), workspace,
                         [&](const AttentionHead& group, int64_t, int64_t, int64_t first,
                             int64_t last, float* scratch) {
                           for (int64_t begin = first; begin < last; begin += run)
                             backward_run(tiles, group, begin, std::min(last, begin + run),
                                          scratch);
                         });
}

}  // namespace viaduct::cpu
