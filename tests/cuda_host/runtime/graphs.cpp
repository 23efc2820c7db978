// Capture of streams into graphs, and their launches: each launch runs the captured work with new
// gates on the graph's own streams, ordered in the stream that launches it.

#include <map>

#include "cuda_host/runtime/state.h"

using cuda_host::Gate;
using cuda_host::runtime;
using cuda_host::Runtime;
using cuda_host::Work;

cuda_host::GraphCounts cuda_host::graph_counts() {
  const Runtime::Call call = runtime().call();
  return runtime().graphs;
}

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const Runtime::Call call = runtime().call();
  if (call.error != cudaSuccess) return call.error;
  if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  stream->capture = std::make_shared<CUgraph_st>();
  stream->capture->capturer = std::this_thread::get_id();
  stream->origin = true;
  return cudaSuccess;
}

/// The stream that began the capture must have waited for all streams that joined it.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Runtime::Call call = runtime().call();
  *graph = nullptr;
  if (stream->capture == nullptr || !stream->origin) return cudaErrorInvalidValue;
  const std::shared_ptr<CUgraph_st> captured = stream->capture;
  // By stream: whether its last work is an event record that another stream waits for.
  std::map<CUstream_st*, const Gate*> ends;
  std::map<const Gate*, CUstream_st*> waited;
  for (const auto& [on, work] : captured->nodes) {
    ends[on] = work.opens.get();
    if (work.waits != nullptr) waited[work.waits.get()] = on;
  }
  bool joined = true;
  for (const auto& [on, end] : ends)
    joined = joined && (on == stream || (end != nullptr && waited.count(end) > 0));
  for (CUstream_st* other : runtime().streams)
    if (other->capture == captured) other->capture = nullptr, other->origin = false;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st(*captured);
  return call.error;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Runtime::Call call = runtime().call();
  *status = stream != nullptr && stream->capture != nullptr ? cudaStreamCaptureStatusActive
                                                            : cudaStreamCaptureStatusNone;
  return call.error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const Runtime::Call call = runtime().call();
  ++runtime().graphs.made;
  *exec = new CUgraphExec_st{*graph, {}};
  std::map<CUstream_st*, CUstream_st*> own;
  for (auto& [stream, work] : (*exec)->graph.nodes) {
    CUstream_st*& mine = own[stream];
    if (mine == nullptr) {
      if (const cudaError_t error = cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking))
        return error;
      (*exec)->streams.push_back(mine);
    }
    stream = mine;
  }
  return call.error;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const Runtime::Call call = runtime().call();
  if (call.error != cudaSuccess) return call.error;
  ++runtime().graphs.launched;
  const auto gate = [] { return std::make_shared<Gate>(); };
  const std::shared_ptr<Gate> begin = gate();
  runtime().push(stream, {"graph begins", {}, {}, begin});
  for (CUstream_st* own : exec->streams) runtime().push(own, {"graph", {}, begin, {}});
  std::map<const Gate*, std::shared_ptr<Gate>> fresh;
  const auto renewed = [&](const std::shared_ptr<Gate>& old) {
    if (old == nullptr) return old;
    std::shared_ptr<Gate>& mine = fresh[old.get()];
    if (mine == nullptr) mine = gate();
    return mine;
  };
  for (const auto& [own, captured] : exec->graph.nodes) {
    Work work = captured.again ? captured.again() : captured;
    work.waits = renewed(captured.waits);
    work.opens = renewed(captured.opens);
    runtime().push(own, std::move(work));
  }
  for (CUstream_st* own : exec->streams) {
    const std::shared_ptr<Gate> end = gate();
    runtime().push(own, {"graph ends", {}, {}, end});
    runtime().push(stream, {"graph", {}, end, {}});
  }
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  for (CUstream_st* own : exec->streams) cudaStreamDestroy(own);
  delete exec;
  return cudaSuccess;
}
}
