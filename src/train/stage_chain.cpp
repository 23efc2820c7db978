#include "train/stage_chain.h"

#include "pipeline/shape_message.h"

namespace viaduct {

void forward_through_stages(Communicator& pp, size_t chunks, const StageEdge& edge,
                            FunctionRef<Tensor()> make_input,
                            FunctionRef<TensorSet(size_t chunk, const TensorSet& in)> forward) {
  const int stages = pp.size(), stage = pp.rank();
  const int previous = (stage + stages - 1) % stages, next = (stage + 1) % stages;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const bool first = stage == 0 && chunk == 0, last = stage + 1 == stages && chunk + 1 == chunks;
    TensorSet in;
    if (!first) {
      if (edge.shapes_first) receive_shapes({edge.tensor}, pp, previous, Flow::activations);
      const Tensor received = make_input();
      pp.receive(received, previous, Flow::activations).wait();
      in.set(kHidden, received);
    }
    const TensorSet out = forward(chunk, in);
    if (last) continue;
    if (edge.shapes_first) pp.send(shape_message({edge.tensor}), next, Flow::activations).wait();
    pp.send(out.get(kHidden), next, Flow::activations).wait();
  }
}

}  // namespace viaduct
