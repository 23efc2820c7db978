#include "ops/cuda/launch/cudnn_attention.h"

#include "base/error.h"

namespace viaduct::cuda {
namespace {

using Strides = LibraryAttention::Strides;

class AttentionGraph {
 public:
  AttentionGraph(const CudnnCalls& calls, const LibraryAttention& kind)
      : kind_(kind),
        format_(kind.format == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF),
        graph_(calls) {}

  CudnnGraph forward();
  CudnnGraph backward();

 private:
  /// Heads [documents, heads, tokens, width], or with the last two dims exchanged.
  CudnnTensor heads(int64_t id, int64_t count, int64_t tokens, int64_t width,
                    const Strides& strides, bool turned = false) {
    CudnnDims dims{kind_.documents, count, tokens, width};
    CudnnDims steps{tokens * strides.token, strides.head, strides.token, 1};
    if (turned) std::swap(dims[2], dims[3]), std::swap(steps[2], steps[3]);
    return graph_.memory(id, format_, dims, steps);
  }
  CudnnTensor queries(int64_t id, int64_t width, const Strides& strides) {
    return heads(id, kind_.heads, kind_.queries, width, strides);
  }
  CudnnTensor keys(int64_t id, int64_t width, const Strides& strides, bool turned) {
    return heads(id, kind_.kv_heads, kind_.keys, width, strides, turned);
  }
  CudnnTensor lse() {  // a part of the op's [N, Tq]
    return graph_.memory(kCudnnLse, CUDNN_DATA_FLOAT,
                         {kind_.documents, kind_.heads, kind_.queries, 1},
                         {kind_.queries, kind_.all_queries, 1, 1});
  }
  CudnnTensor matrix(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return graph_.between(type, {kind_.documents, kind_.heads, kind_.queries, kind_.keys});
  }
  CudnnTensor per_query() {
    return graph_.between(CUDNN_DATA_FLOAT, {kind_.documents, kind_.heads, kind_.queries, 1});
  }

  CudnnTensor apply(cudnnPointwiseMode_t mode, const CudnnTensor& x) {
    const CudnnTensor y = matrix();
    graph_.pointwise(mode, x, y);
    return y;
  }
  CudnnTensor apply(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor& b,
                    cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const CudnnTensor y = matrix(type);
    graph_.pointwise(mode, x, b, y);
    return y;
  }
  CudnnTensor scores(const CudnnTensor& q, const CudnnTensor& k, const CudnnTensor& scale) {
    const CudnnTensor product = matrix();
    graph_.product(q, k, product);
    return apply(CUDNN_POINTWISE_MUL, product, scale);
  }
  CudnnTensor masked(const CudnnTensor& x);
  /// += over the query heads of a key-value head.
  void add_gradient_of_keys(const CudnnTensor& weights, const CudnnTensor& rows, int64_t id,
                            int64_t width);
  /// A gradient's place in the workspace.
  Strides dense(int64_t kv_heads_of_op, int64_t width) const {
    return {kv_heads_of_op * width, width};
  }

  const LibraryAttention& kind_;
  cudnnDataType_t format_;
  CudnnGraph graph_;
};

/// Query i sees key j if i ≥ j.
CudnnTensor AttentionGraph::masked(const CudnnTensor& x) {
  if (!kind_.causal) return x;
  const CudnnTensor query = matrix(CUDNN_DATA_INT32), key = matrix(CUDNN_DATA_INT32),
                    keep = matrix(CUDNN_DATA_BOOLEAN), y = matrix();
  graph_.index(x, 2, query);
  graph_.index(x, 3, key);
  graph_.at_least(query, key, keep);
  graph_.select(x, graph_.number(kCudnnMasked), keep, y);
  return y;
}

CudnnGraph AttentionGraph::forward() {
  const CudnnTensor q = queries(kCudnnQ, kind_.width, kind_.q),
                    k = keys(kCudnnK, kind_.width, kind_.k, true),
                    v = keys(kCudnnV, kind_.value_width, kind_.v, false),
                    out = queries(kCudnnOut, kind_.value_width, kind_.out);
  const CudnnTensor s = masked(scores(q, k, graph_.number(kCudnnScale)));
  const CudnnTensor largest = per_query(), sum = per_query(), log_sum = per_query();
  graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, s, largest);
  const CudnnTensor e = apply(CUDNN_POINTWISE_EXP, apply(CUDNN_POINTWISE_SUB, s, largest));
  graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, e, sum);
  graph_.pointwise(CUDNN_POINTWISE_LOG, sum, log_sum);
  graph_.pointwise(CUDNN_POINTWISE_ADD, largest, log_sum, lse());
  graph_.product(apply(CUDNN_POINTWISE_DIV, e, sum, format_), v, out);
  return std::move(graph_);
}

void AttentionGraph::add_gradient_of_keys(const CudnnTensor& weights, const CudnnTensor& rows,
                                          int64_t id, int64_t width) {
  const CudnnTensor turned = graph_.transpose(weights, format_);
  const CudnnTensor gradient = keys(id, width, dense(kind_.all_kv_heads, width), false);
  if (kind_.heads == kind_.kv_heads) return graph_.product(turned, rows, gradient);
  const CudnnTensor of_query_heads =
      graph_.between(format_, {kind_.documents, kind_.heads, kind_.keys, width});
  graph_.product(turned, rows, of_query_heads);
  graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, of_query_heads, gradient);
}

/// The gradient of scores is a matrix in memory: with it dq is one product whose sums have one
/// order. The library's other way adds to dq from many blocks, in any order.
CudnnGraph AttentionGraph::backward() {
  const CudnnTensor q = queries(kCudnnQ, kind_.width, kind_.q),
                    k = keys(kCudnnK, kind_.width, kind_.k, true),
                    v = keys(kCudnnV, kind_.value_width, kind_.v, true),
                    out = queries(kCudnnOut, kind_.value_width, kind_.out),
                    d_out = queries(kCudnnDOut, kind_.value_width, kind_.d_out),
                    scale = graph_.number(kCudnnScale);
  // delta = Σ d_out · out
  const CudnnTensor products = graph_.between(
      CUDNN_DATA_FLOAT, {kind_.documents, kind_.heads, kind_.queries, kind_.value_width});
  const CudnnTensor sums = per_query();
  const CudnnTensor delta =
      graph_.memory(kCudnnDelta, CUDNN_DATA_FLOAT, {kind_.documents, kind_.heads, kind_.queries, 1},
                    {kind_.heads * kind_.queries, kind_.queries, 1, 1});
  graph_.pointwise(CUDNN_POINTWISE_MUL, d_out, out, products);
  graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  graph_.pointwise(CUDNN_POINTWISE_MUL, sums, graph_.number(kCudnnOne), delta);
  // p = e^(s − lse), dv = pᵀ · d_out
  const CudnnTensor p =
      apply(CUDNN_POINTWISE_EXP, masked(apply(CUDNN_POINTWISE_SUB, scores(q, k, scale), lse())));
  add_gradient_of_keys(p, d_out, kCudnnDv, kind_.value_width);
  // ds = scale · p · (d_out · vᵀ − delta), dk = dsᵀ · q, dq = ds · k
  const CudnnTensor dp = matrix();
  graph_.product(d_out, v, dp);
  const CudnnTensor ds =
      apply(CUDNN_POINTWISE_MUL,
            apply(CUDNN_POINTWISE_MUL, apply(CUDNN_POINTWISE_SUB, dp, delta), p), scale);
  add_gradient_of_keys(ds, q, kCudnnDk, kind_.width);
  graph_.product(ds, graph_.transpose(k, format_),
                 queries(kCudnnDq, kind_.width, dense(kind_.all_heads, kind_.width)));
  return std::move(graph_);
}

}  // namespace

CudnnGraph cudnn_attention(const CudnnCalls& calls, const LibraryAttention& kind) {
  AttentionGraph graph(calls, kind);
  return kind.backward ? graph.backward() : graph.forward();
}

CudnnPlan cudnn_attention_plan(const CudnnCalls& calls, const LibraryAttention& kind,
                               const CudnnTarget& target) {
  const std::string what =
      fmt::format("attention_{}: {} [{} × {} queries, {} heads, {}] on {} keys of {} heads",
                  kind.backward ? "backward" : "forward", dtype_name(kind.format), kind.documents,
                  kind.queries, kind.heads, kind.width, kind.keys, kind.kv_heads);
  return {calls, cudnn_attention(calls, kind), target, library_workspace(kind), what};
}

}  // namespace viaduct::cuda
