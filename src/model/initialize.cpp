#include "model/initialize.h"

#include <cmath>

#include "base/hash.h"
#include "nn/adapter_settings.h"
#include "ops/elementwise.h"
#include "sharding/master_values.h"
#include "sharding/run_cursor.h"

namespace viaduct {
namespace {

/// Uniform within ± `bound`: element e of the logical tensor from Philox(key; e), of which the
/// first two words give 52 bits. Made on the host: adapters are small.
void random_uniform(OpContext& context, const RandomNormalArgs& where, double bound) {
  const Tensor values = host_tensor(DType::f64, where.out.shape());
  const uint64_t key = philox_key(where.key);
  const int64_t rows = values.dim(0), columns = values.dim(1);
  for (int64_t r = 0; context.device.executes() && r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const auto element = static_cast<uint64_t>((where.first_row + r) * where.row_elements +
                                                 where.first_column + c);
      const auto bits = philox4x32(key, element, 0);
      const uint64_t high = (uint64_t{bits[0]} << 32 | bits[1]) >> 12;
      const double unit = (static_cast<double>(high) + 0.5) * 0x1p-52;
      values.data<double>()[r * columns + c] = (2 * unit - 1) * bound;
    }
  }
  const Tensor here = context.allocate(DType::f64, values.shape(), MemoryTag::workspace);
  context.device.copy_from_host(values, here);
  copy(context, {here, where.out});
}

/// What a kind of initialization is for a logical matrix [out, in].
Initialization resolved(const Initialization& init, const Shape& logical) {
  const auto out = static_cast<double>(logical[0]);
  const auto in = static_cast<double>(logical[logical.rank() - 1]);
  switch (init.kind) {
    case InitKind::normal:
    case InitKind::constant:
      break;
    case InitKind::kaiming_uniform:
      return {init.kind, 1 / std::sqrt(in)};
    case InitKind::xavier_normal:
      return {InitKind::normal, std::sqrt(2 / (in + out))};
    case InitKind::rank_normal:
      return {InitKind::normal, 1 / out};
  }
  return init;
}

/// The elements [begin, end) of `part`, counted from its first, into the flat tensor `out`.
void initialize_part(OpContext& context, const Parameter& parameter, const Part& part,
                     int64_t row_elements, const Range& range, const Tensor& out, uint64_t seed) {
  const Initialization init = resolved(parameter.init, part.logical_shape);
  // The model's own weights begin as without adapters, also those that train beside them.
  const std::string name = parameter.adapter ? part.name : without_adapter_prefix(part.name);
  int64_t at = 0;
  for (const Rectangle& piece : rectangles(range, row_elements)) {
    RandomNormalArgs args;
    args.out = out.slice(0, at, piece.elements()).view({piece.rows, piece.columns});
    args.standard_deviation = init.standard_deviation;
    args.key = {seed, hash64(name)};
    args.first_row = part.box.begin[0] + (part.transposed ? piece.column : piece.row);
    args.first_column = part.box.begin[1] + (part.transposed ? piece.row : piece.column);
    args.row_elements = part.logical_shape.without_first().elements();
    args.transposed = part.transposed;
    if (init.kind == InitKind::kaiming_uniform) {
      random_uniform(context, args, init.standard_deviation);
    } else {
      random_normal(context, args);
    }
    at += piece.elements();
  }
}

}  // namespace

void initialize_parameters(OpContext& context, ParameterStore& store, uint64_t seed,
                           bool (*wanted)(const Parameter&)) {
  RunCursor cursor(store.offloaded(), BlockCursor::Access::change);
  const auto initialize = [&](const ShardRun& run) {
    const Parameter& parameter = *run.parameter;
    const bool constant = parameter.init.kind == InitKind::constant;
    const Tensor master = master_place(context, run);
    fill(context, {master, constant ? parameter.init.value : 0});  // padding stays 0
    for (const Part& part : parameter.parts) {
      if (constant) break;
      const Range place = part_range(parameter, part);
      const auto here = overlap(run.range, place);
      if (!here) continue;
      initialize_part(context, parameter, part, row_elements(parameter),
                      {here->begin - place.begin, here->end - place.begin},
                      master.slice(0, here->begin - run.range.begin, here->size()), seed);
    }
    store_master(context, run, master);
  };
  for (const ShardRun& run : store.shard_runs())
    if (wanted(*run.parameter)) initialize(cursor.at(run));
  cursor.finish();
  for (const ShardRun& run : store.frozen_runs())
    if (wanted(*run.parameter)) initialize(run);
  store.write_stored(wanted, initialize);
  store.publish_masters(context);
}

}  // namespace viaduct
