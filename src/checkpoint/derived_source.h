#pragma once
// A source whose tensors are made from those of another source that it owns.

#include <memory>
#include <utility>

#include "checkpoint/tensor_source.h"

namespace viaduct {

/// The derived class lists its tensors in `infos_` and makes them from `stored_`.
class DerivedSource : public TensorSource {
 public:
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  void check_read() const override { stored_->check_read(); }
  std::string where() const override { return stored_->where(); }

 protected:
  explicit DerivedSource(std::unique_ptr<TensorSource> stored) : stored_(std::move(stored)) {}

  std::unique_ptr<TensorSource> stored_;
  std::vector<TensorInfo> infos_;
};

}  // namespace viaduct
