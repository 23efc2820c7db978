#pragma once
// How layers access weights and gradients. `sharding` implements these interfaces; layers do not
// depend on where weights are stored (replicated, sharded, gathered on demand).

#include "nn/parameter.h"
#include "ops/dispatch.h"
#include "tensor/operand.h"

namespace viaduct {

/// How a layer uses a weight; derived forms (packed, transposed, quantized) are made per use.
enum class WeightUse { forward, data_gradient, lookup, elementwise };

class WeightAccess {
 public:
  virtual ~WeightAccess() = default;
  /// The weight in the form that the ops' products of `use` read, valid until `release`; as a
  /// tensor for other uses. A stale generation is an error, never a wrong number. `run` > 0:
  /// products read the columns in runs of this length (`GemmRequest::run`).
  virtual Operand acquire(const Parameter& parameter, WeightUse use, int64_t run) = 0;
  virtual void release(const Parameter& parameter, WeightUse use) = 0;
};

/// Holds a weight for a scope.
class AcquiredWeight {
 public:
  AcquiredWeight(WeightAccess& access, const Parameter& parameter, WeightUse use, int64_t run = 0)
      : access_(access),
        parameter_(parameter),
        use_(use),
        weight_(access.acquire(parameter, use, run)) {}
  ~AcquiredWeight() { access_.release(parameter_, use_); }
  AcquiredWeight(const AcquiredWeight&) = delete;
  AcquiredWeight& operator=(const AcquiredWeight&) = delete;
  const Operand& operand() const { return weight_; }
  /// For a use that is not a product. ShapeError if the form is not plain.
  const Tensor& tensor() const { return weight_.tensor(); }

 private:
  WeightAccess& access_;
  const Parameter& parameter_;
  WeightUse use_;
  Operand weight_;
};

class GradientAccess {
 public:
  struct Destination {
    Tensor tensor;
    WriteMode mode = WriteMode::accumulate;
  };
  virtual ~GradientAccess() = default;
  /// Destination of the gradient of `parameter`, and whether the step's first contribution
  /// overwrites it (=) or adds (+=). Parameters whose gradient does not come from backward_weight
  /// always accumulate.
  virtual Destination gradient(const Parameter& parameter) = 0;
  /// The same for a contribution that is one product of operands in the activation format. The
  /// destination may have that format too: products round their FP32 sum, with what the destination
  /// has, once.
  virtual Destination product_gradient(const Parameter& parameter) { return gradient(parameter); }
  /// One contribution is complete; follows each `gradient`.
  virtual void done(const Parameter& parameter) = 0;
};

}  // namespace viaduct
