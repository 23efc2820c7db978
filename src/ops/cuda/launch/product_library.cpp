#include "ops/cuda/launch/product_library.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/gpu_facts.h"
#include "ops/cuda/launch/product_plan.h"
#include "ops/cuda/launch/product_timer.h"

namespace viaduct::cuda {
namespace {

/// Algorithms of a kind that are timed.
constexpr int kMostTimed = 8;

cublasLtMatmulAlgo_t algorithm_of(const StoredAlgorithm& stored) {
  cublasLtMatmulAlgo_t algorithm{};
  static_assert(sizeof algorithm.data == sizeof stored.words);
  std::copy(stored.words.begin(), stored.words.end(), algorithm.data);
  return algorithm;
}

/// The fastest of the plan's algorithms on the operands of this product. The first of them stays if
/// nothing is timed.
StoredAlgorithm fastest(const ProductPlan& plan, const ProductKind& kind,
                        const ProductMemory& memory, Stream stream) {
  const std::vector<cublasLtMatmulAlgo_t> algorithms = plan.algorithms(kMostTimed);
  std::vector<double> seconds;
  if (!is_captured(stream)) {
    seconds = time_work(
        static_cast<int>(algorithms.size()), result_bytes(kind), stream, [&](int i, void* scratch) {
          plan.multiply(algorithms[static_cast<size_t>(i)], memory, scratch, stream);
        });
    if (seconds.empty())
      log_info(
          "gemm: no room for {} bytes beside the run's memory: the algorithms of {} are not "
          "timed",
          result_bytes(kind), describe(kind));
  }
  StoredAlgorithm chosen;
  if (!seconds.empty()) {
    chosen.place = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
    chosen.seconds = seconds[static_cast<size_t>(chosen.place)];
    chosen.seconds_of_first = seconds.front();
  }
  const auto& words = algorithms[static_cast<size_t>(chosen.place)].data;
  std::copy(std::begin(words), std::end(words), chosen.words.begin());
  return chosen;
}

}  // namespace

std::string product_library_version() {
  return cublaslt_version_name(static_cast<int64_t>(cublasLtGetVersion()));
}

struct ProductLibrary::Impl {
  struct Made {
    Made(cublasLtHandle_t of, const ProductKind& kind, const ProductMemory& memory)
        : plan(of, kind, memory,
               kind.spare_multiprocessors > 0 ? facts_of_gpu().multiprocessors : 0) {}
    ProductPlan plan;
    cublasLtMatmulAlgo_t algorithm{};
  };
  Owned<cublasLtHandle_t, cublasLtDestroy> handle;
  std::map<ProductKind, Made> made;
  std::optional<AlgorithmFile> file;

  const Made& of(const ProductKind& kind, const ProductMemory& memory, Stream stream) {
    const auto found = made.find(kind);
    if (found != made.end()) {
      found->second.plan.set_addresses(memory);
      return found->second;
    }
    Made& added = made.emplace(std::piecewise_construct, std::forward_as_tuple(kind),
                               std::forward_as_tuple(handle.get(), kind, memory))
                      .first->second;
    try {
      added.algorithm = choose(added.plan, kind, memory, stream);
    } catch (...) {
      made.erase(kind);
      throw;
    }
    return added;
  }

  cublasLtMatmulAlgo_t choose(const ProductPlan& plan, const ProductKind& kind,
                              const ProductMemory& memory, Stream stream) {
    if (!file) return plan.algorithms(1).front();
    const std::string key = key_of(kind);
    std::optional<StoredAlgorithm> stored = file->find(key);
    if (!stored) stored = file->publish(key, fastest(plan, kind, memory, stream));
    const cublasLtMatmulAlgo_t algorithm = algorithm_of(*stored);
    plan.check(algorithm, file->path().string());
    return algorithm;
  }
};

ProductLibrary::ProductLibrary() : impl_(std::make_unique<Impl>()) {
  check_library(cublasLtCreate(impl_->handle.place()), "cublasLtCreate", "a handle");
}
ProductLibrary::~ProductLibrary() = default;

void ProductLibrary::choose_by_time(const std::filesystem::path& file, AlgorithmSource source) {
  source.library = static_cast<int64_t>(cublasLtGetVersion());
  impl_->file.emplace(file, std::move(source));
}

int64_t ProductLibrary::kinds() const {
  return static_cast<int64_t>(impl_->made.size());
}

void ProductLibrary::prepare(const ProductKind& kind, ScratchPlaces memory, Stream stream) {
  ProductMemory places;
  places.workspace = memory.take(kProductWorkspace);
  places.a = memory.take(operand_bytes(kind, kind.a), kind.a.alignment);
  places.b = memory.take(operand_bytes(kind, kind.b), kind.b.alignment);
  places.d = memory.take(result_bytes(kind), kind.d.alignment);
  if (kind.a.scales != LibraryScales::none) {
    places.a_scales = memory.take(scale_bytes(kind, kind.a));
    places.b_scales = memory.take(scale_bytes(kind, kind.b));
  }
  if (kind.bias) places.bias = memory.take(kind.b.rows * dtype_bytes(kind.d.format));
  if (kind.device_factor)
    places.factor = static_cast<const float*>(memory.take(2 * dtype_bytes(DType::f32)));
  if (memory.fits()) multiply(kind, places, stream);
}

void ProductLibrary::multiply(const ProductKind& kind, const ProductMemory& memory, Stream stream) {
  const Impl::Made& made = impl_->of(kind, memory, stream);
  made.plan.multiply(made.algorithm, memory, memory.d, stream);
}

}  // namespace viaduct::cuda
