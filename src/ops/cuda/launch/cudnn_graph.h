#pragma once
// A graph of operations for cuDNN, and the plan that computes it. Tensors have four dims.

#include <array>
#include <deque>
#include <span>
#include <vector>

#include "ops/cuda/launch/cudnn_descriptor.h"

namespace viaduct::cuda {

using CudnnDims = std::array<int64_t, 4>;

/// A tensor of a graph.
struct CudnnTensor {
  cudnnBackendDescriptor_t descriptor;
  CudnnDims dims, strides;
};

class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnCalls& calls) : calls_(calls) {}

  /// In device memory, at a multiple of 16 bytes (FP32: of 4); `id` stands for its address in
  /// `execute`.
  CudnnTensor memory(int64_t id, cudnnDataType_t type, const CudnnDims& dims,
                     const CudnnDims& strides);
  /// One FP32 number, in host memory at each execution.
  CudnnTensor number(int64_t id);
  /// A value that exists only inside the graph, rounded to `type`.
  CudnnTensor between(cudnnDataType_t type, const CudnnDims& dims);

  // y = op(…). A dim of b may be 1 where that of x is not.
  void product(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& y);
  void pointwise(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor& y);
  void pointwise(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor& b,
                 const CudnnTensor& y);
  /// Booleans x ≥ b.
  void at_least(const CudnnTensor& x, const CudnnTensor& b, const CudnnTensor& y);
  /// x where `keep`, else b.
  void select(const CudnnTensor& x, const CudnnTensor& b, const CudnnTensor& keep,
              const CudnnTensor& y);
  /// Each element's index along `axis`.
  void index(const CudnnTensor& x, int64_t axis, const CudnnTensor& y);
  /// Over the dims in which y is smaller than x.
  void reduce(cudnnReduceTensorOp_t op, const CudnnTensor& x, const CudnnTensor& y);
  /// The same elements with the last two dims exchanged.
  CudnnTensor transpose(const CudnnTensor& x, cudnnDataType_t type);

  std::span<const cudnnBackendDescriptor_t> operations() const { return operations_; }

 private:
  CudnnDescriptor& make(cudnnBackendDescriptorType_t type);
  CudnnTensor tensor(int64_t id, cudnnDataType_t type, const CudnnDims& dims,
                     const CudnnDims& strides, bool within, bool by_value);
  /// Finalizes an operation and appends it.
  void add(CudnnDescriptor& operation);
  CudnnDescriptor& pointwise_operation(cudnnPointwiseMode_t mode, cudnnDataType_t type,
                                       const CudnnTensor& x, const CudnnTensor& y,
                                       int64_t axis = -1);

  const CudnnCalls& calls_;
  std::deque<CudnnDescriptor> made_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  int64_t next_ = 1000;  // ids of tensors between operations
};

/// For what a plan is made: a handle, or the properties of a GPU that need not be there.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* properties = nullptr;
};

class CudnnPlan {
 public:
  /// The first plan of the library's ranking that is supported and asks for at most `most_bytes` of
  /// workspace. DeviceError that says what the library asks for, or that it has no plan; `what`
  /// describes the graph.
  CudnnPlan(const CudnnCalls& calls, CudnnGraph graph, const CudnnTarget& target,
            int64_t most_bytes, const std::string& what);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  /// `addresses[i]` is that of the tensor or number `ids[i]`.
  void execute(cudnnHandle_t handle, std::span<const int64_t> ids,
               std::span<const void* const> addresses, void* workspace) const;

 private:
  const CudnnCalls& calls_;
  CudnnGraph graph_;
  CudnnDescriptor operation_graph_, engine_config_, plan_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace viaduct::cuda
