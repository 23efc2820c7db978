#include "nn/norm.h"

#include <optional>

#include "ops/checks.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// The weight that the op reads; of a norm without one, ones.
class HeldWeight {
 public:
  HeldWeight(RankContext& context, const Parameter* weight, int64_t size) {
    if (weight != nullptr) {
      held_.emplace(context.weights, *weight, WeightUse::elementwise);
      return;
    }
    ones_ = context.activation({size}, MemoryTag::workspace);
    fill(context.ops, {ones_, 1});
  }
  const Tensor& tensor() const { return held_ ? held_->tensor() : ones_; }

 private:
  std::optional<AcquiredWeight> held_;
  Tensor ones_;
};

}  // namespace

Norm::Norm(NormSpec spec, std::shared_ptr<const Parameter> weight,
           std::shared_ptr<const Parameter> bias)
    : spec_(spec), size_(weight->shape[0]), weight_(std::move(weight)), bias_(std::move(bias)) {}

Norm::Norm(NormSpec spec, int64_t size) : spec_(spec), size_(size) {}

Tensor Norm::forward(RankContext& context, const Tensor& x, SavedStore& saved,
                     const ProducedForms& forms) const {
  const HeldWeight weight(context, weight_.get(), size_);
  const int64_t rows = x.elements() / x.dim(-1);
  NormForwardArgs args;
  args.kind = spec_.kind;
  args.x = x;
  args.weight = weight.tensor();
  args.y = context.activation(x.shape(), saved.tag());
  args.eps = spec_.eps;
  args.weight_offset = spec_.weight_offset;
  args.forms = forms;
  if (saved.keeps()) {
    args.rstd = context.statistic({rows});  // [R], as mean
    if (spec_.kind == NormKind::layer_norm) args.mean = context.statistic({rows});
  }
  if (bias_) {
    const AcquiredWeight bias(context.weights, *bias_, WeightUse::elementwise);
    args.bias = bias.tensor();
    norm_forward(context.ops, args);
  } else {
    norm_forward(context.ops, args);
  }
  saved.keep(this, "x", x);
  if (args.rstd) saved.keep_statistic(this, "rstd", args.rstd);
  if (args.mean) saved.keep_statistic(this, "mean", args.mean);
  return args.y;
}

Tensor Norm::forward_unit(std::string_view unit, RankContext& context, const Tensor& x,
                          SavedStore& saved, const ProducedForms& forms) const {
  const auto again = [](const Norm& self, RankContext& rank, const Batch&, SavedStore& store,
                        const std::vector<Tensor>& inputs) {
    return std::vector{self.forward(rank, inputs[0], store)};
  };
  ReplayableUnit scope(saved, unit, {x}, {*this, again});
  const Tensor y = forward(context, x, saved, forms);
  scope.made({y});
  return y;
}

void Norm::backward(RankContext& context, const Tensor& dy, const Tensor& dx_add, const Tensor& dx,
                    SavedStore& saved) const {
  const HeldWeight weight(context, weight_.get(), size_);
  NormBackwardArgs args;
  args.kind = spec_.kind;
  args.dy = dy;
  args.x = saved.take(this, "x");
  args.weight = weight.tensor();
  args.rstd = saved.take(this, "rstd");
  if (spec_.kind == NormKind::layer_norm) args.mean = saved.take(this, "mean");
  args.dx_add = dx_add;
  args.dx = dx;
  args.weight_offset = spec_.weight_offset;
  if (weight_ == nullptr || !weight_->trained) {
    // The op always sums it; nothing reads these sums.
    args.d_weight = context.ops.allocate(accumulator_dtype(weight.tensor().dtype()), {size_},
                                         MemoryTag::workspace);
    fill(context.ops, {args.d_weight, 0});
    return norm_backward(context.ops, args);
  }
  args.d_weight = context.gradients->gradient(*weight_).tensor;         // [H], +=
  if (bias_) args.d_bias = context.gradients->gradient(*bias_).tensor;  // [H], +=
  norm_backward(context.ops, args);
  context.gradients->done(*weight_);
  if (bias_) context.gradients->done(*bias_);
}

void Norm::append_parameters(std::vector<const Parameter*>& list) const {
  if (weight_) list.push_back(weight_.get());
  if (bias_) list.push_back(bias_.get());
}

}  // namespace viaduct
