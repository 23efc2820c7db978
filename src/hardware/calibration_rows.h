#pragma once
// The fields of each kind of row, listed once for reading and writing. A visitor is called with
// every field: its name, its value, whether the field is part of the row's key, and for text the
// allowed names (none: any).

#include <initializer_list>
#include <string_view>

#include "hardware/calibration.h"

namespace viaduct::calibration {

using Names = std::initializer_list<std::string_view>;
/// optional: text that may be absent, and is then empty.
enum class Role { key, measured, optional };

template <class Visitor>
void visit(CalibratedMachine& row, Visitor& v) {
  v("cpu", row.cpu, Role::measured, Names{});
  v("kernels", row.kernels, Role::measured, Names{});
  v("cores", row.cores, Role::measured);
  v("threads", row.threads, Role::measured);
  v("ranks", row.ranks, Role::measured);
  v("memory_bytes", row.memory_bytes, Role::measured);
  v("measured_at", row.measured_at, Role::measured, Names{});
  v("gpu", row.gpu, Role::optional, Names{});
  v("libraries", row.libraries, Role::optional, Names{});
}

template <class Visitor>
void visit(CalibratedPeak& row, Visitor& v) {
  v("dtype", row.dtype, Role::key, Names{"bf16", "fp16", "fp32"});
  v("name", row.name, Role::measured, Names{});
  v("tflops", row.tflops, Role::measured);
}

template <class Visitor>
void visit(CalibratedGemm& row, Visitor& v) {
  v("form", row.form, Role::key, Names{"forward", "data_gradient", "weight_gradient"});
  v("dtype", row.dtype, Role::key, Names{"bf16", "fp16", "fp32"});
  v("m", row.m, Role::key);
  v("n", row.n, Role::key);
  v("k", row.k, Role::key);
  v("tflops", row.tflops, Role::measured);
}

template <class Visitor>
void visit(CalibratedAttention& row, Visitor& v) {
  v("direction", row.direction, Role::key, Names{"forward", "backward"});
  v("dtype", row.dtype, Role::key, Names{"bf16", "fp16", "fp32"});
  v("sequence", row.sequence, Role::key);
  v("batch", row.batch, Role::key);
  v("heads", row.heads, Role::key);
  v("kv_heads", row.kv_heads, Role::key);
  v("head_dim", row.head_dim, Role::key);
  v("tflops", row.tflops, Role::measured);
}

template <class Visitor>
void visit(CalibratedStream& row, Visitor& v) {
  v("kind", row.kind, Role::key, Names{"read", "fill", "copy", "add", "adamw"});
  v("bytes", row.bytes, Role::key);
  v("gbytes_per_second", row.gbytes_per_second, Role::measured);
}

template <class Visitor>
void visit(CalibratedLaunch& row, Visitor& v) {
  v("op_microseconds", row.op_microseconds, Role::measured);
  v("parallel_microseconds", row.parallel_microseconds, Role::measured);
}

template <class Visitor>
void visit(CalibratedAllReduce& row, Visitor& v) {
  v("ranks", row.ranks, Role::key);
  v("bytes", row.bytes, Role::key);
  v("microseconds", row.microseconds, Role::measured);
  v("bus_gbytes_per_second", row.bus_gbytes_per_second, Role::measured);
}

/// The sections of the file: `one` for a single row, `many` for a list of them, `any_number` for a
/// list that may be empty: runs of one rank need no all-reduces.
template <class Visitor>
void visit_sections(Calibration& table, Visitor& v) {
  v.one("machine", table.machine);
  v.many("peaks", table.peaks);
  v.many("gemm", table.gemm);
  v.many("attention", table.attention);
  v.many("streams", table.streams);
  v.one("launch", table.launch);
  v.any_number("all_reduce", table.all_reduce);
}

inline constexpr std::string_view kFormat = "viaduct calibration";
inline constexpr int64_t kVersion = 2;

}  // namespace viaduct::calibration
