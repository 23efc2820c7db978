#pragma once
// Attention of one layer, on one rank and on context ranks that are threads.

#include <random>
#include <vector>

#include "base/error.h"
#include "comm/world.h"
#include "engine/cut_batch.h"
#include "nn/core_attention.h"
#include "support/instruction_set.h"
#include "support/no_weights.h"
#include "support/op_testing.h"
#include "tensor/number_formats.h"

namespace viaduct::test {

struct ContextCase {
  ContextExchange exchange = ContextExchange::p2p;
  int cp = 2, inner = 1;
  std::vector<int> lengths;  // of the documents
  int64_t heads = 4, kv_heads = 2, width = 8, first_head = 0;
  int64_t window = 0;
  double softcap = 0, dropout = 0;
  bool flash = true;
  bool fp8 = false, fp8_output = false;  // products of attention, and its output
};

/// The projection behind attention in FP8.
inline std::shared_ptr<const Parameter> quantized_projection() {
  Parameter projection;
  projection.path = "layer.projection.weight";
  projection.quantized = projection.projects_attention = true;
  return std::make_shared<const Parameter>(projection);
}

/// The numbers of an operand with one scale, or the tensor itself.
inline Tensor numbers_of(const Operand& operand) {
  if (operand.form().plain()) return operand.tensor();
  const Tensor numbers = host_tensor(DType::f32, operand.shape());
  const auto* codes = static_cast<const float8_e4m3*>(operand.values().raw());
  for (int64_t i = 0; i < numbers.elements(); ++i)
    numbers.data<float>()[i] = static_cast<float>(codes[i]) * operand.scales().data<float>()[0];
  return numbers;
}

/// Of the whole micro-batch in document order.
struct AttentionTensors {
  Tensor out, dq, dk, dv;
};

/// The results of a rank.
struct RankTrace {
  StepRecord record;
  int64_t saved_bytes = 0;
  size_t saved_entries = 0;
};

/// Tokens with indices different from their places, as in the middle of a run.
inline HostBatch whole_batch(const ContextCase& c) {
  HostBatch batch;
  for (const int length : c.lengths) {
    for (int i = 0; i < length; ++i) {
      batch.ids.push_back(1);
      batch.positions.push_back(i);
      batch.targets.push_back(1);
      batch.loss_weight.push_back(1);
      batch.token_index.push_back((int64_t{1} << 33) + 3 * batch.tokens());
    }
    batch.end_document();
  }
  return batch;
}

/// Rows `sources` of x in a strided tensor, like a slice of QKV; rows of −1 hold `padding`.
inline Tensor rows_of(const Tensor& x, const std::vector<int64_t>& sources, DType dtype,
                      double padding) {
  const auto rows = static_cast<int64_t>(sources.size());
  const int64_t width = x.elements() / x.dim(0);
  const Tensor out = strided_zeros(dtype, {rows, x.dim(1), x.dim(2)}, 3);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t source = sources[static_cast<size_t>(r)];
    for (int64_t i = 0; i < width; ++i)
      set_element(out, r * width + i, source < 0 ? padding : element(x, source * width + i));
  }
  return out;
}

/// Puts the rows of a rank back to their places.
inline void put_back(const Tensor& rows, const std::vector<int64_t>& sources, const Tensor& whole) {
  const int64_t width = whole.elements() / whole.dim(0);
  for (size_t r = 0; r < sources.size(); ++r) {
    for (int64_t i = 0; i < width && sources[r] >= 0; ++i)
      set_element(whole, sources[r] * width + i,
                  element(rows, static_cast<int64_t>(r) * width + i));
  }
}

/// One rank's forward and backward of a layer for each of `exchanges`, written to its rows of
/// `results`.
inline void attend_as_rank(const ContextCase& c, const char* precision,
                           const ParallelGroups& groups,
                           const std::vector<ContextExchange>& exchanges, Device& device,
                           std::vector<AttentionTensors>& results, RankTrace& trace) {
  LayerSettings settings{.precision = precision_recipe(precision), .seed = 5};
  if (c.fp8)
    settings.precision.products = {Scaling::tensor, DType::e4m3, DType::e5m2, true, true,
                                   c.fp8_output};
  const OpTable ops = cpu_ops(test::instruction_set());
  const HostBatch whole = whole_batch(c);
  const BatchPlace place = batch_place(groups, false);
  const auto sources = cut_sources(whole.document_offsets, place, true);
  const Batch batch = upload(device, cut_batch(whole, place, true), 2, 1000, place);
  NoWeights weights;
  RankContext context{.ops = {device, ops},
                      .weights = weights,
                      .groups = groups,
                      .settings = settings,
                      .training = c.dropout > 0};
  const int64_t tokens = whole.tokens();
  const auto random = [&](int64_t heads, uint64_t seed) {
    return random_tensor(DType::f64, {tokens, heads, c.width}, seed);
  };
  const Tensor q = random(c.heads, 1), k = random(c.kv_heads, 2), v = random(c.kv_heads, 3),
               d_out = random(c.heads, 4);
  // Values of padding are hidden; only its gradient is zero, as after a loss without it.
  const auto cut = [&](const Tensor& x, double padding) {
    return rows_of(x, sources, settings.precision.activation, padding);
  };
  device.set_record(&trace.record);
  for (size_t layer = 0; layer < exchanges.size(); ++layer) {
    AttentionSpec spec;
    spec.heads = c.heads, spec.kv_heads = c.kv_heads, spec.head_dim = c.width;
    spec.first_head = c.first_head;
    spec.scale = 1 / std::sqrt(static_cast<double>(c.width));
    spec.softcap = c.softcap, spec.window = c.window, spec.dropout = c.dropout;
    spec.context_exchange = exchanges[layer];
    spec.method.flash = c.flash;
    const CoreAttention attention(spec, "layer", nullptr, quantized_projection());
    SavedStore saved;
    const AttentionHeads heads =
        attention.prepare(context, {cut(q, 7), cut(k, 7), cut(v, 7)}, saved);
    const Tensor rows = numbers_of(attention.forward(context, batch, heads, saved));
    const Tensor out = rows.view({rows.dim(0), spec.heads, rows.dim(1) / spec.heads});
    trace.saved_entries = saved.entries();
    for (const auto& [unit, bytes] : saved.bytes_by_unit()) trace.saved_bytes += bytes;
    const AttendedGradient d_heads = attention.begin_backward(context, cut(d_out, 0), saved);
    const AttentionHeads d = attention.backward(context, batch, d_heads, saved);
    EXPECT_EQ(saved.entries(), 0u);
    put_back(out, sources, results[layer].out);
    put_back(d.q, sources, results[layer].dq);
    put_back(d.k, sources, results[layer].dk);
    put_back(d.v, sources, results[layer].dv);
  }
  device.set_record(nullptr);
}

inline std::vector<AttentionTensors> empty_results(const ContextCase& c, size_t layers) {
  int64_t tokens = 0;
  for (const int length : c.lengths) tokens += length;
  std::vector<AttentionTensors> results(layers);
  for (AttentionTensors& r : results) {
    r.out = host_tensor(DType::f64, {tokens, c.heads, c.width});
    r.dq = host_tensor(DType::f64, r.out.shape());
    r.dk = host_tensor(DType::f64, {tokens, c.kv_heads, c.width});
    r.dv = host_tensor(DType::f64, r.dk.shape());
  }
  return results;
}

/// One rank with whole documents.
inline AttentionTensors attend(const ContextCase& c, const char* precision) {
  const auto device = make_cpu_device(1);
  auto results = empty_results(c, 1);
  RankTrace trace;
  attend_as_rank(c, precision, self_groups(), {c.exchange}, *device, results, trace);
  return results.front();
}

struct RanksResult {
  std::vector<AttentionTensors> layers;
  std::vector<RankTrace> traces;  // by rank
};

/// c.cp ranks with their cuts, put together again; one layer for each of `exchanges`.
inline RanksResult attend_over_ranks(const ContextCase& c, const char* precision,
                                     const std::vector<ContextExchange>& exchanges) {
  RanksResult result{empty_results(c, exchanges.size()),
                     std::vector<RankTrace>(static_cast<size_t>(c.cp))};
  run_thread_ranks(c.cp, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    const auto device = make_cpu_device(1);
    world->record_on(device.get());
    GroupSizes sizes;
    sizes.hierarchical_context_parallel = {c.inner, c.cp / c.inner};
    const ParallelGroups groups(Mesh({1, c.cp, 1, 1, 1}).with(sizes), world);
    attend_as_rank(c, precision, groups, exchanges, *device, result.layers,
                   result.traces[static_cast<size_t>(world->rank())]);
  });
  return result;
}

}  // namespace viaduct::test
