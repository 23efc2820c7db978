#pragma once
// A source in which some tensors are others of another source, one after the other in memory: the
// opposite of a list of slices (expert_slices.h).

#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/tensor_source.h"

namespace viaduct {

/// The derived class lists the tensors.
class JoinedTensors : public TensorSource {
 public:
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  Tensor tensor(const std::string& name) const override;
  void check_read() const override { split_.check_read(); }
  std::string where() const override { return split_.where(); }
  const TensorInfo* find(const std::string& name) const override;

 protected:
  struct Joined {
    size_t info = 0;                 // in infos_
    std::vector<std::string> parts;  // names in `split`; empty: the tensor itself
  };

  /// `split` outlives this object.
  explicit JoinedTensors(const TensorSource& split) : split_(split) {}

  const TensorSource& split_;
  std::vector<TensorInfo> infos_;
  std::unordered_map<std::string, Joined> joined_;
};

}  // namespace viaduct
