#include <cublasLt.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "cublaslt_double.h"
#include "cuda_host/streams.h"
#include "problem_check.h"
#include "product_sums.h"

struct cublasLtContext {
  int version = 13;
};
struct cublasLtPreferenceDouble {
  uint64_t workspace_bytes = 0;
  uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignments[4] = {256, 256, 256, 256};  // of a, b, c, d
};

namespace cublaslt_double {
namespace {

/// The word of an algorithm that has its number.
constexpr size_t kNumberWord = 6;

struct State {
  int capability = 90;
  std::string refusal;
  int64_t heuristic_calls = 0, live_objects = 0;
};
State& state() {
  static thread_local State instance;
  return instance;
}

/// What the library offers, in all threads.
struct Offer {
  std::mutex mutex;
  size_t version = kVersion;
  std::vector<double> seconds{0};
  std::vector<int64_t> products{0};
  std::map<int, int64_t> targets;
};
Offer& offer() {
  static Offer instance;
  return instance;
}

cublasStatus_t refuse(cublasStatus_t status, std::string reason) {
  state().refusal = std::move(reason);
  return status;
}
cublasStatus_t succeed() {
  state().refusal.clear();
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t create(T** object, T value) {
  if (object == nullptr) return refuse(CUBLAS_STATUS_INVALID_VALUE, "no place for the object");
  *object = new T(value);
  ++state().live_objects;
  return succeed();
}
template <class T>
cublasStatus_t destroy(T* object) {
  if (object == nullptr) return refuse(CUBLAS_STATUS_INVALID_VALUE, "no object");
  delete object;
  --state().live_objects;
  return succeed();
}

cublasStatus_t set(void* field, size_t field_bytes, const void* value, size_t bytes) {
  if (value == nullptr || bytes != field_bytes)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute of " + std::to_string(field_bytes) +
                                                   " bytes, given " + std::to_string(bytes));
  std::memcpy(field, value, bytes);
  return succeed();
}

/// Identifies the problem for which an algorithm was requested, the promised alignments, and which
/// of the offered algorithms it is.
cublasLtMatmulAlgo_t algorithm_for(const Problem& p, const cublasLtPreferenceDouble& preference,
                                   uint64_t number) {
  uint64_t hash = 1469598103934665603u;
  const auto mix = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const cublasLtLayoutDouble* l : {&p.a, &p.b, &p.c, &p.d}) {
    mix(static_cast<uint64_t>(l->type)), mix(l->rows), mix(l->columns);
    mix(static_cast<uint64_t>(l->ld));
  }
  mix(p.transa), mix(p.transb), mix(p.desc.epilogue);
  mix(static_cast<uint64_t>(p.desc.a_mode)), mix(static_cast<uint64_t>(p.desc.b_mode));
  mix(static_cast<uint64_t>(p.desc.pointer_mode));
  mix(static_cast<uint64_t>(p.desc.sm_target));
  cublasLtMatmulAlgo_t algo{};
  algo.data[0] = hash;
  algo.data[1] = preference.workspace_bytes;
  for (int i = 0; i < 4; ++i) algo.data[2 + i] = preference.alignments[i];
  algo.data[kNumberWord] = number;
  return algo;
}

/// Empty, or why the algorithm is not one for the problem.
std::string check_algorithm(const Problem& p, const cublasLtMatmulAlgo_t& algo) {
  cublasLtPreferenceDouble promised;
  promised.workspace_bytes = algo.data[1];
  for (int i = 0; i < 4; ++i) promised.alignments[i] = static_cast<uint32_t>(algo.data[2 + i]);
  const cublasLtMatmulAlgo_t known = algorithm_for(p, promised, algo.data[kNumberWord]);
  if (std::memcmp(known.data, algo.data, sizeof algo.data) != 0)
    return "the algorithm is that of another problem";
  const std::lock_guard lock(offer().mutex);
  return algo.data[kNumberWord] < offer().seconds.size() ? "" : "an algorithm that is not offered";
}

/// Queues work in a stream.
template <class Work>
void run_on(cudaStream_t stream, const cublasLtMatmulAlgo_t& algo, const Work& work) {
  std::string kind = "a product";
  for (const uint64_t word : algo.data) kind += " " + std::to_string(word);
  cuda_host::enqueue(stream, "product", work, kind);
}

/// Empty, or the error in the memory of a call.
std::string check_memory(const cublasLtMatmulAlgo_t& algo, bool is_narrow, const Pointers& at) {
  const void* data[4] = {at.a, at.b, at.c, at.d};
  for (int i = 0; i < 4; ++i) {
    if (reinterpret_cast<uintptr_t>(data[i]) % algo.data[2 + i] != 0)
      return "a matrix is not aligned as promised";
  }
  for (int i = 0; is_narrow && i < 4; ++i)
    if (algo.data[2 + i] < 16) return "a matrix of FP8 or FP4 is not aligned to 16 bytes";
  if (at.workspace_bytes < algo.data[1]) return "less workspace than the algorithm needs";
  if (reinterpret_cast<uintptr_t>(at.workspace) % 256 != 0)
    return "the workspace is not aligned to 256 bytes";
  return "";
}

}  // namespace

void set_capability(int capability) {
  state().capability = capability;
}
const std::string& latest_refusal() {
  return state().refusal;
}
int64_t heuristic_calls() {
  return state().heuristic_calls;
}
int64_t live_objects() {
  return state().live_objects;
}
void offer_algorithms(std::vector<double> seconds) {
  const std::lock_guard lock(offer().mutex);
  offer().products.assign(seconds.size(), 0);
  offer().targets.clear();
  offer().seconds = std::move(seconds);
}
std::vector<int64_t> products() {
  const std::lock_guard lock(offer().mutex);
  return offer().products;
}
std::map<int, int64_t> products_by_multiprocessors() {
  const std::lock_guard lock(offer().mutex);
  return offer().targets;
}
void set_version(size_t version) {
  const std::lock_guard lock(offer().mutex);
  offer().version = version;
}

}  // namespace cublaslt_double

using namespace cublaslt_double;

size_t cublasLtGetVersion() {
  const std::lock_guard lock(offer().mutex);
  return offer().version;
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return create(handle, cublasLtContext{});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy(handle);
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  static thread_local std::string text;
  text = "status " + std::to_string(static_cast<int>(status));
  if (!latest_refusal().empty()) text += " (" + latest_refusal() + ")";
  return text.c_str();
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "sums other than FP32");
  return create(desc, cublasLtDescDouble{});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return destroy(desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  const auto to = [&](auto& field) { return set(&field, sizeof field, value, bytes); };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return to(desc->pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return to(desc->transa);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return to(desc->transb);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return to(desc->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return to(desc->bias);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return to(desc->a_scale);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return to(desc->b_scale);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return to(desc->bias_type);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
      return to(desc->a_mode);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
      return to(desc->b_mode);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return to(desc->sm_target);
  }
  return refuse(CUBLAS_STATUS_INVALID_VALUE, "an unknown attribute");
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  return create(layout, cublasLtLayoutDouble{type, rows, columns, ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, cublasLtPreferenceDouble{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  const auto to = [&](auto& field) { return set(&field, sizeof field, value, bytes); };
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return to(preference->workspace_bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return to(preference->reduction);
  const int matrix = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (matrix >= 0 && matrix < 4) return to(preference->alignments[matrix]);
  return refuse(CUBLAS_STATUS_INVALID_VALUE, "an unknown preference");
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  if (handle == nullptr || requested < 1)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "nothing is asked for");
  ++state().heuristic_calls;
  *returned = 0;
  const Problem problem{*desc, *a, *b, *c, *d};
  const std::string wrong = check(problem, state().capability);
  if (!wrong.empty()) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, wrong);
  const std::lock_guard lock(offer().mutex);
  *returned = std::min(requested, static_cast<int>(offer().seconds.size()));
  for (int i = 0; i < *returned; ++i) {
    results[i] = {algorithm_for(problem, *preference, static_cast<uint64_t>(i)),
                  preference->workspace_bytes,
                  CUBLAS_STATUS_SUCCESS,
                  1,
                  {}};
  }
  return succeed();
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (handle == nullptr) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
  const Problem problem{*desc, *a, *b, *c, *d};
  std::string wrong = check(problem, state().capability);
  if (!wrong.empty()) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, wrong);
  wrong = check_algorithm(problem, *algo);
  if (!wrong.empty()) return refuse(CUBLAS_STATUS_INVALID_VALUE, wrong);
  result->workspaceSize = algo->data[1];
  return succeed();
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a_data, cublasLtMatrixLayout_t a, const void* b_data,
                              cublasLtMatrixLayout_t b, const void* beta, const void* c_data,
                              cublasLtMatrixLayout_t c, void* d_data, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
  const Problem problem{*desc, *a, *b, *c, *d};
  std::string wrong = check(problem, state().capability);
  if (!wrong.empty()) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, wrong);
  wrong = check_algorithm(problem, *algo);
  if (!wrong.empty()) return refuse(CUBLAS_STATUS_INVALID_VALUE, wrong);
  Pointers at{1, 0, nullptr, nullptr, a_data, b_data, c_data, d_data, workspace, workspace_bytes};
  const auto *first = static_cast<const float*>(alpha), *second = static_cast<const float*>(beta);
  if (desc->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
    at.device_alpha = first, at.device_beta = second;
  } else {
    at.alpha = *first, at.beta = *second;
  }
  wrong = check_memory(*algo, problem.is_narrow, at);
  if (!wrong.empty()) return refuse(CUBLAS_STATUS_INVALID_VALUE, wrong);
  const size_t number = algo->data[kNumberWord];
  double seconds = 0;
  {
    const std::lock_guard lock(offer().mutex);
    seconds = offer().seconds[number];
    ++offer().products[number];
    ++offer().targets[desc->sm_target];
  }
  run_on(stream, *algo, [problem, at, number, seconds] {
    compute(problem, at, number + 1);
    cuda_host::spend(seconds);
  });
  return succeed();
}
