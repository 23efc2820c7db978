#pragma once
// The part of cuDNN's backend that the project uses, for builds without it: the library's names,
// types and values, with functions that compute on the host (cudnn.cpp). Launches include it under
// the real header's name.

#include <cstddef>
#include <cstdint>

#include "values.h"

#define CUDNN_VERSION 91900

struct CUstream_st;
typedef CUstream_st* cudaStream_t;

#define CUDNN_ENUMERATOR(name, value) name = value,
typedef enum { CUDNN_STATUSES(CUDNN_ENUMERATOR) } cudnnStatus_t;
typedef enum { CUDNN_DATA_TYPES(CUDNN_ENUMERATOR) } cudnnDataType_t;
typedef enum { CUDNN_REDUCTIONS(CUDNN_ENUMERATOR) } cudnnReduceTensorOp_t;
typedef enum { CUDNN_POINTWISE_MODES(CUDNN_ENUMERATOR) } cudnnPointwiseMode_t;
typedef enum { CUDNN_HEURISTICS(CUDNN_ENUMERATOR) } cudnnBackendHeurMode_t;
typedef enum { CUDNN_NUMERICAL_NOTES(CUDNN_ENUMERATOR) } cudnnBackendNumericalNote_t;
typedef enum { CUDNN_DESCRIPTORS(CUDNN_ENUMERATOR) } cudnnBackendDescriptorType_t;
typedef enum { CUDNN_ATTRIBUTE_TYPES(CUDNN_ENUMERATOR) } cudnnBackendAttributeType_t;
typedef enum { CUDNN_ATTRIBUTES(CUDNN_ENUMERATOR) } cudnnBackendAttributeName_t;
#undef CUDNN_ENUMERATOR

typedef struct cudnnContext* cudnnHandle_t;
typedef struct cudnnDescriptorDouble* cudnnBackendDescriptor_t;

size_t cudnnGetVersion();
const char* cudnnGetErrorString(cudnnStatus_t status);
void cudnnGetLastErrorString(char* message, size_t bytes);
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor);
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values);
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t* count, void* values);
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack);
