#pragma once
// What the double of cuDNN keeps of a descriptor.

#include <array>
#include <cstring>
#include <map>
#include <vector>

#include <cudnn_graph.h>

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

struct cudnnDescriptorDouble {
  struct Attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::vector<char> bytes;
  };
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  bool finalized = false;
  // Of an engine and its configuration: whether its results vary.
  bool varies = false;

  bool has(cudnnBackendAttributeName_t name) const { return attributes.count(name) > 0; }
  template <class T>
  T value(cudnnBackendAttributeName_t name) const {
    T result;
    std::memcpy(&result, attributes.at(name).bytes.data(), sizeof result);
    return result;
  }
  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const {
    const Attribute& found = attributes.at(name);
    std::vector<T> result(static_cast<size_t>(found.count));
    std::memcpy(result.data(), found.bytes.data(), result.size() * sizeof(T));
    return result;
  }
  const cudnnDescriptorDouble& of(cudnnBackendAttributeName_t name) const {
    return *value<cudnnBackendDescriptor_t>(name);
  }
};

namespace cudnn_double {

/// Of one value of an attribute.
size_t bytes_of(cudnnBackendAttributeType_t type);
/// What each kind of descriptor needs before it is complete.
std::vector<cudnnBackendAttributeName_t> required(cudnnBackendDescriptorType_t type);

using Dims = std::array<int64_t, 4>;

/// A tensor as its descriptor specifies it; a copy, because descriptors may be destroyed before
/// the stream runs.
struct Tensor {
  int64_t id;
  cudnnDataType_t type;
  Dims dims, strides;
  bool within, by_value;
};
Tensor tensor_of(const cudnnDescriptorDouble& descriptor);

/// One operation of a graph.
struct Operation {
  cudnnBackendDescriptorType_t type;
  int mode = 0;      // of pointwise operations and reductions
  int64_t axis = 0;  // of an index
  std::vector<Tensor> in;
  Tensor out;
};
std::vector<Operation> operations_of(const cudnnDescriptorDouble& graph);

/// Computes the operations. `addresses` are those of tensors in memory; numbers were read already.
void evaluate(const std::vector<Operation>& operations, const std::map<int64_t, void*>& addresses,
              const std::map<int64_t, float>& numbers);

}  // namespace cudnn_double
