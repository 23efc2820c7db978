// Choices for elementwise ops on a GPU: one launch each, for every floating dtype.

#include "ops/cuda/cuda_entry.h"

namespace viaduct::cuda {
namespace {

template <class Args>
Choice choose(const Args& args, const Traits&) {
  return choose_kernel("elementwise", args);
}

Choice choose_dropout(const DropoutArgs& args, const Traits& traits) {
  return choose_kernel("dropout", "philox", args.out.dtype(), args, traits);
}

Choice choose_random_normal(const RandomNormalArgs& args, const Traits&) {
  return choose_kernel("box_muller", args);
}

}  // namespace

void add_elementwise(OpTable& table) {
  add_entry(table.add, choose<AddArgs>);
  add_entry(table.multiply, choose<MultiplyArgs>);
  add_entry(table.copy, choose<CopyArgs>);
  add_entry(table.sum_rows, choose<SumRowsArgs>);
  add_entry(table.scale, choose<ScaleArgs>);
  add_entry(table.fill, choose<FillArgs>);
  add_entry(table.dropout, choose_dropout);
  add_entry(table.random_normal, choose_random_normal);
}

}  // namespace viaduct::cuda
