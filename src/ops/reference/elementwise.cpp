#include "ops/elementwise.h"

#include "ops/reference/reference.h"

namespace viaduct::reference {
namespace {

/// The elements of a tensor of any strides, by their index in row-major order.
class Elements {
 public:
  explicit Elements(const Tensor& tensor)
      : tensor_(tensor), data_(tensor.defined() ? tensor.data<double>() : nullptr) {}
  double& operator[](int64_t index) const {
    int64_t offset = 0;
    for (int d = tensor_.rank() - 1; d >= 0; --d) {
      offset += index % tensor_.dim(d) * tensor_.stride(d);
      index /= tensor_.dim(d);
    }
    return data_[offset];
  }

 private:
  const Tensor& tensor_;
  double* data_;
};

}  // namespace

void add(const AddArgs& args) {
  const Elements a(args.a), b(args.b), out(args.out);
  for (int64_t i = 0; i < args.out.elements(); ++i) out[i] = a[i] + b[i];
}

void multiply(const MultiplyArgs& args) {
  const Elements a(args.a), b(args.b), out(args.out);
  const int64_t heads = args.out.dim(1), width = args.out.dim(2);
  for (int64_t i = 0; i < args.out.elements(); ++i)
    out[i] = a[i] * b[i / (heads * width) * width + i % width];
}

void scale(const ScaleArgs& args) {
  const Elements x(args.x), out(args.out);
  for (int64_t i = 0; i < args.out.elements(); ++i) out[i] = args.factor * x[i];
}

void dropout(const DropoutArgs& args) {
  const Elements x(args.x), residual(args.residual), out(args.out);
  const uint64_t key = philox_key(args.key);
  const int64_t width = args.out.dim(1);
  for (int64_t t = 0; t < args.out.dim(0); ++t) {
    for (int64_t h = 0; h < width; ++h) {
      double factor = 1;
      if (args.probability > 0) {
        const auto token = static_cast<uint64_t>(args.token_index.data<int64_t>()[t]);
        const auto feature = static_cast<uint64_t>(args.first_feature + h);
        const uint32_t word = philox4x32(key, token, feature / 4)[feature % 4];
        factor = uniform_open(word) >= args.probability ? 1 / (1 - args.probability) : 0;
      }
      const int64_t i = t * width + h;
      out[i] = (args.residual ? residual[i] : 0) + factor * x[i];
    }
  }
}

}  // namespace viaduct::reference
