#pragma once
// A normalization layer over the innermost dim; keeps its input and row statistics in the saved
// store.

#include <memory>

#include "nn/context.h"
#include "nn/saved.h"
#include "ops/norm.h"

namespace viaduct {

struct NormSpec {
  NormKind kind = NormKind::rms_norm;
  double eps = 1e-5;
  double weight_offset = 0;  // 1 where the stored weight is w − 1 (Gemma)
};

class Norm {
 public:
  /// `bias` may be null.
  Norm(NormSpec spec, std::shared_ptr<const Parameter> weight,
       std::shared_ptr<const Parameter> bias);
  /// A norm over `size` features without weights and bias.
  Norm(NormSpec spec, int64_t size);

  /// y = norm(x), x [R, H] or [T, N, H], in the activation or the stream format; y is new,
  /// contiguous and in the activation format.
  /// `forms`: made of y besides (ops/produced_forms.h).
  Tensor forward(RankContext& context, const Tensor& x, SavedStore& saved,
                 const ProducedForms& forms = {}) const;
  /// The same as a replayable unit of its own: y must not be written to.
  Tensor forward_unit(std::string_view unit, RankContext& context, const Tensor& x,
                      SavedStore& saved, const ProducedForms& forms = {}) const;
  /// dx = (dx_add +) the gradient of the kept x; weight and bias gradients accumulate (+=).
  /// `dx_add` may be undefined; dx has the format of x.
  void backward(RankContext& context, const Tensor& dy, const Tensor& dx_add, const Tensor& dx,
                SavedStore& saved) const;

  /// H of [R, H], or D for norms of heads.
  int64_t features() const { return size_; }
  void append_parameters(std::vector<const Parameter*>& list) const;

 private:
  NormSpec spec_;
  int64_t size_ = 0;
  std::shared_ptr<const Parameter> weight_, bias_;  // either may be null
};

}  // namespace viaduct
