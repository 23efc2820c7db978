#include "ops/cuda/launch/cudnn_graph.h"

namespace viaduct::cuda {
namespace {

constexpr cudnnDataType_t kSums = CUDNN_DATA_FLOAT;

CudnnDims packed(const CudnnDims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

void set_tensor(const CudnnDescriptor& operation, cudnnBackendAttributeName_t name,
                const CudnnTensor& tensor) {
  operation.set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, tensor.descriptor);
}

}  // namespace

CudnnDescriptor& CudnnGraph::make(cudnnBackendDescriptorType_t type) {
  return made_.emplace_back(calls_, type);
}

CudnnTensor CudnnGraph::tensor(int64_t id, cudnnDataType_t type, const CudnnDims& dims,
                               const CudnnDims& strides, bool within, bool by_value) {
  // Values per query begin at any of them.
  const int64_t alignment = type == CUDNN_DATA_FLOAT ? 4 : 16;
  const CudnnDescriptor& made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims.data());
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data());
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
  if (within) made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
  if (by_value) made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  made.finalize();
  return {made.get(), dims, strides};
}

CudnnTensor CudnnGraph::memory(int64_t id, cudnnDataType_t type, const CudnnDims& dims,
                               const CudnnDims& strides) {
  return tensor(id, type, dims, strides, false, false);
}

CudnnTensor CudnnGraph::number(int64_t id) {
  return tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}

CudnnTensor CudnnGraph::between(cudnnDataType_t type, const CudnnDims& dims) {
  return tensor(next_++, type, dims, packed(dims), true, false);
}

void CudnnGraph::add(CudnnDescriptor& operation) {
  operation.finalize();
  operations_.push_back(operation.get());
}

void CudnnGraph::product(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& y) {
  const CudnnDescriptor& kind = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, kSums);
  kind.finalize();
  CudnnDescriptor& operation = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  set_tensor(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  set_tensor(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  set_tensor(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
  add(operation);
}

CudnnDescriptor& CudnnGraph::pointwise_operation(cudnnPointwiseMode_t mode, cudnnDataType_t type,
                                                 const CudnnTensor& x, const CudnnTensor& y,
                                                 int64_t axis) {
  const CudnnDescriptor& kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type);
  if (axis >= 0) kind.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  kind.finalize();
  CudnnDescriptor& operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  set_tensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  set_tensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  return operation;
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor& y) {
  add(pointwise_operation(mode, kSums, x, y));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor& b,
                           const CudnnTensor& y) {
  CudnnDescriptor& operation = pointwise_operation(mode, kSums, x, y);
  set_tensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  add(operation);
}

void CudnnGraph::at_least(const CudnnTensor& x, const CudnnTensor& b, const CudnnTensor& y) {
  CudnnDescriptor& operation =
      pointwise_operation(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, x, y);
  set_tensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  add(operation);
}

void CudnnGraph::select(const CudnnTensor& x, const CudnnTensor& b, const CudnnTensor& keep,
                        const CudnnTensor& y) {
  CudnnDescriptor& operation = pointwise_operation(CUDNN_POINTWISE_BINARY_SELECT, kSums, x, y);
  set_tensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  set_tensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, keep);
  add(operation);
}

void CudnnGraph::index(const CudnnTensor& x, int64_t axis, const CudnnTensor& y) {
  add(pointwise_operation(CUDNN_POINTWISE_GEN_INDEX, kSums, x, y, axis));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t op, const CudnnTensor& x, const CudnnTensor& y) {
  const CudnnDescriptor& kind = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, kSums);
  kind.finalize();
  CudnnDescriptor& operation = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  set_tensor(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  set_tensor(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  add(operation);
}

CudnnTensor CudnnGraph::transpose(const CudnnTensor& x, cudnnDataType_t type) {
  CudnnDims dims = x.dims, strides = x.strides;
  std::swap(dims[2], dims[3]);
  std::swap(strides[2], strides[3]);
  const CudnnTensor y = tensor(next_++, type, dims, strides, true, false);
  CudnnDescriptor& operation = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set_tensor(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  set_tensor(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  add(operation);
  return y;
}

}  // namespace viaduct::cuda
