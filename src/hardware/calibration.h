#pragma once
// What `viaduct bench --calibrate` measures about one machine or one GPU, for a planner to look up:
// rates of the trainer's own kernels by shape, bandwidths, and the cost of a launch and of an
// all-reduce. A YAML file with one list of rows per kind of measurement; every row states its
// sizes, so the grid is data.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

struct CalibratedMachine {
  std::string cpu;      // "AMD EPYC 9R14: AVX2, AVX-512"
  std::string kernels;  // instruction set of the kernels: "avx512"
  int64_t cores = 0;    // visible to the operating system
  int64_t threads = 0;  // of a rank, that ran the ops
  int64_t memory_bytes = 0;
  std::string measured_at;  // "2026-11-21T18:30:00Z"
  int64_t ranks = 1;        // measured at the same time, each with these threads
  // Of a table of a GPU, whose kernels ("cuda:sm_90a") and memory are those above; empty for a cpu.
  std::string gpu = {};        // as its driver reports it: "NVIDIA H200"
  std::string libraries = {};  // "driver 13.0, runtime 13.0, cuBLASLt 13.1.0"
};

/// Highest rate of matrix products of a format, on all threads or of a GPU.
struct CalibratedPeak {
  std::string dtype;  // "bf16", "fp32"
  std::string name;   // "BF16 AMX"
  double tflops = 0;
};

/// One matrix product as a layer calls it: m tokens, n output and k input features in all forms.
struct CalibratedGemm {
  std::string form;  // "forward", "data_gradient", "weight_gradient"
  std::string dtype;
  int64_t m = 0, n = 0, k = 0;
  double tflops = 0;
};

/// Causal attention of `batch` documents; FLOPs count visible pairs.
struct CalibratedAttention {
  std::string direction;  // "forward", "backward"
  std::string dtype;
  int64_t sequence = 0, batch = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double tflops = 0;
};

/// Bytes read and written per second by all threads on a working set of `bytes`.
struct CalibratedStream {
  std::string kind;  // "read", "fill", "copy", "add", "adamw"
  int64_t bytes = 0;
  double gbytes_per_second = 0;
};

/// The cost of starting work when there is almost none.
struct CalibratedLaunch {
  double op_microseconds = 0;  // an op on a few elements, on one thread
  /// Giving one empty task to every thread and waiting; on a GPU, launching such an op and waiting.
  double parallel_microseconds = 0;
};

/// FP32 sum between ranks that are threads of one process. Small `bytes` give the latency.
struct CalibratedAllReduce {
  int64_t ranks = 0, bytes = 0;
  double microseconds = 0;
  double bus_gbytes_per_second = 0;
};

struct Calibration {
  CalibratedMachine machine;
  std::vector<CalibratedPeak> peaks;
  std::vector<CalibratedGemm> gemm;
  std::vector<CalibratedAttention> attention;
  std::vector<CalibratedStream> streams;
  CalibratedLaunch launch;
  /// May be empty: then only one rank can be predicted, except on GPUs, whose links are not
  /// measured.
  std::vector<CalibratedAllReduce> all_reduce;
};

std::string to_yaml(const Calibration& calibration);

/// `origin` names the text in messages. ConfigError with every problem at once: not a calibration
/// table or one of another version, missing or unknown fields, names outside their sets, sizes and
/// rates that are not positive and finite, empty lists, two rows with the same sizes.
Calibration parse_calibration(std::string_view text, const std::string& origin);

/// The same from and to a file; IoError if it cannot be read or written.
Calibration load_calibration(const std::filesystem::path& path);
void save_calibration(const Calibration& calibration, const std::filesystem::path& path);

}  // namespace viaduct
