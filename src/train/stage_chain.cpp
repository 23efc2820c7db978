#include "train/stage_chain.h"

namespace viaduct {

void forward_through_stages(Communicator& pp, size_t chunks, FunctionRef<Tensor()> make_input,
                            FunctionRef<TensorSet(size_t chunk, const TensorSet& in)> forward) {
  const int stages = pp.size(), stage = pp.rank();
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const bool first = stage == 0 && chunk == 0, last = stage + 1 == stages && chunk + 1 == chunks;
    TensorSet in;
    if (!first) {
      const Tensor received = make_input();
      pp.receive(received, (stage + stages - 1) % stages, Flow::activations).wait();
      in.set(kHidden, received);
    }
    const TensorSet out = forward(chunk, in);
    if (!last) pp.send(out.get(kHidden), (stage + 1) % stages, Flow::activations).wait();
  }
}

}  // namespace viaduct
