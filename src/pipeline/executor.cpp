#include "pipeline/executor.h"

#include <map>
#include <tuple>

#include "base/error.h"
#include "pipeline/shape_message.h"

namespace viaduct {
namespace {

class Executor {
 public:
  Executor(StageProgram& program, Communicator& pp, const ExecutorSettings& settings)
      : program_(program), pp_(pp), settings_(settings) {}

  void run(const Action& action) {
    work(action);
    if (action.reduces >= 0) program_.reduce_chunk(action.reduces);
  }

 private:
  void work(const Action& action) {
    if (action.begins >= 0) program_.begin_chunk(action.begins);
    if (action.last_gradient) program_.last_gradient(action.chunk);
    const Edge in_activations{action.micro_batch, action.chunk, Flow::activations};
    const Edge in_gradients{action.micro_batch, action.chunk, Flow::gradients};
    switch (action.kind) {
      case ActionKind::forward:
        made(in_activations,
             program_.forward(action.micro_batch, action.chunk, take(received_, in_activations)));
        return;
      case ActionKind::backward:
        outputs_.erase(in_activations);
        made(in_gradients,
             program_.backward(action.micro_batch, action.chunk, take(received_, in_gradients)));
        return;
      case ActionKind::backward_input:
        outputs_.erase(in_activations);
        made(in_gradients, program_.backward_input(action.micro_batch, action.chunk,
                                                   take(received_, in_gradients)));
        return;
      case ActionKind::backward_weight:
        program_.backward_weight(action.micro_batch, action.chunk);
        return;
      case ActionKind::backward_but_head:
        outputs_.erase(in_activations);
        made(in_gradients, program_.backward_but_head(action.micro_batch, action.chunk,
                                                      take(received_, in_gradients)));
        return;
      case ActionKind::head_weight:
        program_.head_weight(action.micro_batch, action.chunk);
        return;
      case ActionKind::post_send:
        post_send(action);
        return;
      case ActionKind::post_receive:
        post_receive(action);
        return;
      case ActionKind::wait:
        wait(action);
        return;
    }
  }

  /// What is received for a chunk, or made by it.
  using Edge = std::tuple<int64_t, int, Flow>;  // micro-batch, chunk, flow
  using Sets = std::map<Edge, TensorSet>;
  using Key = std::tuple<bool, Flow, int, int64_t>;  // outgoing, flow, peer, number

  struct UnderWay {
    TensorSet tensors;
    std::vector<CommHandle> handles;
  };

  static Edge edge_of(const Action& action) {
    return {action.micro_batch, action.chunk, action.message.flow};
  }
  static Key key_of(const Message& m) { return {m.outgoing, m.flow, m.peer, m.sequence}; }

  static TensorSet take(Sets& sets, const Edge& edge) {
    const auto found = sets.find(edge);
    if (found == sets.end()) return {};
    TensorSet set = std::move(found->second);
    sets.erase(found);
    return set;
  }
  void made(const Edge& edge, TensorSet set) {
    if (!set.empty()) made_[edge] = std::move(set);
  }

  void post_send(const Action& action) {
    const Message& m = action.message;
    const auto found = made_.find(edge_of(action));
    VIADUCT_CHECK(CommError, found != made_.end(), "pipeline: stage {}: {}: nothing was made",
                  pp_.rank(), describe(action));
    UnderWay& message = under_way_[key_of(m)];
    message.tensors = std::move(found->second);
    made_.erase(found);
    for (const EdgeTensor& tensor : program_.edge(action.micro_batch))
      message.handles.push_back(pp_.send(message.tensors.get(tensor.name), m.peer, m.flow));
  }

  void post_receive(const Action& action) {
    const Message& m = action.message;
    UnderWay& message = under_way_[key_of(m)];
    for (const EdgeTensor& tensor : program_.edge(action.micro_batch)) {
      const Tensor buffer = program_.allocate(tensor, m.flow);
      message.tensors.set(tensor.name, buffer);
      message.handles.push_back(pp_.receive(buffer, m.peer, m.flow));
    }
  }

  void wait(const Action& action) {
    const auto found = under_way_.find(key_of(action.message));
    VIADUCT_CHECK(CommError, found != under_way_.end(), "pipeline: stage {}: {}: it was not posted",
                  pp_.rank(), describe(action));
    for (CommHandle& handle : found->second.handles) handle.wait();
    if (!action.message.outgoing) {
      received_[edge_of(action)] = std::move(found->second.tensors);
    } else if (action.message.flow == Flow::activations && !settings_.deallocate_outputs) {
      outputs_[edge_of(action)] = std::move(found->second.tensors);
    }
    under_way_.erase(found);
  }

  StageProgram& program_;
  Communicator& pp_;
  const ExecutorSettings& settings_;
  Sets received_;  // arrived, not used yet
  Sets made_;      // computed, not posted yet
  Sets outputs_;   // sent, and held until the backward
  std::map<Key, UnderWay> under_way_;
};

}  // namespace

void run_schedule(const ActionList& actions, StageProgram& program, Communicator& pp,
                  const ExecutorSettings& settings) {
  if (settings.shapes_first) exchange_shapes(actions, program, pp);
  Executor executor(program, pp, settings);
  for (const Action& action : actions) executor.run(action);
}

}  // namespace viaduct
