#include "engine/score_tokens.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/error.h"
#include "engine/cut_batch.h"
#include "ops/embedding.h"

namespace viaduct {
namespace {

/// A scored row of this rank's tokens: what is scored there.
struct ScoredRow {
  int32_t row = 0;
  std::vector<TokenTarget> targets;
};

std::vector<ScoredRow> rows_here(const std::vector<int32_t>& document_offsets,
                                 const BatchPlace& place, const std::vector<TokenTarget>& targets) {
  const std::vector<int64_t> sources = cut_sources(document_offsets, place, true);
  std::vector<int32_t> row_of(static_cast<size_t>(document_offsets.back()), -1);
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources[i] >= 0) row_of[static_cast<size_t>(sources[i])] = static_cast<int32_t>(i);
  std::vector<std::pair<int32_t, TokenTarget>> here;
  for (const TokenTarget& target : targets) {
    const int32_t row = row_of.at(static_cast<size_t>(target.position));
    if (row >= 0) here.emplace_back(row, target);
  }
  std::stable_sort(here.begin(), here.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ScoredRow> rows;
  for (const auto& [row, target] : here) {
    if (rows.empty() || rows.back().row != row) rows.push_back({row, {}});
    rows.back().targets.push_back(target);
  }
  return rows;
}

/// The rows of `normed` [T, H], one after the other.
Tensor pick_rows(OpContext& context, const Tensor& normed, std::span<const ScoredRow> rows) {
  const Shape count{static_cast<int64_t>(rows.size())};
  const Tensor host = host_tensor(DType::i32, count);
  for (size_t i = 0; i < rows.size(); ++i) host.data<int32_t>()[i] = rows[i].row;
  const Tensor ids = context.allocate(DType::i32, count, MemoryTag::batch);
  context.device.copy_from_host(host, ids);
  const Tensor picked =
      context.allocate(normed.dtype(), {count[0], normed.dim(1)}, MemoryTag::activations);
  embedding_forward(context, {.ids = ids, .weight = normed, .out = picked});
  return picked;
}

double wide(double value) {
  return value;
}
template <class T>
double wide(T value) {
  return static_cast<float>(value);
}

/// Scores by the logits of one row. In FP64: a sum over a large vocabulary, of which a small
/// difference matters.
template <class T>
void score_row(std::span<const T> logits, double cap, const ScoredRow& row, TokenScore* to) {
  const auto value = [&](T logit) {
    return cap > 0 ? cap * std::tanh(wide(logit) / cap) : wide(logit);
  };
  const auto best =
      std::max_element(logits.begin(), logits.end(), [](T a, T b) { return wide(a) < wide(b); });
  const double most = value(*best);
  double sum = 0;
  for (const T logit : logits) sum += std::exp(value(logit) - most);
  const double log_sum = most + std::log(sum);
  for (const TokenTarget& target : row.targets) {
    const auto token = static_cast<size_t>(target.token);
    *to++ = {target.request, value(logits[token]) - log_sum,
             token == static_cast<size_t>(best - logits.begin())};
  }
}

/// Scores by the logits [n, V] of n rows, in the order of their targets.
void score_rows(ThreadPool& pool, const Tensor& logits, double cap, std::span<const ScoredRow> rows,
                std::vector<TokenScore>& scores) {
  std::vector<size_t> begins;
  size_t end = scores.size();
  for (const ScoredRow& row : rows) {
    begins.push_back(end);
    end += row.targets.size();
  }
  scores.resize(end);
  const auto width = static_cast<size_t>(logits.dim(1));
  dispatch_floating(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    pool.run(static_cast<int64_t>(rows.size()), [&](int64_t i, int) {
      const auto at = static_cast<size_t>(i);
      const std::span<const T> row(logits.data<T>() + at * width, width);
      score_row<T>(row, cap, rows[at], scores.data() + begins[at]);
    });
  });
}

void check_targets(const std::vector<TokenTarget>& targets, int64_t vocabulary) {
  for (const TokenTarget& target : targets) {
    VIADUCT_CHECK(ShapeError, target.token >= 0 && target.token < vocabulary,
                  "scoring: token {} is outside the model's vocabulary of {}", target.token,
                  vocabulary);
  }
}

}  // namespace

std::vector<TokenScore> score_tokens(Engine& engine, const HeadSegment& head, const Tensor& stream,
                                     const std::vector<int32_t>& document_offsets,
                                     const std::vector<TokenTarget>& targets) {
  check_targets(targets, head.spec().vocabulary);
  RankContext context = engine.context(false, false);
  const Tensor normed = head.final_norm(context, stream);
  // What is sharded is gathered once a call, whatever the number of chunks, on every rank.
  const HeldHead held(context.weights, head);
  const std::vector<ScoredRow> rows = rows_here(document_offsets, engine.batch_place(), targets);
  const auto chunk = static_cast<size_t>(head.chunk_tokens(context.ops));
  std::vector<TokenScore> scores;
  for (size_t begin = 0; begin < rows.size(); begin += chunk) {
    const auto some = std::span(rows).subspan(begin, std::min(chunk, rows.size() - begin));
    const Tensor logits = head.logits(context, pick_rows(context.ops, normed, some));
    const Tensor host = host_tensor(logits.dtype(), logits.shape());
    engine.device().copy_to_host(logits, host);
    score_rows(engine.device().pool(), host, head.spec().softcap, some, scores);
  }
  return scores;
}

}  // namespace viaduct
