#include "pipeline/executor.h"

#include <map>
#include <tuple>

#include "base/error.h"
#include "pipeline/shape_message.h"

namespace viaduct {
namespace {

class Executor {
 public:
  Executor(StageProgram& program, const StagePeers& peers, const ExecutorSettings& settings,
           ActionFollower* follower)
      : program_(program), peers_(peers), settings_(settings), follower_(follower) {}

  void run(const Action& action) {
    if (action.begins >= 0) program_.begin_chunk(action.begins);
    if (follower_ == nullptr) {
      work(action);
    } else if (follower_->before(action)) {
      work(action);
      follower_->after(action);
    }
    if (action.reduces >= 0) program_.reduce_chunk(action.reduces);
  }

 private:
  void work(const Action& action) {
    const int64_t i = action.micro_batch;
    const SegmentRange range = action.segments;
    switch (action.kind) {
      case ActionKind::forward:
        return forward(action);
      case ActionKind::backward:
        return backward(action, [&](TensorSet d_out) {
          return program_.backward(i, action.chunk, range, std::move(d_out));
        });
      case ActionKind::backward_input:
        return backward(action, [&](TensorSet d_out) {
          return program_.backward_input(i, action.chunk, range, std::move(d_out));
        });
      case ActionKind::backward_weight:
        return program_.backward_weight(i, action.chunk, range);
      case ActionKind::post_send:
        return post_send(action);
      case ActionKind::post_receive:
        return post_receive(action);
      case ActionKind::wait:
        return wait(action);
      case ActionKind::pass:
        return pass(action);
    }
  }

  /// Tensors received for a chunk, produced by it, or passed from one of its ranges to the next.
  using At = std::tuple<int64_t, int, Flow, int>;  // micro-batch, chunk, flow, segment
  using Sets = std::map<At, TensorSet>;
  using Key = std::tuple<bool, Flow, int, int64_t>;  // outgoing, flow, peer, number

  struct UnderWay {
    TensorSet tensors;
    std::vector<CommHandle> handles;
  };

  /// The place before segment `segment` of the chunk; for messages, the chunk's ends.
  static At edge_at(const Action& action, Flow flow, int segment) {
    return {action.micro_batch, action.chunk, flow, segment};
  }
  static At edge_of(const Action& action) {
    const Message& m = action.message;
    const bool at_end = (m.flow == Flow::activations) == m.outgoing;
    return edge_at(action, m.flow, at_end ? SegmentRange::kEnd : 0);
  }
  static Key key_of(const Message& m) { return {m.outgoing, m.flow, m.peer, m.sequence}; }

  static TensorSet take(Sets& sets, const At& edge) {
    const auto found = sets.find(edge);
    if (found == sets.end()) return {};
    TensorSet set = std::move(found->second);
    sets.erase(found);
    return set;
  }
  /// The output of a range: for the next range, or to be sent.
  void made(const At& edge, bool at_chunks_end, TensorSet set) {
    if (!set.empty()) (at_chunks_end ? made_ : inside_)[edge] = std::move(set);
  }

  /// The input of a range: from another stage, or from the range beside it.
  TensorSet input(const Action& action, Flow flow, int segment) {
    const bool at_chunks_end = segment == (flow == Flow::activations ? 0 : SegmentRange::kEnd);
    const At edge = edge_at(action, flow, segment);
    VIADUCT_CHECK(CommError, at_chunks_end || inside_.contains(edge),
                  "pipeline: stage {}: {}: the range beside it has not run", peers_.stage(),
                  describe(action));
    return take(at_chunks_end ? received_ : inside_, edge);
  }

  void forward(const Action& action) {
    const auto [begin, end] = action.segments;
    TensorSet in = input(action, Flow::activations, begin);
    made(edge_at(action, Flow::activations, end), end == SegmentRange::kEnd,
         program_.forward(action.micro_batch, action.chunk, action.segments, std::move(in)));
  }

  template <class Run>
  void backward(const Action& action, Run&& run) {
    const auto [begin, end] = action.segments;
    if (end == SegmentRange::kEnd) outputs_.erase(edge_at(action, Flow::activations, end));
    TensorSet d_out = input(action, Flow::gradients, end);
    made(edge_at(action, Flow::gradients, begin), begin == 0, run(std::move(d_out)));
  }

  void post_send(const Action& action) {
    const Message& m = action.message;
    const Edge tensors = program_.edge(action);
    VIADUCT_CHECK(CommError, tensors.empty() || made_.contains(edge_of(action)),
                  "pipeline: stage {}: {}: its tensors were not computed", peers_.stage(),
                  describe(action));
    UnderWay& message = under_way_[key_of(m)];
    message.tensors = take(made_, edge_of(action));
    for (const EdgeTensor& tensor : tensors)
      peers_.send(message.tensors.get(tensor.name), m.peer, m.flow, message.handles);
  }

  void post_receive(const Action& action) {
    const Message& m = action.message;
    UnderWay& message = under_way_[key_of(m)];
    for (const EdgeTensor& tensor : program_.edge(action)) {
      const Tensor buffer = program_.allocate(tensor, m.flow);
      message.tensors.set(tensor.name, buffer);
      peers_.receive(buffer, m.peer, m.flow, message.handles);
    }
  }

  /// To the next chunk of the model in the direction of the flow, which this stage has as well.
  void pass(const Action& action) {
    VIADUCT_CHECK(CommError, program_.edge(action).empty() || made_.contains(edge_of(action)),
                  "pipeline: stage {}: {}: its tensors were not computed", peers_.stage(),
                  describe(action));
    const bool forward = action.message.flow == Flow::activations;
    Action to = action;
    to.chunk += forward ? 1 : -1;
    to.message.outgoing = false;
    received_[edge_of(to)] = take(made_, edge_of(action));
  }

  void wait(const Action& action) {
    const auto found = under_way_.find(key_of(action.message));
    VIADUCT_CHECK(CommError, found != under_way_.end(), "pipeline: stage {}: {}: it was not posted",
                  peers_.stage(), describe(action));
    for (CommHandle& handle : found->second.handles) handle.wait();
    if (!action.message.outgoing) {
      received_[edge_of(action)] = std::move(found->second.tensors);
    } else if (action.message.flow == Flow::activations && !settings_.deallocate_outputs) {
      outputs_[edge_of(action)] = std::move(found->second.tensors);
    }
    under_way_.erase(found);
  }

  StageProgram& program_;
  const StagePeers& peers_;
  const ExecutorSettings& settings_;
  ActionFollower* follower_;
  Sets received_;  // arrived, not used yet
  Sets made_;      // computed, not posted yet
  Sets inside_;    // between two ranges of a chunk
  Sets outputs_;   // sent, and held until the backward
  std::map<Key, UnderWay> under_way_;
};

}  // namespace

void run_schedule(const ActionList& actions, StageProgram& program, const StagePeers& peers,
                  const ExecutorSettings& settings, ActionFollower* follower) {
  if (settings.shapes_first) exchange_shapes(actions, program, peers.pp());
  Executor executor(program, peers, settings, follower);
  for (const Action& action : actions) executor.run(action);
}

}  // namespace viaduct
