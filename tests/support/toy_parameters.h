#pragma once
// Parameters of small artificial layouts, with every kind of part in a storage, and values that
// identify their element, for tests of code that moves parameters.

#include <map>
#include <string>
#include <vector>

#include "checkpoint/logical_values.h"

namespace viaduct::test {

/// The value of an element of a logical tensor: different for nearby tensors and elements, and for
/// `kind` (weight, moment …).
float logical_value(const std::string& name, const Shape& shape, int64_t index, int kind = 0);
/// The whole logical tensor, FP32.
Tensor logical_tensor(const std::string& name, const Shape& shape, int kind = 0);
/// The storage of a parameter, filled by the definition of its parts; padding is 0.
Tensor storage_values(const Parameter& parameter, int kind = 0);

/// Logical tensors by name, in memory.
class MemorySource : public TensorSource {
 public:
  void add(const std::string& name, const Tensor& tensor);
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  const TensorInfo* find(const std::string& name) const override;
  Tensor tensor(const std::string& name) const override;
  std::string where() const override { return "memory"; }

 private:
  std::vector<TensorInfo> infos_;
  std::map<std::string, Tensor> tensors_;
};

/// A place in a toy layout. `tp` is 1, 2 or 4; `pp` 1 or 2; `shards` cut the flat buffer of the
/// rank's parameters. Ranks of one layout: tp · pp · shards.
struct ToyPlace {
  int tp = 1, pp = 1, shards = 1;
  int tp_rank = 0, pp_rank = 0, shard = 0;

  int ranks() const { return tp * pp * shards; }
  /// The place of a rank, tp fastest.
  ToyPlace at(int rank) const;
};

/// The parameters of a place: fused rows, transposed storages (several boxes of one tensor), cut
/// columns, replicas, a padded vocabulary, a tied copy on the last stage.
std::vector<Parameter> toy_parameters(const ToyPlace& place);
/// The logical tensors of the toy model: name and shape.
std::map<std::string, Shape> toy_tensors();
/// The place's shard of the flat buffer of `parameters`: the run of each parameter in it.
std::vector<ParameterRun> toy_runs(const std::vector<Parameter>& parameters, const ToyPlace& place);
/// The runs with the values of storage_values.
std::vector<StoredRun> toy_values(const std::vector<Parameter>& parameters, const ToyPlace& place,
                                  int kind = 0);

}  // namespace viaduct::test
