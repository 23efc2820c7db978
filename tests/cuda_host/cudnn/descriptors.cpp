#include "descriptors.h"

#include <algorithm>

namespace cudnn_double {

size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;  // enumerations
  }
}

std::vector<cudnnBackendAttributeName_t> required(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_DATA_TYPE,
              CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES,
              CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT};
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
      return {CUDNN_ATTR_MATMUL_COMP_TYPE};
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return {CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC};
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
      return {CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_ATTR_REDUCTION_COMP_TYPE};
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
              CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC};
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
              CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
              CUDNN_ATTR_OPERATION_REDUCTION_YDESC};
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC};
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_ATTR_OPERATIONGRAPH_HANDLE};
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_MODE};
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_HANDLE};
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
              CUDNN_ATTR_VARIANT_PACK_WORKSPACE};
    default:
      return {};
  }
}

Tensor tensor_of(const cudnnDescriptorDouble& d) {
  const auto dims = d.values<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = d.values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  Tensor tensor{d.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
                d.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE),
                {},
                {},
                d.has(CUDNN_ATTR_TENSOR_IS_VIRTUAL),
                d.has(CUDNN_ATTR_TENSOR_IS_BY_VALUE)};
  std::copy_n(dims.begin(), 4, tensor.dims.begin());
  std::copy_n(strides.begin(), 4, tensor.strides.begin());
  return tensor;
}

std::vector<Operation> operations_of(const cudnnDescriptorDouble& graph) {
  std::vector<Operation> list;
  for (const cudnnBackendDescriptor_t d :
       graph.values<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const auto tensor = [&](cudnnBackendAttributeName_t name) { return tensor_of(d->of(name)); };
    Operation op{d->type, 0, 0, {}, {}};
    if (d->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
      op.in = {tensor(CUDNN_ATTR_OPERATION_MATMUL_ADESC),
               tensor(CUDNN_ATTR_OPERATION_MATMUL_BDESC)};
      op.out = tensor(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    } else if (d->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
      op.mode = d->of(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                    .value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
      op.in = {tensor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)};
      op.out = tensor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    } else if (d->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
      op.in = {tensor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)};
      op.out = tensor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    } else {
      const auto& kind = d->of(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      op.mode = kind.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
      if (kind.has(CUDNN_ATTR_POINTWISE_AXIS))
        op.axis = kind.value<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
      op.in = {tensor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)};
      for (const auto name :
           {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC})
        if (d->has(name)) op.in.push_back(tensor(name));
      op.out = tensor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    }
    list.push_back(std::move(op));
  }
  return list;
}

}  // namespace cudnn_double
