#include "ops/cpu/attention/attention_tiles.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/attention/attention_backward_launch.h"
#include "ops/cpu/attention/attention_heads.h"
#include "ops/cpu/attention/attention_launch.h"
#include "ops/cpu/attention/attention_one_query.h"
#include "ops/cpu/attention/attention_tile_blocks.h"

namespace viaduct::cpu {
namespace {

// Keys of a packing task.
constexpr int64_t kPackKeys = 512;
// Gap between strips that run along the keys, so that their distance is not a power of two.
constexpr int64_t kStripGap = 64;

/// How an operand of one document and key-value head is packed.
enum class Packing {
  key_columns,  // columns are keys, contracted the width
  key_depth,    // contracted keys, columns are the width
};

/// All documents and heads of k or v in one packing: a part of the workspace.
class PackedOperand {
 public:
  /// `documents`: their number; offsets are read when the operand is used.
  PackedOperand(const Tensor& tensor, Packing packing, int64_t documents)
      : tensor_(tensor), packing_(packing) {
    const int64_t width = tile_room(tensor.dim(2));
    // Each document is padded to whole steps.
    const int64_t keys = tile_room(tensor.dim(0) + documents * (kTileDepth - 1));
    elements_ = tensor.dim(1) * (keys * width + documents * width / kTileRows * kStripGap);
  }

  int64_t bytes() const { return round_up_to(elements_ * 2, 64); }

  void place(void* data, const int32_t* offsets, int64_t documents) {
    data_ = static_cast<bfloat16*>(data);
    offsets_ = offsets;
    begin_.assign(1, 0);
    for (int64_t d = 0; d < documents; ++d) begin_.push_back(begin_.back() + size_of(d));
  }

  PackedKeys at(int64_t document, int64_t head) const {
    return {data_ + head * begin_.back() + begin_[static_cast<size_t>(document)],
            strip_of(document)};
  }

  /// Packs the keys [begin, begin + kPackKeys) of a document.
  void pack(const TileKernels& tiles, int64_t document, int64_t head, int64_t begin) const {
    const int64_t keys = std::min(kPackKeys, keys_of(document) - begin), width = tensor_.dim(2);
    const bool by_keys = packing_ == Packing::key_columns;
    const TileSource source{tensor_at(tensor_, offsets_[document] + begin, head),
                            DType::bf16,
                            tensor_.stride(0),
                            !by_keys,
                            by_keys ? keys : width,
                            by_keys ? width : keys};
    const int64_t strip = strip_of(document);
    bfloat16* to = data_ + (at(document, head).data - data_) +
                   (by_keys ? begin / kTileRows * strip : begin / kTileDepth * kTileElements);
    tiles.pack_b(source, to, strip);
  }

 private:
  int64_t keys_of(int64_t d) const { return offsets_[d + 1] - offsets_[d]; }
  int64_t strip_of(int64_t d) const {
    return packing_ == Packing::key_columns ? tile_room(tensor_.dim(2)) * kTileRows
                                            : tile_room(keys_of(d)) * kTileRows + kStripGap;
  }
  int64_t size_of(int64_t d) const {
    const int64_t width = tile_room(tensor_.dim(2));
    return tile_room(keys_of(d)) * width + width / kTileRows * kStripGap;
  }

  const Tensor& tensor_;
  Packing packing_;
  int64_t elements_ = 0;
  bfloat16* data_ = nullptr;
  const int32_t* offsets_ = nullptr;
  std::vector<int64_t> begin_;  // of the documents of a head, in elements
};

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
      operand->pack(tiles, piece.document, task % kv_heads, piece.begin);
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
      : keys(args.k, Packing::key_columns, attention_documents(args.problem)),
        values(args.v, Packing::key_depth, attention_documents(args.problem)) {}
};

static_assert(kBackwardKeys == kTileBackwardKeys);

/// Keys whose dk and dv are summed in scratch.
int64_t backward_run_keys(const AttentionBackwardArgs& args) {
  const int64_t run = tile_backward_run(args.q.dim(2), args.v.dim(2));
  if (args.problem.max_keys == 0) return run;
  return std::min(run, round_up_to(args.problem.max_keys, kTileBackwardKeys));
}

/// Keys and values of a run as tiles, in the scratch of a task, where its products find them in the
/// L2 cache.
struct RunOperands {
  int64_t keys_strip, values_strip, transposed_strip;  // elements
  int64_t keys, values, transposed;                    // elements of all strips

  RunOperands(int64_t run, int64_t width, int64_t value_width)
      : keys_strip(tile_room(width) * kTileRows),
        values_strip(tile_room(value_width) * kTileRows),
        transposed_strip(tile_room(run) * kTileRows + kStripGap),
        keys(tile_room(run) * tile_room(width)),
        values(tile_room(run) * tile_room(value_width)),
        transposed(tile_room(width) / kTileRows * transposed_strip) {}

  int64_t bytes() const { return (keys + values + transposed) * 2; }

  /// Packs the keys [begin, end) of a head to `to` and gives them to `problem`.
  void pack(const TileKernels& tiles, const AttentionHead& head, int64_t begin, int64_t end,
            bfloat16* to, TileBackward& problem) const {
    const int64_t count = end - begin;
    const auto* k = static_cast<const bfloat16*>(head.k) + begin * head.k_token;
    const auto* v = static_cast<const bfloat16*>(head.v) + begin * head.v_token;
    tiles.pack_a({k, DType::bf16, head.k_token, false, count, head.width}, to, keys_strip);
    problem.keys = {to, keys_strip};
    to += keys;
    tiles.pack_a({v, DType::bf16, head.v_token, false, count, head.value_width}, to, values_strip);
    problem.values = {to, values_strip};
    to += values;
    tiles.pack_a({k, DType::bf16, head.k_token, true, head.width, count}, to, transposed_strip);
    problem.transposed = {to, transposed_strip};
  }
};

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
  const ForwardOperands operands(args);
  return operands.keys.bytes() + operands.values.bytes() +
         forward_slots(args) * forward_scratch(args) + HeadBiases::floats(args.problem) * 4;
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
