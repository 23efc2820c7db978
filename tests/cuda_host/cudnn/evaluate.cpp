// The operations of a graph on the host.

#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "descriptors.h"

namespace cudnn_double {
namespace {

float read(const void* data, cudnnDataType_t type, int64_t index) {
  if (type == CUDNN_DATA_FLOAT) return static_cast<const float*>(data)[index];
  if (type == CUDNN_DATA_HALF) return static_cast<float>(static_cast<const _Float16*>(data)[index]);
  return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(data)[index]} << 16);
}

/// Rounded to nearest even; indices and booleans are whole numbers.
float rounded(float value, cudnnDataType_t type) {
  if (type == CUDNN_DATA_HALF) return static_cast<float>(static_cast<_Float16>(value));
  if (type != CUDNN_DATA_BFLOAT16 || std::isnan(value)) return value;
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}

void write(void* data, cudnnDataType_t type, int64_t index, float value) {
  if (type == CUDNN_DATA_FLOAT) {
    static_cast<float*>(data)[index] = value;
  } else if (type == CUDNN_DATA_HALF) {
    static_cast<_Float16*>(data)[index] = static_cast<_Float16>(value);
  } else {
    static_cast<uint16_t*>(data)[index] =
        static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded(value, type)) >> 16);
  }
}

/// Values in the order of dims.
struct Values {
  Dims dims{};
  std::vector<float> data;
  explicit Values(const Dims& of)
      : dims(of), data(static_cast<size_t>(of[0] * of[1] * of[2] * of[3])) {}
  Values() = default;
  float& at(const Dims& i) {
    return data[static_cast<size_t>(((i[0] * dims[1] + i[1]) * dims[2] + i[2]) * dims[3] + i[3])];
  }
  /// The element for index i of a tensor of `whole`: dims that are smaller here are shared.
  float shared(const Dims& i, const Dims& whole) {
    Dims own;
    for (size_t d = 0; d < 4; ++d) own[d] = i[d] / (whole[d] / dims[d]);
    return at(own);
  }
};

template <class F>
void for_each_index(const Dims& dims, F&& f) {
  Dims i;
  for (i[0] = 0; i[0] < dims[0]; ++i[0])
    for (i[1] = 0; i[1] < dims[1]; ++i[1])
      for (i[2] = 0; i[2] < dims[2]; ++i[2])
        for (i[3] = 0; i[3] < dims[3]; ++i[3]) f(i);
}

int64_t offset(const Dims& i, const Dims& strides) {
  return i[0] * strides[0] + i[1] * strides[1] + i[2] * strides[2] + i[3] * strides[3];
}

class Evaluation {
 public:
  Evaluation(const std::map<int64_t, void*>& addresses, const std::map<int64_t, float>& numbers)
      : addresses_(addresses), numbers_(numbers) {}

  void run(const Operation& op) {
    Values out(op.out.dims);
    switch (op.type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        product(op, out);
        break;
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        reduce(op, out);
        break;
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: {
        Values x = values(op.in[0]);
        for_each_index(out.dims, [&](const Dims& i) {
          out.at(i) = x.at({i[0], i[1], i[3], i[2]});
        });
        break;
      }
      default:
        pointwise(op, out);
    }
    for (float& value : out.data) value = rounded(value, op.out.type);
    if (!op.out.within)
      for_each_index(out.dims, [&](const Dims& i) {
        write(addresses_.at(op.out.id), op.out.type, offset(i, op.out.strides), out.at(i));
      });
    made_[op.out.id] = std::move(out);
  }

 private:
  Values values(const Tensor& tensor) {
    const auto found = made_.find(tensor.id);
    if (found != made_.end()) return found->second;
    Values result(tensor.dims);
    if (tensor.by_value) {
      result.data[0] = numbers_.at(tensor.id);
      return result;
    }
    if (tensor.within) throw std::logic_error("cudnn: a tensor is read that no operation makes");
    for_each_index(result.dims, [&](const Dims& i) {
      result.at(i) = read(addresses_.at(tensor.id), tensor.type, offset(i, tensor.strides));
    });
    return result;
  }

  void product(const Operation& op, Values& out) {
    Values a = values(op.in[0]), b = values(op.in[1]);
    const Dims whole{out.dims[0], out.dims[1], b.dims[2], b.dims[3]};
    for_each_index(out.dims, [&](const Dims& i) {
      double sum = 0;
      for (int64_t k = 0; k < a.dims[3]; ++k)
        sum += double{a.at({i[0], i[1], i[2], k})} * b.shared({i[0], i[1], k, i[3]}, whole);
      out.at(i) = static_cast<float>(sum);
    });
  }

  void reduce(const Operation& op, Values& out) {
    Values x = values(op.in[0]);
    const bool sums = op.mode == CUDNN_REDUCE_TENSOR_ADD;
    if (!sums)
      for (float& value : out.data) value = -std::numeric_limits<float>::infinity();
    for_each_index(x.dims, [&](const Dims& i) {
      Dims to;
      for (size_t d = 0; d < 4; ++d) to[d] = i[d] / (x.dims[d] / out.dims[d]);
      float& sum = out.at(to);
      sum = sums ? sum + x.at(i) : std::fmax(sum, x.at(i));
    });
  }

  void pointwise(const Operation& op, Values& out) {
    Values x = values(op.in[0]), b, keep;
    if (op.in.size() > 1) b = values(op.in[1]);
    if (op.in.size() > 2) keep = values(op.in[2]);
    for_each_index(out.dims, [&](const Dims& i) {
      const float first = x.at(i), second = b.data.empty() ? 0 : b.shared(i, out.dims);
      float& y = out.at(i);
      switch (op.mode) {
        case CUDNN_POINTWISE_ADD:
          y = first + second;
          break;
        case CUDNN_POINTWISE_MUL:
          y = first * second;
          break;
        case CUDNN_POINTWISE_DIV:
          y = first / second;
          break;
        case CUDNN_POINTWISE_SUB:
          y = first - second;
          break;
        case CUDNN_POINTWISE_EXP:
          y = std::exp(first);
          break;
        case CUDNN_POINTWISE_LOG:
          y = std::log(first);
          break;
        case CUDNN_POINTWISE_CMP_GE:
          y = first >= second ? 1 : 0;
          break;
        case CUDNN_POINTWISE_GEN_INDEX:
          y = static_cast<float>(i[static_cast<size_t>(op.axis)]);
          break;
        case CUDNN_POINTWISE_BINARY_SELECT:
          y = keep.at(i) != 0 ? first : second;
          break;
        default:
          throw std::logic_error("cudnn: an operation that the double does not have");
      }
    });
  }

  const std::map<int64_t, void*>& addresses_;
  const std::map<int64_t, float>& numbers_;
  std::map<int64_t, Values> made_;
};

}  // namespace

void evaluate(const std::vector<Operation>& operations, const std::map<int64_t, void*>& addresses,
              const std::map<int64_t, float>& numbers) {
  Evaluation evaluation(addresses, numbers);
  for (const Operation& operation : operations) evaluation.run(operation);
}

}  // namespace cudnn_double
