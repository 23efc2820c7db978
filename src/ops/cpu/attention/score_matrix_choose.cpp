// Choice and launch of attention composed of ops. Tasks are blocks of queries (of keys, if keys are
// summed) of one head of one document; their boundaries depend only on the shapes.

#include <cmath>
#include <vector>

#include "ops/costs.h"
#include "ops/cpu/attention/attention_launch.h"
#include "ops/cpu/attention/score_matrix_kernels.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

const ScoreKernels& kernels(const Choice& choice) {
  return kernels_of(choice, portable::score_kernels, avx2::score_kernels, avx512::score_kernels);
}

/// Offsets of the documents, and the position of their rows.
struct Documents {
  const int32_t* queries;
  const int32_t* keys;
  int64_t count;

  Documents(std::string_view op, const AttentionProblem& problem, const Tensor& matrix)
      : queries(problem.q_offsets.data<int32_t>()),
        keys(problem.kv_offsets.data<int32_t>()),
        count(attention_documents(problem)) {
    check_attention_offsets(op, "q_offsets", problem.q_offsets, matrix.dim(1));
    check_attention_offsets(op, "kv_offsets", problem.kv_offsets, keys[count]);
    for (int64_t d = 0; d < count; ++d) {
      VIADUCT_CHECK(ShapeError, keys[d + 1] - keys[d] <= matrix.dim(2),
                    "{}: matrix: expected rows for the {} keys of document {}, found {}", op,
                    keys[d + 1] - keys[d], d, describe(matrix));
    }
  }
};

int64_t product_floats(const ScoreProductArgs& args) {
  return round_up_to(score_scratch(args.queries.dim(2)), 16);
}

/// The cpu's kernels do not round factors, and read them in FP32.
void check_wide(std::string_view op, const Tensor& matrix) {
  VIADUCT_CHECK(DeviceError, !matrix || dtype_bytes(matrix.dtype()) >= 4,
                "{}: the cpu has no kernel for a score matrix in {}; it has f32 and f64", op,
                dtype_name(matrix.dtype()));
}

template <CpuIsa isa>
Choice choose_product(const ScoreProductArgs& args, const Traits&) {
  check_wide("score_product", args.matrix);
  Choice choice = vector_choice("score_product", isa, args.matrix.dtype());
  choice.cost = cost_of(args);
  if (choice.variant != kReferenceKernel)
    choice.workspace_bytes = kAttentionSlots * product_floats(args) * 4;
  return choice;
}

ScoreSide side_of(const Tensor& tensor, int64_t token, int64_t head) {
  return {tensor.dtype(),
          static_cast<char*>(tensor.raw()) +
              (token * tensor.stride(0) + head * tensor.stride(1)) * dtype_bytes(tensor.dtype()),
          tensor.stride(0)};
}

void launch_product(OpContext& context, const Choice& choice, const ScoreProductArgs& args,
                    void* workspace) {
  const Documents documents("score_product", args.problem, args.matrix);
  check_attention_offsets("score_product", "kv_offsets", args.problem.kv_offsets, args.keys.dim(0));
  if (choice.variant == kReferenceKernel) return reference::score_product(args);
  const bool by_keys = args.form == ScoreProduct::keys;
  const int64_t heads = by_keys ? args.keys.dim(1) : args.queries.dim(1);
  const int64_t group = args.queries.dim(1) / args.keys.dim(1);
  struct Task {
    int64_t document, begin;
  };
  std::vector<Task> tasks;
  const int32_t* cut = by_keys ? documents.keys : documents.queries;
  for (int64_t d = 0; d < documents.count; ++d) {
    for (int64_t begin = 0; begin < cut[d + 1] - cut[d]; begin += kScoreBlock)
      tasks.push_back({d, begin});
  }
  run_on_attention_slots(
      context.device.pool(), static_cast<int64_t>(tasks.size()) * heads, kAttentionSlots,
      product_floats(args), workspace, [&](int64_t number, float* scratch) {
        const Task& task = tasks[static_cast<size_t>(number / heads)];
        const int64_t head = number % heads, d = task.document;
        const int64_t first_query = documents.queries[d] + (by_keys ? 0 : task.begin);
        const int64_t first_key = documents.keys[d] + (by_keys ? task.begin : 0);
        ScoreBlock block;
        block.row = args.matrix.dim(2);
        block.query_count = documents.queries[d + 1] - first_query;
        block.key_count = documents.keys[d + 1] - first_key;
        (by_keys ? block.key_count : block.query_count) =
            std::min(kScoreBlock, by_keys ? block.key_count : block.query_count);
        block.width = args.queries.dim(2);
        block.accumulate = args.mode == WriteMode::accumulate;
        const int64_t first_head = by_keys ? head * group : head;
        for (int64_t n = first_head; n < first_head + (by_keys ? group : 1); ++n) {
          block.matrix = args.matrix.data<float>() +
                         (n * args.matrix.dim(1) + first_query) * block.row +
                         (by_keys ? task.begin : 0);
          block.queries = side_of(args.queries, first_query, n);
          block.keys = side_of(args.keys, first_key, n / group);
          kernels(choice).product(args.form, block, scratch);
        }
      });
}

/// Runs `f(row, place)` for the row of every query of every head.
struct RowPlace {
  int64_t head, query, document;
};
template <class F>
void for_score_rows(OpContext& context, const Documents& documents, const AttentionProblem& problem,
                    const Tensor& matrix, F&& f) {
  struct Task {
    int64_t document, begin, end;
  };
  std::vector<Task> tasks;
  for (int64_t d = 0; d < documents.count; ++d) {
    for (int64_t begin = documents.queries[d]; begin < documents.queries[d + 1]; begin += 16)
      tasks.push_back({d, begin, std::min<int64_t>(documents.queries[d + 1], begin + 16)});
  }
  const int64_t heads = matrix.dim(0);
  context.device.pool().run(static_cast<int64_t>(tasks.size()) * heads, [&](int64_t number, int) {
    const Task& task = tasks[static_cast<size_t>(number / heads)];
    const int64_t head = number % heads, d = task.document;
    const int64_t diagonal = problem.diagonal ? problem.diagonal.data<int32_t>()[d] : 0;
    for (int64_t t = task.begin; t < task.end; ++t) {
      const int64_t center = t - documents.queries[d] + diagonal;
      ScoreRow row;
      row.scores = matrix.data<float>() + (head * matrix.dim(1) + t) * matrix.dim(2);
      row.count = documents.keys[d + 1] - documents.keys[d];
      row.first = problem.window > 0 ? std::max<int64_t>(0, center - problem.window + 1) : 0;
      row.last = problem.causal ? std::min(row.count, center + 1) : row.count;
      row.scale = static_cast<float>(problem.scale);
      row.softcap = static_cast<float>(problem.softcap);
      f(row, RowPlace{head, t, d});
    }
  });
}

template <CpuIsa isa>
Choice choose_rows(const ScoreRowsArgs& args, const Traits&) {
  for (const Tensor& matrix : {args.x, args.out, args.probabilities})
    check_wide("score_rows", matrix);
  Choice choice = vector_choice("score_rows", isa, args.x.dtype());
  choice.cost = cost_of(args);
  return choice;
}

ScoreDraw draw_of(const AttentionProblem& problem) {
  ScoreDraw draw;
  draw.key = philox_key(problem.dropout_key);
  draw.threshold = static_cast<int32_t>(std::ceil(problem.dropout * 0x1p23 - 0.5));
  draw.factor = static_cast<float>(1 / (1 - problem.dropout));
  return draw;
}

void launch_rows(OpContext& context, const Choice& choice, const ScoreRowsArgs& args, void*) {
  const AttentionProblem& problem = args.problem;
  const Documents documents("score_rows", problem, args.x);
  if (choice.variant == kReferenceKernel) return reference::score_rows(args);
  const ScoreParts parts = parts_of(args.step);
  const bool dropout = args.step == ScoreStep::dropout;
  const ScoreDraw draw = dropout ? draw_of(problem) : ScoreDraw{};
  float* const out = args.out ? args.out.data<float>() : args.x.data<float>();
  for_score_rows(context, documents, problem, args.x, [&](ScoreRow& row, const RowPlace& place) {
    const int64_t at = place.head * args.x.dim(1) + place.query;
    if (args.lse) row.lse = args.lse.data<float>() + at;
    if (dropout) {
      ScoreDraw mine = draw;
      mine.token = static_cast<uint64_t>(problem.query_index.data<int64_t>()[place.query]);
      mine.head = static_cast<uint32_t>(problem.first_head + place.head);
      if (problem.key_position)
        mine.positions = problem.key_position.data<int32_t>() + documents.keys[place.document];
      kernels(choice).dropout(mine, row.scores, out + at * args.x.dim(2), row.count);
    } else if (parts.backward) {
      row.delta = args.delta.data<float>()[at];
      kernels(choice).softmax_backward(parts, row,
                                       args.probabilities.data<float>() + at * args.x.dim(2));
    } else {
      kernels(choice).softmax(parts, row, args.known_lse);
    }
  });
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.score_product = {choose_product<isa>, launch_product};
  table.score_rows = {choose_rows<isa>, launch_rows};
}

}  // namespace

void add_score_matrix(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill<CpuIsa::portable>, fill<CpuIsa::avx2>, fill<CpuIsa::avx512>)(table);
}

}  // namespace viaduct::cpu
