#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/muon.h"
#include "ops/optimizer_state.h"
#include "optim/newton_schulz.h"
#include "sharding/master_values.h"

namespace viaduct {
namespace {

bool stays(const Parameter& parameter) {
  return !Muon::moves(parameter);
}

/// Rows and columns of a logical matrix as storages have them: [out, in].
std::pair<int64_t, int64_t> stored_sizes(const Part& part, const Shape& shape) {
  return part.transposed ? std::pair(shape[1], shape[0]) : std::pair(shape[0], shape[1]);
}

/// FP32 values of a run's state or gradient: itself, or a temporary copy.
Tensor expanded(OpContext& context, const StateValues& state) {
  if (state.values.dtype() == DType::f32) return state.values;
  const Tensor wide = context.allocate(DType::f32, {state.values.elements()}, MemoryTag::workspace);
  expand_state(context, {state.values, state.scales, state.weights, wide});
  return wide;
}

/// Back to the format of the state.
void put_back(OpContext& context, const Tensor& wide, const StateValues& state) {
  if (state.coded()) {
    store_state(context, {wide, state.values, state.scales, state.weights});
  } else if (wide.storage() != state.values.storage()) {
    copy(context, {wide, state.values});
  }
}

}  // namespace

double muon_scale(const MuonSettings& settings, int64_t out, int64_t in) {
  const auto rows = static_cast<double>(out), columns = static_cast<double>(in);
  double factor = 0;
  switch (settings.scale_mode) {
    case MuonScale::spectral:
      factor = std::sqrt(std::max(rows, columns));
      break;
    case MuonScale::unit_rms_norm:
      factor = std::sqrt(rows / columns);
      break;
    case MuonScale::shape_scaling:
      factor = std::sqrt(std::max(1.0, rows / columns));
      break;
  }
  return factor * settings.extra_scale;
}

bool Muon::moves(const Parameter& parameter) {
  const bool matrix = parameter.multiplied || (parameter.adapter && !parameter.experts.any());
  return parameter.trained && parameter.shape.rank() == 2 && matrix && !parameter.vocabulary;
}

Muon::Muon(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
           AdamWSettings adamw, MuonSettings settings, const ParallelGroups& groups)
    : AdamW(context, recipe, store, adamw, stays),
      muon_(std::move(settings)),
      weight_decay_(adamw.weight_decay),
      tensor_ranks_(groups.of(GroupKind::tp)),
      momentum_(
          add_state(context, "optimizer.momentum_buffer/", recipe.first_moment, Muon::moves)) {
  for (const ParameterBuffer& buffer : store.buffers())
    exchanges_.emplace_back(buffer, Muon::moves);
}

void Muon::update_chunk(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk) {
  const auto of_adamw = [&](size_t i) {
    return stays(*run(i).parameter) ? RunUse{true, true, true} : RunUse();
  };
  walk(chunk, of_adamw, [&](const ChunkRuns& runs) { update_runs(context, scalars, runs); });
  for (const MatrixExchange& exchange : exchanges_)
    if (exchange.chunk() == chunk.chunk) update_matrices(context, scalars, chunk, exchange);
}

void Muon::update_matrices(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk,
                           const MatrixExchange& exchange) {
  const Tensor held =
      context.allocate(DType::f32, {exchange.held_elements()}, MemoryTag::workspace);
  const auto for_matrices = [&](const RunUse& uses, auto&& f) {
    const auto use = [&](size_t i) { return exchange.has(*run(i).parameter) ? uses : RunUse(); };
    walk(chunk, use, [&](const ChunkRuns& runs) {
      for (size_t i = runs.begin; i < runs.end; ++i) {
        if (!exchange.has(*run(i).parameter)) continue;
        const Range place = exchange.held_place(*run(i).parameter);
        f(i, held.slice(0, place.begin, place.size()));
      }
    });
  };
  for_matrices({.states = true, .gradient = true}, [&](size_t i, const Tensor& update) {
    const StateValues& state = states()[momentum_].runs[i];
    const StateValues stored{here(state.values), state.scales ? here(state.scales) : Tensor(), {}};
    const Tensor momentum = expanded(context, stored);
    muon_momentum(context, {expanded(context, here(run(i).gradient)), momentum, update, scalars,
                            muon_.momentum, muon_.nesterov});
    put_back(context, momentum, stored);
  });
  const auto whole = exchange.gather(context, held);
  for (const MatrixExchange::Whole& matrix : whole)
    orthogonalize(context, *matrix.parameter, matrix.values);
  exchange.scatter(context, whole, held);
  for_matrices({.master = true}, [&](size_t i, const Tensor& update) {
    ShardRun run = this->run(i);
    run.master = here(run.master), run.weight = here(run.weight);
    if (run.master_scales) run.master_scales = here(run.master_scales);
    const bool coded = run.master_state().coded();
    const Tensor master = master_values(context, run);
    muon_update(context, {master, update, coded ? Tensor() : written_weight(i), scalars,
                          run.parameter->decay ? weight_decay_ : 0});
    store_master(context, run, master);
    // The weight of a scaled master is rounded from its stored form.
    if (run.master_scales && !run.store_writes_weight)
      copy(context, {master_values(context, run), run.weight});
  });
}

void Muon::orthogonalize(OpContext& context, const Parameter& parameter,
                         const Tensor& storage) const {
  // The parts of one logical tensor follow each other.
  for (size_t begin = 0, end = 0; begin < parameter.parts.size(); begin = end) {
    std::vector<Box> boxes;
    for (; end < parameter.parts.size(); ++end) {
      const Part& part = parameter.parts[end];
      if (part.name != parameter.parts[begin].name) break;
      boxes.push_back({part, storage.slice(0, part.storage_row, part.rows())});
    }
    orthogonalize_matrix(context, parameter.parts[begin], boxes);
  }
}

void Muon::orthogonalize_matrix(OpContext& context, const Part& of,
                                const std::vector<Box>& boxes) const {
  const auto [rows, columns] = stored_sizes(of, of.logical_shape);
  const auto update = [&, rows = rows, columns = columns](const Tensor& x) {
    newton_schulz(context, x, muon_.steps);
    scale(context, {x, x, muon_scale(muon_, rows, columns)});
  };
  const Tensor& first = boxes.front().values;
  if (boxes.size() == 1 && first.dim(0) == rows && first.dim(1) == columns) return update(first);

  // Tensor ranks hold equal boxes, cut along one dim, `copies` ranks in a row the same ones.
  const int dim = first.dim(1) == columns ? 0 : 1;
  const int64_t tp = tensor_ranks_->size(), size = dim == 0 ? rows : columns;
  int64_t here = 0;
  for (const Box& box : boxes) here += box.values.dim(dim);
  const int64_t cuts = size / here, copies = tp / std::max<int64_t>(1, cuts);
  bool even = cuts * here == size && cuts * copies == tp;
  const int64_t mine = even ? tensor_ranks_->rank() / copies : 0;
  // Each rank's boxes fill a run of the matrix (heads with their keys and values), or each box is
  // next to the same one of the next rank (all queries, all keys, all values).
  const auto begin_of = [&](const Box& box) {
    const auto begins = stored_sizes(box.part, box.part.box.begin);
    return dim == 0 ? begins.first : begins.second;
  };
  const bool fills_run = std::ranges::all_of(boxes, [&](const Box& box) {
    const int64_t in_run = begin_of(box) - mine * here;
    return in_run >= 0 && in_run + box.values.dim(dim) <= here;
  });
  const Tensor whole = context.allocate(DType::f32, {rows, columns}, MemoryTag::workspace);
  std::vector<Tensor> own;  // of `whole`, this rank's boxes
  for (const Box& box : boxes) {
    const int64_t length = box.values.dim(dim);
    const int64_t begin = begin_of(box), stride = fills_run ? here : length;
    const int64_t base = begin - mine * stride;  // of the first rank's box
    even = even && box.values.dim(1 - dim) == (dim == 0 ? columns : rows) && base >= 0 &&
           base + (cuts - 1) * stride + length <= size;
    VIADUCT_CHECK(ShapeError, even,
                  "muon: {} {} is not cut into equal boxes of rows or columns over {} tensor ranks",
                  of.name, to_string(of.logical_shape), tp);
    const Tensor all = context.allocate(DType::f32, {tp, box.values.dim(0), box.values.dim(1)},
                                        MemoryTag::workspace);
    tensor_ranks_->all_gather(box.values.view({1, box.values.dim(0), box.values.dim(1)}), all)
        .wait();
    for (int64_t cut = 0; cut < cuts; ++cut)
      copy(context, {all.select(cut * copies), whole.slice(dim, base + cut * stride, length)});
    own.push_back(whole.slice(dim, begin, length));
  }
  update(whole);
  for (size_t i = 0; i < boxes.size(); ++i) copy(context, {own[i], boxes[i].values});
}

}  // namespace viaduct
