#include "ops/cpu/openblas.h"

#include <cblas.h>

#include <string_view>

#include "base/error.h"

namespace viaduct::cpu {
namespace {

/// Checks the build and switches its threads off.
bool configure() {
  const char* config = openblas_get_config();
  VIADUCT_CHECK(DeviceError, openblas_allows_concurrency(config),
                "gemm: expected an OpenBLAS that several threads may call (Debian: "
                "libopenblas0-pthread), found \"{}\"",
                config);
  openblas_set_num_threads(1);
  return true;
}

}  // namespace

bool openblas_allows_concurrency(const char* config) {
  return std::string_view(config).find("SINGLE_THREADED") == std::string_view::npos;
}

void require_concurrent_openblas() {
  [[maybe_unused]] static const bool done = configure();  // tried again after a failure
}

void sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
           int64_t lda, const float* b, int64_t ldb, bool add, float* c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
              transpose_b ? CblasTrans : CblasNoTrans, static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), 1.0f, a, static_cast<blasint>(lda),
              b, static_cast<blasint>(ldb), add ? 1.0f : 0.0f, c, static_cast<blasint>(ldc));
}

}  // namespace viaduct::cpu
