#include <cudnn_graph.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "cuda_host/streams.h"
#include "cudnn_double.h"
#include "descriptors.h"

namespace cudnn_double {
namespace {

struct Counts {
  std::atomic<int64_t> more_workspace = 0, executions = 0, live = 0;
  std::atomic<size_t> version = CUDNN_VERSION;
};
Counts& counts() {
  static Counts instance;
  return instance;
}
std::string& refusal() {
  static thread_local std::string reason;
  return reason;
}

cudnnStatus_t refuse(cudnnStatus_t status, std::string reason) {
  refusal() = std::move(reason);
  return status;
}
cudnnStatus_t succeed() {
  refusal().clear();
  return CUDNN_STATUS_SUCCESS;
}

/// A configuration leads to its graph, as the library's does.
const cudnnDescriptorDouble& graph_of(const cudnnDescriptorDouble& plan) {
  return plan.of(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).of(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
}

int64_t up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool is_product(const Operation& op) {
  return op.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
}

/// Bytes, or −1 for a graph that is not attention's.
int64_t workspace_of(const std::vector<Operation>& operations) {
  const auto products = std::count_if(operations.begin(), operations.end(), is_product);
  if (products != 2 && products != 5) return -1;
  for (const Operation& op : operations) {
    if (!is_product(op)) continue;
    for (const Tensor* heads : {&op.in[0], &op.in[1], &op.out}) {
      if (heads->within) continue;
      const int64_t width = heads->strides[3] == 1 ? heads->dims[3] : heads->dims[2];
      if (width % 8 != 0 || width > 128) return -1;
    }
  }
  int64_t bytes = 256 + counts().more_workspace;
  if (products == 2) return bytes;
  const Operation& scores = *std::find_if(operations.begin(), operations.end(), is_product);
  const Dims& s = scores.out.dims;
  bytes += 2 * s[0] * s[1] * up(s[2], 64) * up(s[3], 128);
  for (const Operation& op : operations)
    if (op.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR && !op.out.within)
      bytes += 2 * op.in[0].dims[0] * op.in[0].dims[1] * op.in[0].dims[2] * op.in[0].dims[3];
  return bytes;
}

void become_config(cudnnDescriptorDouble& place, const cudnnDescriptorDouble& heuristic,
                   bool varies) {
  place.attributes[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] =
      heuristic.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  place.varies = varies;
  place.finalized = true;
}

}  // namespace

void set_more_workspace(int64_t bytes) {
  counts().more_workspace = bytes;
}
void set_version(size_t version) {
  counts().version = version > 0 ? version : CUDNN_VERSION;
}
int64_t executions() {
  return counts().executions;
}
int64_t live_descriptors() {
  return counts().live;
}

}  // namespace cudnn_double

using namespace cudnn_double;

size_t cudnnGetVersion() {
  return counts().version;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
#define CUDNN_NAME(name, value) \
  if (status == name) return #name;
  CUDNN_STATUSES(CUDNN_NAME)
#undef CUDNN_NAME
  return "an unknown status";
}

void cudnnGetLastErrorString(char* message, size_t bytes) {
  const size_t count = std::min(bytes - 1, refusal().size());
  std::memcpy(message, refusal().data(), count);
  message[count] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return succeed();
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return succeed();
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return succeed();
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new cudnnDescriptorDouble{type, {}};
  ++counts().live;
  return succeed();
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete descriptor;
  --counts().live;
  return succeed();
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) {
  if (d->finalized) return refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized");
  for (const auto name : required(d->type))
    if (!d->has(name))
      return refuse(CUDNN_STATUS_BAD_PARAM,
                    "descriptor " + std::to_string(d->type) + " lacks " + std::to_string(name));
  for (const auto& [name, attribute] : d->attributes) {
    if (attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
    for (const auto* part : d->values<cudnnBackendDescriptor_t>(name))
      if (!part->finalized)
        return refuse(CUDNN_STATUS_NOT_INITIALIZED, "a descriptor in it is not finalized");
  }
  if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
      workspace_of(operations_of(d->of(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH))) < 0)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine for the graph");
  d->finalized = true;
  return succeed();
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  if (d->finalized) return refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized");
  const auto* bytes = static_cast<const char*>(values);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR &&
      !(*static_cast<const cudnnBackendDescriptor_t*>(values))->finalized)
    return refuse(CUDNN_STATUS_NOT_INITIALIZED, "the attribute is not finalized");
  d->attributes[name] = {
      type, count, std::vector<char>(bytes, bytes + static_cast<size_t>(count) * bytes_of(type))};
  return succeed();
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t requested,
                                       int64_t* count, void* values) {
  if (!d->finalized && d->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
    return refuse(CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is not finalized");
  auto* const places = static_cast<cudnnBackendDescriptor_t*>(values);
  *count = 1;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      *count = 3;
      // The first stays as it is: the library ranks some that it does not complete.
      if (requested > 1) become_config(*places[1], *d, true);
      if (requested > 2) become_config(*places[2], *d, false);
      return succeed();
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      places[0]->varies = d->varies;
      return succeed();
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      auto* const notes = static_cast<cudnnBackendNumericalNote_t*>(values);
      notes[0] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
      notes[1] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
      *count = d->varies ? 2 : 1;
      return succeed();
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *static_cast<int64_t*>(values) = workspace_of(operations_of(graph_of(*d)));
      return succeed();
    default:
      return refuse(CUDNN_STATUS_BAD_PARAM, "attribute " + std::to_string(name));
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  if (!plan->finalized || !pack->finalized)
    return refuse(CUDNN_STATUS_NOT_INITIALIZED, "not finalized");
  if (plan->of(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).varies)
    return refuse(CUDNN_STATUS_EXECUTION_FAILED, "results of this engine vary");
  const auto ids = pack->values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack->values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  void* const workspace = pack->value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  std::map<int64_t, void*> bound;
  for (size_t i = 0; i < ids.size(); ++i) bound[ids[i]] = pointers[i];
  const auto operations = operations_of(graph_of(*plan));
  std::map<int64_t, void*> addresses;
  std::map<int64_t, float> numbers;
  for (const Operation& op : operations) {
    std::vector<Tensor> tensors = op.in;
    tensors.push_back(op.out);
    for (const Tensor& tensor : tensors) {
      if (tensor.within) continue;
      const auto found = bound.find(tensor.id);
      if (found == bound.end() || found->second == nullptr)
        return refuse(CUDNN_STATUS_BAD_PARAM, "no address of " + std::to_string(tensor.id));
      if (tensor.by_value) {
        numbers[tensor.id] = *static_cast<const float*>(found->second);
        continue;
      }
      // Per-query values are read one by one.
      const bool heads = tensor.type != CUDNN_DATA_FLOAT;
      if (heads && reinterpret_cast<uintptr_t>(found->second) % 16 != 0)
        return refuse(CUDNN_STATUS_BAD_PARAM, "an address is no multiple of 16");
      addresses[tensor.id] = found->second;
    }
  }
  const auto bytes = static_cast<size_t>(workspace_of(operations));
  ++counts().executions;
  const auto run = [operations, addresses, numbers, workspace, bytes] {
    std::memset(workspace, 0xff, bytes);
    evaluate(operations, addresses, numbers);
  };
  cuda_host::enqueue(handle->stream, "cudnn", run,
                     "a plan of cuDNN " + std::to_string(reinterpret_cast<uintptr_t>(plan)));
  return succeed();
}
