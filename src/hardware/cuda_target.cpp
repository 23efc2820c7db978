#include "hardware/cuda_target.h"

namespace viaduct {
namespace {

struct Row {
  CudaTarget target;
  std::string_view name, code;
  int first, last;  // compute capabilities whose GPUs run the code
  int block_memory_kib;
};

constexpr int kAnyLater = 1 << 20;
constexpr Row kRows[] = {{CudaTarget::sm_80, "sm_80", "80", 80, 88, 163},
                         {CudaTarget::sm_89, "sm_89", "89", 89, 89, 99},
                         {CudaTarget::sm_90a, "sm_90a", "90a", 90, 90, 227},
                         {CudaTarget::sm_100a, "sm_100a", "100f", 100, 109, 227},
                         {CudaTarget::sm_120, "sm_120", "120", 120, kAnyLater, 99}};

const Row& row_of(CudaTarget target) {
  return kRows[static_cast<int>(target)];
}

}  // namespace

std::string_view cuda_target_name(CudaTarget target) {
  return row_of(target).name;
}

std::optional<CudaTarget> cuda_target_of(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.target;
  return std::nullopt;
}

std::string_view cuda_target_code(CudaTarget target) {
  return row_of(target).code;
}

std::optional<CudaTarget> cuda_target_for(int compute_capability) {
  for (const Row& row : kRows)
    if (compute_capability >= row.first && compute_capability <= row.last) return row.target;
  return std::nullopt;
}

int cuda_block_memory_bytes(CudaTarget target) {
  return row_of(target).block_memory_kib << 10;
}

}  // namespace viaduct
