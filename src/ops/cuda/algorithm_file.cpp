#include "ops/cuda/algorithm_file.h"

#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/log.h"

namespace viaduct::cuda {
namespace {

constexpr std::string_view kField = "dist.product_algorithms_path";

/// Beside the file, because a file that is replaced cannot be the lock itself.
std::filesystem::path lock_of(const std::filesystem::path& path) {
  return path.string() + ".lock";
}

std::string name_of(const AlgorithmSource& source) {
  return fmt::format("{} (compute capability {}.{}) with cuBLASLt {}", source.gpu,
                     source.compute_capability / 10, source.compute_capability % 10,
                     cublaslt_version_name(source.library));
}

}  // namespace

std::string cublaslt_version_name(int64_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

AlgorithmFile::AlgorithmFile(std::filesystem::path path, AlgorithmSource source)
    : path_(std::move(path)), source_(std::move(source)) {
  const FileLock lock(lock_of(path_));
  if (std::filesystem::exists(path_)) {
    read();
    if (driver_of_file_ != source_.driver)
      log_info("{}: {}: made with a driver for CUDA {}.{}, used with one for {}.{}", kField,
               path_.string(), driver_of_file_ / 1000, driver_of_file_ % 1000 / 10,
               source_.driver / 1000, source_.driver % 1000 / 10);
    return;
  }
  driver_of_file_ = source_.driver;
  write();
}

void AlgorithmFile::read() {
  AlgorithmSource found;
  try {
    algorithms_ = parse_algorithms(read_file(path_), path_.string(), found);
  } catch (const IoError& error) {
    fail<ConfigError>("{}: {}; expected a file that this setting made: delete it, or name another",
                      kField, error.what());
  }
  VIADUCT_CHECK(ConfigError,
                found.gpu == source_.gpu &&
                    found.compute_capability == source_.compute_capability &&
                    found.library == source_.library,
                "{}: {} has the algorithms of {}, and this rank has {}: others would be chosen, "
                "with other bits; expected the same GPU and library, or the path of another file",
                kField, path_.string(), name_of(found), name_of(source_));
  driver_of_file_ = found.driver;
}

void AlgorithmFile::write() const {
  AlgorithmSource source = source_;
  source.driver = driver_of_file_;
  write_file_atomically(path_, algorithm_text(source, algorithms_));
}

std::optional<StoredAlgorithm> AlgorithmFile::find(const std::string& kind) {
  auto found = algorithms_.find(kind);
  if (found == algorithms_.end()) {
    read();
    found = algorithms_.find(kind);
  }
  if (found == algorithms_.end()) return std::nullopt;
  return found->second;
}

StoredAlgorithm AlgorithmFile::publish(const std::string& kind, const StoredAlgorithm& algorithm) {
  const FileLock lock(lock_of(path_));
  read();
  const auto [entry, added] = algorithms_.emplace(kind, algorithm);
  if (added) write();
  return entry->second;
}

}  // namespace viaduct::cuda
