#include "model/initialize.h"

#include "base/hash.h"
#include "ops/elementwise.h"
#include "sharding/master_values.h"
#include "sharding/run_cursor.h"

namespace viaduct {
namespace {

/// The elements [begin, end) of `part`, counted from its first, into the flat tensor `out`.
void initialize_part(OpContext& context, const Initialization& init, const Part& part,
                     int64_t row_elements, const Range& range, const Tensor& out, uint64_t seed) {
  int64_t at = 0;
  for (const Rectangle& piece : rectangles(range, row_elements)) {
    RandomNormalArgs args;
    args.out = out.slice(0, at, piece.elements()).view({piece.rows, piece.columns});
    args.standard_deviation = init.standard_deviation;
    args.key = {seed, hash64(part.name)};
    args.first_row = part.box.begin[0] + (part.transposed ? piece.column : piece.row);
    args.first_column = part.box.begin[1] + (part.transposed ? piece.row : piece.column);
    args.row_elements = part.logical_shape[1];
    args.transposed = part.transposed;
    random_normal(context, args);
    at += piece.elements();
  }
}

}  // namespace

void initialize_parameters(OpContext& context, ParameterStore& store, uint64_t seed) {
  RunCursor cursor(store.offloaded(), BlockCursor::Access::change);
  for (const ShardRun& place : store.shard_runs()) {
    const ShardRun run = cursor.at(place);
    const Parameter& parameter = *run.parameter;
    const bool constant = parameter.init.kind == InitKind::constant;
    const Tensor master = master_place(context, run);
    fill(context, {master, constant ? parameter.init.value : 0});  // padding stays 0
    for (const Part& part : parameter.parts) {
      if (constant) break;
      const Range place = part_range(parameter, part);
      const auto here = overlap(run.range, place);
      if (!here) continue;
      initialize_part(context, parameter.init, part, row_elements(parameter),
                      {here->begin - place.begin, here->end - place.begin},
                      master.slice(0, here->begin - run.range.begin, here->size()), seed);
    }
    store_master(context, run, master);
  }
  cursor.finish();
  store.publish_masters(context);
}

}  // namespace viaduct
