#pragma once
// Whole matrices from the shards of the distributed optimizer, and back: each matrix of a buffer
// goes to one of the ranks that share its update, its owner, in one exchange for all of them. A
// rank knows what it moves: its runs of all matrices, and all runs of those that it owns.

#include <vector>

#include "comm/communicator.h"
#include "ops/dispatch.h"
#include "sharding/parameter_buffer.h"

namespace viaduct {

class MatrixExchange {
 public:
  /// `wanted(parameter)` says which parameters of the buffer take part. The same on all ranks that
  /// share its buckets.
  MatrixExchange(const ParameterBuffer& buffer, bool (*wanted)(const Parameter&));

  /// The buffer's chunk of the model.
  size_t chunk() const { return chunk_; }
  /// Whether the parameter is one of these.
  bool has(const Parameter& parameter) const;

  /// Elements that this rank's shards hold of the matrices.
  int64_t held_elements() const { return held_elements_; }
  /// The place of a parameter's run in a flat tensor of that many elements.
  Range held_place(const Parameter& parameter) const;

  /// A whole matrix that this rank owns.
  struct Whole {
    const Parameter* parameter = nullptr;
    Tensor values;  // f32, the storage of this rank's parameter
  };
  /// The values of all ranks' runs (f32 [held_elements]), brought together.
  std::vector<Whole> gather(OpContext& context, const Tensor& held) const;
  /// The inverse: into `held`.
  void scatter(OpContext& context, const std::vector<Whole>& whole, const Tensor& held) const;

 private:
  struct Held {
    const Parameter* parameter = nullptr;
    int owner = 0;
    Range place;  // of this rank's run, among the elements that it holds
  };
  /// A run of a matrix that this rank owns.
  struct Piece {
    int rank = 0;       // that holds it
    size_t matrix = 0;  // in owned_
    Range run;          // of the parameter's elements
  };
  /// The runs of a matrix on all ranks that hold any of it.
  static std::vector<Piece> runs_of(const ParameterBuffer& buffer, size_t parameter, size_t matrix);
  /// Numbers of elements to and from each rank.
  std::vector<int64_t> held_rows() const;
  std::vector<int64_t> owned_rows() const;
  /// Copies between the ranks' received elements, one after the other, and whole matrices.
  void copy_pieces(OpContext& context, const std::vector<Whole>& whole, const Tensor& pieces,
                   bool to_whole) const;

  size_t chunk_;
  std::shared_ptr<Communicator> ranks_;  // that share the update
  std::vector<Held> held_;               // by owner
  std::vector<const Parameter*> owned_;
  std::vector<Piece> pieces_;  // of owned_, by rank and matrix
  int64_t held_elements_ = 0, owned_elements_ = 0;
};

}  // namespace viaduct
