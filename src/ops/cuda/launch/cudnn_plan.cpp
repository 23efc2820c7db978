// Plans of cuDNN: the library ranks its engines for a graph; the first that fits is used.

#include <algorithm>

#include "base/error.h"
#include "ops/cuda/launch/cudnn_graph.h"
#include "ops/cuda/launch/cudnn_version.h"

namespace viaduct::cuda {
namespace {

// As many as the library ranks for attention, and more.
constexpr int64_t kMostEngines = 16;

/// The library's configurations for the graph, best first.
std::vector<CudnnDescriptor> ranked(const CudnnCalls& calls, const CudnnDescriptor& graph,
                                    const CudnnTarget& target) {
  const CudnnDescriptor heuristic(calls, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  if (target.properties != nullptr)
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  if (heuristic.try_finalize() != CUDNN_STATUS_SUCCESS) return {};
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> places;
  for (int64_t i = 0; i < kMostEngines; ++i) {
    configs.emplace_back(calls, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    places.push_back(configs.back().get());
  }
  const int64_t found = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                      kMostEngines, places.data());
  while (static_cast<int64_t>(configs.size()) > std::min(found, kMostEngines)) configs.pop_back();
  return configs;
}

/// Whether the library says that two runs may differ.
bool varies(const CudnnCalls& calls, const CudnnDescriptor& config) {
  const CudnnDescriptor engine(calls, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t place = engine.get();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &place);
  cudnnBackendNumericalNote_t notes[16];
  const int64_t found =
      engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 16, notes);
  return std::find(notes, notes + found, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != notes + found;
}

}  // namespace

CudnnPlan::CudnnPlan(const CudnnCalls& calls, CudnnGraph graph, const CudnnTarget& target,
                     int64_t most_bytes, const std::string& what)
    : calls_(calls), graph_(std::move(graph)) {
  operation_graph_ = CudnnDescriptor(calls, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const auto operations = graph_.operations();
  operation_graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                       static_cast<int64_t>(operations.size()), operations.data());
  if (target.handle != nullptr)
    operation_graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  operation_graph_.finalize();
  int64_t requested = -1;
  for (CudnnDescriptor& config : ranked(calls, operation_graph_, target)) {
    CudnnDescriptor plan(calls, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    // The library ranks some configurations that it has not completed.
    if (calls.cudnnBackendSetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                       std::array{config.get()}.data()) != CUDNN_STATUS_SUCCESS)
      continue;
    if (target.handle != nullptr)
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
    if (target.properties != nullptr)
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
    if (plan.try_finalize() != CUDNN_STATUS_SUCCESS || varies(calls, config)) continue;
    plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &workspace_bytes_);
    if (workspace_bytes_ <= most_bytes) {
      engine_config_ = std::move(config);
      plan_ = std::move(plan);
      return;
    }
    requested = requested < 0 ? workspace_bytes_ : std::min(requested, workspace_bytes_);
  }
  VIADUCT_CHECK(DeviceError, requested < 0,
                "{}: cuDNN {} asks for a workspace of {} bytes, the plan of memory has {}: set "
                "model.attention_backend to flash",
                what, calls.cudnnGetVersion(), requested, most_bytes);
  fail<DeviceError>("{}: cuDNN {} has no kernel for it: set model.attention_backend to flash", what,
                    calls.cudnnGetVersion());
}

void CudnnPlan::execute(cudnnHandle_t handle, std::span<const int64_t> ids,
                        std::span<const void* const> addresses, void* workspace) const {
  const CudnnDescriptor pack(calls_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<int64_t>(ids.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize();
  check_cudnn(calls_, calls_.cudnnBackendExecute(handle, plan_.get(), pack.get()),
              "cudnnBackendExecute");
}

}  // namespace viaduct::cuda
