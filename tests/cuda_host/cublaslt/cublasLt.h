#pragma once
// The part of cuBLASLt that the project uses, for builds without the toolkit: the library's names,
// types and values, with functions that compute on the host (cublaslt.cpp). Launches include it
// under the real header's name.

#include <cstddef>
#include <cstdint>

#include "values.h"

struct CUstream_st;
typedef CUstream_st* cudaStream_t;

#define CUBLASLT_ENUMERATOR(name, value) name = value,
typedef enum cudaDataType_t { CUBLASLT_DATA_TYPES(CUBLASLT_ENUMERATOR) } cudaDataType_t;
typedef cudaDataType_t cudaDataType;
typedef enum { CUBLASLT_STATUSES(CUBLASLT_ENUMERATOR) } cublasStatus_t;
typedef enum { CUBLASLT_OPERATIONS(CUBLASLT_ENUMERATOR) } cublasOperation_t;
typedef enum { CUBLASLT_COMPUTE_TYPES(CUBLASLT_ENUMERATOR) } cublasComputeType_t;
typedef enum { CUBLASLT_POINTER_MODES(CUBLASLT_ENUMERATOR) } cublasLtPointerMode_t;
typedef enum { CUBLASLT_EPILOGUES(CUBLASLT_ENUMERATOR) } cublasLtEpilogue_t;
typedef enum { CUBLASLT_SCALES(CUBLASLT_ENUMERATOR) } cublasLtMatmulMatrixScale_t;
typedef enum { CUBLASLT_REDUCTION_SCHEMES(CUBLASLT_ENUMERATOR) } cublasLtReductionScheme_t;
typedef enum { CUBLASLT_DESC_ATTRIBUTES(CUBLASLT_ENUMERATOR) } cublasLtMatmulDescAttributes_t;
typedef enum { CUBLASLT_PREFERENCES(CUBLASLT_ENUMERATOR) } cublasLtMatmulPreferenceAttributes_t;
#undef CUBLASLT_ENUMERATOR

typedef struct cublasLtContext* cublasLtHandle_t;
typedef struct cublasLtDescDouble* cublasLtMatmulDesc_t;
typedef struct cublasLtLayoutDouble* cublasLtMatrixLayout_t;
typedef struct cublasLtPreferenceDouble* cublasLtMatmulPreference_t;
typedef struct {
  uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
} cublasLtMatmulHeuristicResult_t;

size_t cublasLtGetVersion();
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
const char* cublasLtGetStatusString(cublasStatus_t status);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a_data, cublasLtMatrixLayout_t a, const void* b_data,
                              cublasLtMatrixLayout_t b, const void* beta, const void* c_data,
                              cublasLtMatrixLayout_t c, void* d_data, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream);
