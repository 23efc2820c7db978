#include "device/cuda/cuda_graph.h"

namespace viaduct {

void begin_graph(cudaStream_t stream) {
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
             "cudaStreamBeginCapture");
}

cudaGraphExec_t end_graph(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(error, "cudaGraphInstantiate");
  return exec;
}

void drop_graph(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream, &graph));
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
}

}  // namespace viaduct
