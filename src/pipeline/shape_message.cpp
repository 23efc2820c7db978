#include "pipeline/shape_message.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"

namespace viaduct {
namespace {

void check_shapes(const Edge& expected, const Tensor& message, int peer, int stage) {
  const int64_t* dimension = message.data<int64_t>();
  for (const EdgeTensor& tensor : expected) {
    const Shape sent(dimension, tensor.shape.rank());
    dimension += tensor.shape.rank();
    VIADUCT_CHECK(
        CommError, sent == tensor.shape,
        "pipeline: stage {} sends {} {}, but according to the batch that stage {} read it has {}",
        peer, tensor.name, to_string(sent), stage, to_string(tensor.shape));
  }
}

}  // namespace

Tensor shape_message(const Edge& tensors) {
  std::vector<int64_t> dimensions;
  for (const EdgeTensor& tensor : tensors)
    dimensions.insert(dimensions.end(), tensor.shape.begin(), tensor.shape.end());
  const Tensor message = host_tensor(DType::i64, {static_cast<int64_t>(dimensions.size())});
  std::copy(dimensions.begin(), dimensions.end(), message.data<int64_t>());
  return message;
}

void receive_shapes(const Edge& tensors, Communicator& pp, int peer, Flow flow) {
  // On sim nothing is received, and the expected shapes are kept.
  const Tensor message = shape_message(tensors);
  pp.receive(message, peer, flow).wait_host();
  check_shapes(tensors, message, peer, pp.rank());
}

void exchange_shapes(const ActionList& actions, StageProgram& program, Communicator& pp) {
  struct Channel {
    Edge tensors;
    Tensor message;
    CommHandle handle;
  };
  std::map<std::tuple<bool, Flow, int>, Channel> channels;  // outgoing, flow, peer
  for (const Action& action : actions) {
    if (action.kind != ActionKind::post_send && action.kind != ActionKind::post_receive) continue;
    const Message& m = action.message;
    auto& tensors = channels[{m.outgoing, m.flow, m.peer}].tensors;
    for (EdgeTensor& tensor : program.edge(action)) tensors.push_back(std::move(tensor));
  }
  for (auto& [key, channel] : channels) {
    const auto& [outgoing, flow, peer] = key;
    channel.message = shape_message(channel.tensors);
    channel.handle =
        outgoing ? pp.send(channel.message, peer, flow) : pp.receive(channel.message, peer, flow);
  }
  for (auto& [key, channel] : channels) {
    const auto& [outgoing, flow, peer] = key;
    channel.handle.wait_host();
    if (!outgoing) check_shapes(channel.tensors, channel.message, peer, pp.rank());
  }
}

}  // namespace viaduct
