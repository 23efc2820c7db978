#pragma once
// The file of `dist.product_algorithms_path`: the algorithm of cuBLASLt that each kind of product
// has, so that a later run has the same bits without timing anything.
//
// It is JSON: "format", "version", the "gpu" with its "compute_capability", the "driver" (the CUDA
// version that it supports), the version of "cublaslt", "products" by kind, and a "checksum" of all
// of this. Algorithms mean something for one version of the library only (cublasLt.h,
// cublasLtMatmulAlgo_t), and their times for one GPU.
//
// Several ranks, of one process or of many, may have the same file open. The first of them that
// publishes the algorithm of a kind decides it for all.

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace viaduct::cuda {

/// "13.1.0" of 130100.
std::string cublaslt_version_name(int64_t version);

/// What made the choices.
struct AlgorithmSource {
  std::string gpu;             // its name
  int compute_capability = 0;  // 90: 9.0
  int64_t driver = 0;          // 13000: CUDA 13.0
  int64_t library = 0;         // 130100: cuBLASLt 13.1.0
};

struct StoredAlgorithm {
  std::array<uint64_t, 8> words{};  // the library's
  int64_t place = 0;                // among those of the heuristic: 0 is its first
  /// Of one product, and of one by the heuristic's first algorithm; 0: not timed.
  double seconds = 0, seconds_of_first = 0;
  bool operator==(const StoredAlgorithm&) const = default;
};

class AlgorithmFile {
 public:
  /// Reads the file, or creates one without products. ConfigError if the algorithms are those of
  /// another GPU or another version of the library, or if the file is damaged or something else;
  /// IoError if it cannot be read or created.
  AlgorithmFile(std::filesystem::path path, AlgorithmSource source);

  /// The algorithm of the kind, also if another rank published it since.
  std::optional<StoredAlgorithm> find(const std::string& kind);
  /// Adds the algorithm, unless another rank was faster: the result is the one in the file. The
  /// file changes at once. IoError if it cannot be written.
  StoredAlgorithm publish(const std::string& kind, const StoredAlgorithm& algorithm);

  const std::filesystem::path& path() const { return path_; }
  int64_t kinds() const { return static_cast<int64_t>(algorithms_.size()); }

 private:
  void read();
  void write() const;

  std::filesystem::path path_;
  AlgorithmSource source_;
  int64_t driver_of_file_ = 0;
  std::map<std::string, StoredAlgorithm> algorithms_;  // by kind
};

/// The text of such a file, and back: for AlgorithmFile and its tests. `source` gets what the text
/// says. IoError that starts with `where` for any other text.
std::string algorithm_text(const AlgorithmSource& source,
                           const std::map<std::string, StoredAlgorithm>& algorithms);
std::map<std::string, StoredAlgorithm> parse_algorithms(std::string_view text,
                                                        const std::string& where,
                                                        AlgorithmSource& source);

}  // namespace viaduct::cuda
