#include "pipeline/shape_message.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {

Tensor shape_message(const std::vector<EdgeTensor>& edge) {
  std::vector<int64_t> dimensions;
  for (const EdgeTensor& tensor : edge) {
    dimensions.insert(dimensions.end(), tensor.shape.begin(), tensor.shape.end());
  }
  const Tensor message = host_tensor(DType::i64, {static_cast<int64_t>(dimensions.size())});
  std::copy(dimensions.begin(), dimensions.end(), message.data<int64_t>());
  return message;
}

void receive_shapes(const std::vector<EdgeTensor>& edge, Communicator& pp, int peer, Flow flow) {
  // On sim nothing comes, and the shapes stay those that are expected.
  const Tensor message = shape_message(edge);
  pp.receive(message, peer, flow).wait();
  const int64_t* dimension = message.data<int64_t>();
  for (const EdgeTensor& tensor : edge) {
    const Shape sent(dimension, tensor.shape.rank());
    dimension += tensor.shape.rank();
    VIADUCT_CHECK(CommError, sent == tensor.shape,
                  "pipeline: stage {} sends {} {}, and by the batch that stage {} read it has {}",
                  peer, tensor.name, to_string(sent), pp.rank(), to_string(tensor.shape));
  }
}

}  // namespace viaduct
