#include "device/cuda/launch_graphs.h"

#include "device/cuda/cuda_graph.h"

namespace viaduct {
namespace {

void destroy(cudaGraphExec_t exec) {
  if (exec != nullptr) cudaGraphExecDestroy(exec);
}

cudaGraphExec_t capture(const KeptLaunches& kept, cudaStream_t stream) {
  begin_graph(stream);
  try {
    kept.run();
  } catch (...) {
    drop_graph(stream);
    throw;
  }
  return end_graph(stream);
}

}  // namespace

void LaunchGraphs::begin_step(bool captures) {
  ++step_;
  captures_ = captures;
  // The host has waited for the results of the last step, so what was last used before it is idle.
  std::erase_if(entries_, [&](const auto& entry) {
    const bool old = entry.second.step < step_ - 1;
    if (old) destroy(entry.second.exec);
    return old;
  });
}

bool LaunchGraphs::give(const KeptLaunches& kept, cudaStream_t stream) {
  Entry* entry = nullptr;
  // One launch is no more than that of a graph.
  if (kept.launches() > 1) {
    const auto [found, is_new] = entries_.try_emplace(kept.key());
    entry = &found->second;
    entry->step = step_;
    // What has come twice comes again. Work that is another one in each step is never captured.
    if (entry->exec == nullptr && captures_ && !is_new) entry->exec = capture(kept, stream);
  }
  if (entry == nullptr || entry->exec == nullptr) {
    kept.run();
    return false;
  }
  check_cuda(cudaGraphLaunch(entry->exec, stream), "cudaGraphLaunch");
  return true;
}

void LaunchGraphs::clear() {
  for (const auto& [key, entry] : entries_) destroy(entry.exec);
  entries_.clear();
}

}  // namespace viaduct
