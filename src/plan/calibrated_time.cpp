#include "plan/calibrated_time.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "device/device.h"
#include "plan/operand_text.h"
#include "run/rank_device.h"

namespace viaduct {
namespace {

// More than the activation of any epilogue, forward and backward, has for an element.
constexpr double kEpilogueFlops = 64;

/// A measured rate at a point of the logarithms of its sizes.
struct Sample {
  std::array<double, 3> at;
  double rate;
};

/// The rate at a point: the geometric mean of the samples, of which near ones count most. `at` is
/// moved to the box of the samples first; `inside` says whether it was in it.
double rate_at(const std::vector<Sample>& samples, std::array<double, 3> at, bool& inside) {
  inside = true;
  for (size_t i = 0; i < at.size(); ++i) {
    const auto [least, most] =
        std::minmax_element(samples.begin(), samples.end(),
                            [i](const Sample& a, const Sample& b) { return a.at[i] < b.at[i]; });
    const double moved = std::clamp(at[i], least->at[i], most->at[i]);
    if (moved != at[i]) inside = false;
    at[i] = moved;
  }
  double weights = 0, sum = 0;
  for (const Sample& sample : samples) {
    double square = 1e-9;
    for (size_t i = 0; i < at.size(); ++i) square += std::pow(at[i] - sample.at[i], 2);
    const double weight = 1 / (square * square);
    weights += weight;
    sum += weight * std::log(sample.rate);
  }
  return std::exp(sum / weights);
}

std::string_view table_name(std::string_view dtype) {
  return dtype == "f32" ? "fp32" : dtype == "f16" ? "fp16" : dtype;
}

double log2_of(int64_t size) {
  return std::log2(static_cast<double>(size));
}

double moved_bytes(const OpEntryRecord& op) {
  return static_cast<double>(op.cost.bytes_read + op.cost.bytes_written);
}

/// The rates of a stream that moves memory like the op does, and whether it is the op itself.
std::pair<std::string_view, bool> stream_like(const OpEntryRecord& op) {
  for (const std::string_view kind : {"fill", "copy", "add", "adamw"})
    if (op.op == kind) return {kind, true};
  if (op.cost.bytes_written == 0) return {"read", false};
  return {op.cost.bytes_read == 0 ? "fill" : "add", false};
}

/// ConfigError unless the table is of the cluster's machines.
void check_machine(const Cluster& cluster, const Calibration& table) {
  const Gpu& gpu = cluster.gpu;
  const std::string& found = table.machine.gpu;
  VIADUCT_CHECK(ConfigError, gpu.is_cpu || !found.empty(),
                "--calibration is a table of a CPU: expected --cluster cpu, found {}",
                cluster.name);
  VIADUCT_CHECK(ConfigError, !gpu.is_cpu || found.empty(),
                "--calibration is a table of {}: expected a --cluster of this GPU, found {}", found,
                cluster.name);
  const auto& names = gpu.reported_names;
  VIADUCT_CHECK(ConfigError,
                names.empty() || std::find(names.begin(), names.end(), found) != names.end(),
                "--calibration is a table of {}, and the GPUs of {} are {} ({}): measure one of "
                "them with `viaduct bench --calibrate --device cuda`",
                found, cluster.name, gpu.name, fmt::join(names, ", "));
}

/// The kernels that the run's ranks launch, as a table names them.
std::string kernels_of(const RunConfig& run, bool gpu) {
  if (!gpu) return std::string(cpu_isa_name(cpu_isa_of(run.dist)));
  return run.cuda_target ? "cuda:" + std::string(cuda_target_name(*run.cuda_target)) : "none";
}

}  // namespace

Cluster calibrated_cluster(const Cluster& catalogued, const Calibration& table) {
  check_machine(catalogued, table);
  Cluster cluster = catalogued;
  Gpu& gpu = cluster.gpu;
  const auto of_format = [](const std::string& dtype) {
    return dtype == "fp32" ? "f32" : dtype == "fp16" ? "f16" : "bf16";
  };
  // A GPU keeps the catalog's dense peaks, which MFU is computed from, and the rates of formats
  // that the table does not have.
  if (gpu.is_cpu) {
    for (const CalibratedPeak& peak : table.peaks)
      gpu.dense_flops[of_format(peak.dtype)] = peak.tflops * 1e12;
    gpu.dense_flops["f64"] = gpu.dense_flops.at("f32") / 2;
    gpu.measured_flops.clear();
  }
  FormatRates measured;
  for (const CalibratedGemm& row : table.gemm) {
    double& best = measured[of_format(row.dtype)];
    best = std::max(best, row.tflops * 1e12);
  }
  for (const auto& [format, rate] : measured) {
    gpu.measured_flops[format] = rate;
    gpu.steady_flops.erase(format);  // bounds are those of the table's products
  }
  int64_t largest = 0;
  for (const CalibratedStream& row : table.streams) {
    if (row.kind != "add" || row.bytes <= largest) continue;
    largest = row.bytes;
    gpu.memory_bytes_per_second = row.gbytes_per_second * 1e9;
  }
  const auto cores = static_cast<double>(table.machine.cores);
  gpu.memory_bytes = static_cast<double>(table.machine.memory_bytes);
  if (gpu.is_cpu)
    gpu.memory_bytes *= std::min(1.0, static_cast<double>(table.machine.threads) / cores);
  return cluster;
}

std::optional<std::string> note_of_ranks(const Calibration& table, const RunConfig& run) {
  const CalibratedMachine& machine = table.machine;
  const int64_t at_once =
      std::min<int64_t>(run.dist.ranks, std::max<int64_t>(1, machine.cores / machine.threads));
  if (!machine.gpu.empty() || machine.ranks == at_once) return std::nullopt;
  return fmt::format(
      "--calibration: ranks that share caches and the bandwidth of memory: {} in the table, {} in "
      "the run; `viaduct bench --calibrate --threads {} --ranks {}` measures a table of {}",
      machine.ranks, at_once, machine.threads, at_once, at_once);
}

CalibratedTime::CalibratedTime(const Calibration& table, const RunConfig& run,
                               const Cluster& cluster, const OpTimeSettings& settings,
                               const CollectiveTimeSettings& collectives)
    : table_(table), roofline_(cluster.gpu, settings) {
  const bool gpu = !cluster.gpu.is_cpu;
  const std::string kernels = kernels_of(run, gpu);
  VIADUCT_CHECK(ConfigError, table.machine.kernels == kernels,
                "--calibration: expected a table of the kernels of the run ({}), found one of {}; "
                "measure it again on this machine{}",
                kernels, table.machine.kernels, gpu ? "" : ", or set dist.cpu_isa");
  const auto rate = cluster.gpu.dense_flops.find("f32");
  VIADUCT_CHECK(ConfigError, rate != cluster.gpu.dense_flops.end(),
                "--calibration: {} has no dense_tflops.f32, the rate of ops that are no products",
                cluster.gpu.name);
  vector_rate_ = rate->second * settings.vector_share;
  if (gpu) {
    links_.emplace(cluster, collectives);
    return;
  }
  const int64_t threads = run.dist.threads_per_rank.value_or(default_pool_threads(run.dist.ranks));
  VIADUCT_CHECK(ConfigError, table.machine.threads == threads,
                "--calibration: expected a table with the threads of a rank ({}), found one of {}; "
                "`viaduct bench --calibrate --threads {}` measures it, or set "
                "dist.threads_per_rank={}",
                threads, table.machine.threads, threads, table.machine.threads);
  turns_ = std::max(1.0, static_cast<double>(threads) * static_cast<double>(run.dist.ranks) /
                             static_cast<double>(table.machine.cores));
}

BasedTime CalibratedTime::op(const OpEntryRecord& op) const {
  const OpKind kind = op_kind(op);
  BasedTime time = kind == OpKind::product     ? product(op)
                   : kind == OpKind::attention ? attention(op)
                                               : pass(op);
  time.seconds *= turns_;
  return time;
}

BasedTime CalibratedTime::product(const OpEntryRecord& op) const {
  const BasedTime modelled{roofline_.seconds(op), TimeBasis::modelled};
  const auto sizes = op.op == "gemm" ? product_sizes(op.shapes) : std::nullopt;
  if (!sizes) return modelled;
  const auto m = static_cast<double>(sizes->m), n = static_cast<double>(sizes->n),
             k = static_cast<double>(sizes->k);
  const double flops = 2 * m * n * k, all = op.cost.total_flops();
  // An epilogue adds a few operations an element, in cache. Anything else is not this product.
  if (all < flops || all > flops + kEpilogueFlops * m * std::max(n, k)) return modelled;
  const double epilogue = (all - flops) / vector_rate_;
  std::vector<Sample> samples;
  for (const CalibratedGemm& row : table_.gemm) {
    if (row.dtype != table_name(sizes->dtype) || row.form != sizes->form) continue;
    if (row.m == sizes->m && row.n == sizes->n && row.k == sizes->k)
      return {epilogue + flops / (row.tflops * 1e12), TimeBasis::measured};
    samples.push_back({{log2_of(row.m), log2_of(row.n), log2_of(row.k)}, row.tflops * 1e12});
  }
  if (samples.empty()) return modelled;
  bool inside = false;
  const double rate =
      rate_at(samples, {log2_of(sizes->m), log2_of(sizes->n), log2_of(sizes->k)}, inside);
  if (inside) return {epilogue + flops / rate, TimeBasis::interpolated};
  return {std::max(epilogue + flops / rate, pass(op).seconds), TimeBasis::modelled};
}

BasedTime CalibratedTime::attention(const OpEntryRecord& op) const {
  const bool forward = op.op == "attention_forward";
  const BasedTime modelled{roofline_.seconds(op), TimeBasis::modelled};
  const auto sizes = attention_sizes(op.shapes);
  // The table has the rates of our own kernels.
  if (!sizes || op.cost.total_flops() <= 0 || op.kernel == "cudnn") return modelled;
  // A table counts what the contract needs; a GPU's backward computes two of its five products
  // once more, or twice for wide heads (ops/cuda/attention_choose.cpp).
  constexpr int64_t kOnePart = 128;
  const double again = !links_ || forward ? 0 : sizes->head_dim > kOnePart ? 0.8 : 0.4;
  const double flops = op.cost.total_flops() / (1 + again);
  // Operations of the causal attention of rows of S tokens: T (S + 1) / 2 pairs a head.
  const double per_pair = (forward ? 4.0 : 10.0) * static_cast<double>(sizes->head_dim);
  const auto heads = static_cast<double>(sizes->heads), tokens = static_cast<double>(sizes->tokens);
  const double length = std::max(1.0, 2 * flops / per_pair / heads / tokens - 1);
  std::vector<Sample> samples;
  for (const CalibratedAttention& row : table_.attention) {
    if (row.dtype != table_name(sizes->dtype) || (row.direction == "forward") != forward) continue;
    if (std::abs(length - static_cast<double>(row.sequence)) < 1e-6 * length &&
        row.batch * row.sequence == sizes->tokens && row.heads == sizes->heads &&
        row.kv_heads == sizes->kv_heads && row.head_dim == sizes->head_dim)
      return {flops / (row.tflops * 1e12), TimeBasis::measured};
    samples.push_back({{log2_of(row.sequence), log2_of(row.head_dim), 0}, row.tflops * 1e12});
  }
  if (samples.empty()) return modelled;
  bool inside = false;
  const double rate = rate_at(samples, {std::log2(length), log2_of(sizes->head_dim), 0}, inside);
  return {flops / rate, inside ? TimeBasis::interpolated : TimeBasis::modelled};
}

BasedTime CalibratedTime::pass(const OpEntryRecord& op) const {
  const auto [kind, itself] = stream_like(op);
  const double bytes = moved_bytes(op), start = table_.launch.op_microseconds * 1e-6 * op.launches;
  std::vector<Sample> samples;
  for (const CalibratedStream& row : table_.streams) {
    if (row.kind != kind) continue;
    const double rate = row.gbytes_per_second * 1e9;
    if (itself && static_cast<double>(row.bytes) == bytes)
      return {bytes / rate, TimeBasis::measured};
    samples.push_back({{log2_of(row.bytes), 0, 0}, rate});
  }
  bool inside = false;
  double memory = 0;
  if (bytes > 0 && samples.empty()) return {roofline_.seconds(op), TimeBasis::modelled};
  if (bytes > 0) memory = bytes / rate_at(samples, {std::log2(bytes), 0, 0}, inside);
  if (itself) return {start + memory, inside ? TimeBasis::interpolated : TimeBasis::modelled};
  const double compute = op_kind(op) == OpKind::other ? op.cost.total_flops() / vector_rate_ : 0.0;
  return {start + std::max(memory, compute), TimeBasis::modelled};
}

BasedTime CalibratedTime::collective(const CollectiveRecord& collective) const {
  if (collective.ranks <= 1) return {};
  if (links_) return {links_->seconds(collective), TimeBasis::modelled};
  std::vector<const CalibratedAllReduce*> rows;
  int64_t nearest = 0;
  for (const CalibratedAllReduce& row : table_.all_reduce)
    if (nearest == 0 ||
        std::abs(row.ranks - collective.ranks) < std::abs(nearest - collective.ranks))
      nearest = row.ranks;
  for (const CalibratedAllReduce& row : table_.all_reduce)
    if (row.ranks == nearest) rows.push_back(&row);
  VIADUCT_CHECK(ConfigError, !rows.empty(),
                "--calibration: a run of several ranks needs all_reduce rows, found none; measure "
                "the table again");
  std::sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->bytes < b->bytes; });
  const bool alike = collective.operation == Collective::all_reduce && nearest == collective.ranks;
  // The other operations move each byte once.
  const double passes =
      collective.operation == Collective::all_reduce || collective.operation == Collective::barrier
          ? 1
          : 0.5;
  const int64_t bytes = collective.operation == Collective::barrier ? 0 : collective.bytes;
  const auto above =
      std::find_if(rows.begin(), rows.end(), [&](auto* row) { return row->bytes >= bytes; });
  const auto timed = [&](double microseconds, TimeBasis basis) {
    return BasedTime{microseconds * 1e-6 * passes * turns_, alike ? basis : TimeBasis::modelled};
  };
  if (above == rows.end())  // at the bandwidth of the largest
    return timed(rows.back()->microseconds * static_cast<double>(bytes) /
                     static_cast<double>(rows.back()->bytes),
                 TimeBasis::modelled);
  if ((*above)->bytes == bytes) return timed((*above)->microseconds, TimeBasis::measured);
  if (above == rows.begin()) return timed((*above)->microseconds, TimeBasis::modelled);
  const CalibratedAllReduce &low = **(above - 1), &high = **above;
  const double part =
      static_cast<double>(bytes - low.bytes) / static_cast<double>(high.bytes - low.bytes);
  return timed(low.microseconds + part * (high.microseconds - low.microseconds),
               TimeBasis::interpolated);
}

}  // namespace viaduct
