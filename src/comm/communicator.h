#pragma once
// `Communicator`: collectives over a group of ranks. The group of one rank (the self communicator)
// is the only backend so far; layers call collectives without asking for the size, so that a layer
// of degree 1 is the same layer.

#include <memory>

#include "tensor/tensor.h"

namespace viaduct {

enum class ReduceOp { sum, max };

class Communicator {
 public:
  virtual ~Communicator();
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// In place over all ranks of the group.
  virtual void all_reduce(const Tensor& tensor, ReduceOp op) = 0;
  /// `out` = the ranks' `in` one after the other along dim 0; `out` may be the same storage as `in`
  /// in a group of one.
  virtual void all_gather(const Tensor& in, const Tensor& out) = 0;
  /// `out` = this rank's run along dim 0 of the sum of the ranks' `in`.
  virtual void reduce_scatter(const Tensor& in, const Tensor& out) = 0;
};

/// The group of one rank: nothing moves.
std::unique_ptr<Communicator> make_self_communicator();

}  // namespace viaduct
