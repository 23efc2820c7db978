#include "train/host_values.h"

#include <algorithm>

namespace viaduct {

double all_reduce_value(Communicator& group, double value, ReduceOp op) {
  const Tensor tensor = host_tensor(DType::f64, {1});
  *tensor.data<double>() = value;
  group.all_reduce(tensor, op).wait_host();
  return *tensor.data<double>();
}

std::vector<std::vector<double>> all_gather_values(Communicator& group,
                                                   const std::vector<double>& values) {
  const auto count = static_cast<int64_t>(values.size());
  const Tensor mine = host_tensor(DType::f64, {1, count}),
               all = host_tensor(DType::f64, {group.size(), count});
  std::copy(values.begin(), values.end(), mine.data<double>());
  group.all_gather(mine, all).wait_host();
  std::vector<std::vector<double>> result;
  for (int rank = 0; rank < group.size(); ++rank) {
    const double* row = all.data<double>() + rank * count;
    result.emplace_back(row, row + count);
  }
  return result;
}

}  // namespace viaduct
