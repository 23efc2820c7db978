#pragma once
// Whole matrices from the shards of the distributed optimizer, and back: each matrix of a chunk
// goes to one of the data-parallel ranks, in one exchange for all of them.

#include <vector>

#include "comm/communicator.h"
#include "ops/dispatch.h"
#include "sharding/parameter_buffer.h"

namespace viaduct {

class MatrixExchange {
 public:
  /// `wanted(parameter)` says which parameters of the chunk's buffer take part; `shards` are the
  /// ranks that share its buckets. The same on all of them.
  MatrixExchange(const ParameterBuffer& buffer, bool (*wanted)(const Parameter&),
                 std::shared_ptr<Communicator> shards);

  /// Elements that this rank's shards hold of the matrices.
  int64_t held_elements() const { return sum(held_rows_); }
  /// Where in a flat tensor of so many elements a parameter's run has its place.
  Range held_place(const Parameter& parameter) const;

  /// A matrix that this rank gets whole.
  struct Whole {
    const Parameter* parameter = nullptr;
    Tensor values;  // f32, the storage of this rank's parameter
  };
  /// The values of all ranks' runs (f32 [held_elements]), brought together.
  std::vector<Whole> gather(OpContext& context, const Tensor& held) const;
  /// The other way round: into `held`.
  void scatter(OpContext& context, const std::vector<Whole>& whole, const Tensor& held) const;

 private:
  struct Matrix {
    const Parameter* parameter = nullptr;
    int owner = 0;
    std::vector<Range> runs;  // of the parameter's elements, by rank; empty ones too
  };
  static int64_t sum(const std::vector<int64_t>& rows);
  /// Copies between what came from the ranks, one after the other, and whole matrices.
  void copy_pieces(OpContext& context, const std::vector<Whole>& whole, const Tensor& pieces,
                   bool to_whole) const;

  std::shared_ptr<Communicator> shards_;
  std::vector<Matrix> matrices_;  // by owner
  std::vector<int64_t> held_rows_, owned_rows_;
};

}  // namespace viaduct
