#include "hardware/cluster.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/given_path.h"
#include "base/nearest.h"
#include "config/convert.h"
#include "hardware/catalog_data.h"

namespace viaduct {
namespace {

constexpr double kGiga = 1e9, kTera = 1e12;

/// The fields of one entry: each is read once, and a field that was not read is refused.
class Entry {
 public:
  Entry(const Value& map, std::string what) : map_(map), what_(std::move(what)) {
    VIADUCT_CHECK(ConfigError, map.is_map(), "{}: expected its fields, found {}", what_,
                  to_flow_yaml(map));
  }

  const Value* find(const std::string& field) {
    known_.insert(field);
    return map_.find(field);
  }
  const Value& get(const std::string& field) {
    const Value* value = find(field);
    VIADUCT_CHECK(ConfigError, value != nullptr, "{}: field {} is missing", what_, field);
    return *value;
  }
  std::string text(const std::string& field) { return as<std::string>(field, get(field)); }
  /// A number above 0, times `unit`.
  double number(const std::string& field, double unit = 1) {
    return positive(field, get(field)) * unit;
  }
  /// 0 if absent.
  double number_or_none(const std::string& field, double unit) {
    const Value* value = find(field);
    return value == nullptr ? 0 : positive(field, *value) * unit;
  }
  int count(const std::string& field) {
    const int value = as<int>(field, get(field));
    VIADUCT_CHECK(ConfigError, value >= 1, "{}: {}: expected at least 1, found {}", what_, field,
                  value);
    return value;
  }
  FormatRates rates(const std::string& field) {
    FormatRates rates;
    const Value* map = find(field);
    if (map == nullptr) return rates;
    for (const auto& [format, value] : map->entries)
      rates[format] = positive(field + "." + format, value) * kTera;
    return rates;
  }
  void refuse_others() const {
    for (const auto& [field, value] : map_.entries) {
      if (known_.contains(field)) continue;
      const auto nearest = nearest_name(field, {known_.begin(), known_.end()});
      fail<ConfigError>("{}: unknown field {}{}", what_, field,
                        nearest ? "; nearest: " + *nearest : "");
    }
  }
  const std::string& what() const { return what_; }

 private:
  template <class T>
  T as(const std::string& field, const Value& value) const {
    T result{};
    VIADUCT_CHECK(ConfigError, read_value(value, result), "{}: {}: expected {}, found {}", what_,
                  field, TypeName<T>::text(), to_flow_yaml(value));
    return result;
  }
  double positive(const std::string& field, const Value& value) const {
    const auto number = as<double>(field, value);
    VIADUCT_CHECK(ConfigError, number > 0, "{}: {}: expected a number above 0, found {}", what_,
                  field, number);
    return number;
  }

  const Value& map_;
  std::string what_;
  std::set<std::string> known_;
};

std::vector<std::string> read_names(Entry& entry, const std::string& field) {
  std::vector<std::string> names;
  const Value* list = entry.find(field);
  if (list == nullptr) return names;
  for (const Value& item : list->items) names.push_back(item.scalar);
  VIADUCT_CHECK(ConfigError, list->is_list() && !names.empty(), "{}: {}: expected a list of names",
                entry.what(), field);
  return names;
}

/// "sm_80, sm_89 …", for messages.
std::string target_names() {
  std::string names;
  for (const CudaTarget target : kCudaTargets)
    names += (names.empty() ? "" : ", ") + std::string(cuda_target_name(target));
  return names;
}

/// Whose kernels run on it.
void read_architecture(Entry& entry, Gpu& gpu) {
  if (entry.find("architecture") == nullptr) return;
  const std::string name = entry.text("architecture");
  gpu.is_cpu = name == "cpu";
  gpu.architecture = cuda_target_of(name);
  VIADUCT_CHECK(ConfigError, gpu.has_kernels(), "{}: architecture: expected cpu, {}, found {}",
                entry.what(), target_names(), name);
}

void check_below_best(const Gpu& gpu, const std::string& what, std::string_view field,
                      const FormatRates& rates) {
  for (const auto& [format, rate] : rates) {
    const auto best = gpu.measured_flops.find(format);
    VIADUCT_CHECK(ConfigError, best != gpu.measured_flops.end() && rate <= best->second,
                  "{}: {}.{}: {} is more than the best product, measured_tflops.{}: {}", what,
                  field, format, rate / kTera, format,
                  best == gpu.measured_flops.end() ? 0 : best->second / kTera);
  }
}

Gpu read_gpu(const std::string& name, const Value& map) {
  Entry entry(map, "GPU " + name);
  Gpu gpu;
  gpu.name = name;
  read_architecture(entry, gpu);
  gpu.reported_names = read_names(entry, "reported_names");
  if (entry.find("multiprocessors") != nullptr)
    gpu.multiprocessors = entry.count("multiprocessors");
  gpu.dense_flops = entry.rates("dense_tflops");
  gpu.sparse_flops = entry.rates("sparse_tflops");
  gpu.measured_flops = entry.rates("measured_tflops");
  gpu.steady_flops = entry.rates("steady_tflops");
  gpu.library_attention_flops = entry.rates("cudnn_attention_tflops");
  VIADUCT_CHECK(ConfigError, gpu.dense_flops.contains("bf16"), "{}: dense_tflops.bf16 is missing",
                entry.what());
  for (const auto& [format, rate] : gpu.measured_flops) {
    const auto peak = gpu.dense_flops.find(format);
    VIADUCT_CHECK(ConfigError, peak != gpu.dense_flops.end() && rate <= peak->second,
                  "{}: measured_tflops.{}: {} is more than the dense peak, {}; is it a figure with "
                  "sparsity?",
                  entry.what(), format, rate / kTera,
                  peak == gpu.dense_flops.end() ? 0 : peak->second / kTera);
  }
  check_below_best(gpu, entry.what(), "steady_tflops", gpu.steady_flops);
  check_below_best(gpu, entry.what(), "cudnn_attention_tflops", gpu.library_attention_flops);
  gpu.memory_bytes = entry.number("memory_gb", kGiga);
  gpu.memory_bytes_per_second = entry.number("memory_tb_per_second", kTera);
  const double pcie = entry.number_or_none("pcie_gb_per_second", kGiga);
  gpu.host_bytes_per_second =
      std::max(pcie, entry.number_or_none("host_link_gb_per_second", kGiga));
  VIADUCT_CHECK(ConfigError, gpu.host_bytes_per_second > 0,
                "{}: expected pcie_gb_per_second or host_link_gb_per_second", entry.what());
  const double link = entry.number_or_none("link_gb_per_second", kGiga);
  gpu.link_bytes_per_second = link > 0 ? link : gpu.host_bytes_per_second;
  gpu.power_watts = entry.number("power_watts");
  if (entry.find("step_share") != nullptr) gpu.step_share = entry.number("step_share");
  VIADUCT_CHECK(ConfigError, gpu.step_share <= 1.5,
                "{}: step_share: expected at most 1.5, found {}", entry.what(), gpu.step_share);
  if (const Value* price = entry.find("usd_per_hour")) {
    Entry fields(*price, entry.what() + ": usd_per_hour");
    gpu.price = Gpu::Price{fields.number("low"), fields.number("high"), fields.text("date")};
    fields.refuse_others();
  }
  gpu.source = entry.text("source");
  entry.refuse_others();
  return gpu;
}

const Value& catalog_entry(const Value& catalog, const std::string& name, std::string_view what) {
  if (const Value* entry = catalog.find(name)) return *entry;
  std::vector<std::string> names;
  for (const auto& [known, value] : catalog.entries) names.push_back(known);
  const auto nearest = nearest_name(name, names);
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
  fail<ConfigError>("unknown {} {}{}; known: {}", what, name,
                    nearest ? ", did you mean " + *nearest + "?" : "", list);
}

Value gpus() {
  return parse_yaml(kGpusYaml, "hardware/gpus.yaml");
}
Value clusters() {
  return parse_yaml(kClustersYaml, "hardware/clusters.yaml");
}

Cluster read_cluster(const std::string& name, const Value& map) {
  Entry entry(map, "cluster " + name);
  Cluster cluster;
  cluster.name = name;
  const Value& gpu = entry.get("gpu");
  cluster.gpu = gpu.is_map() ? read_gpu("of " + name, gpu) : load_gpu(gpu.scalar);
  cluster.domain = entry.count("domain");
  cluster.nic_bytes_per_second = entry.number("nic_gb_per_second", kGiga);
  cluster.oversubscription = entry.number("oversubscription");
  VIADUCT_CHECK(ConfigError, cluster.oversubscription >= 1,
                "{}: oversubscription: expected at least 1, found {}", entry.what(),
                cluster.oversubscription);
  if (const Value* reduces = entry.find("switch_reduction")) {
    bool value = false;
    VIADUCT_CHECK(ConfigError, read_value(*reduces, value),
                  "{}: switch_reduction: expected true or false, found {}", entry.what(),
                  to_flow_yaml(*reduces));
    cluster.switch_reduction = value;
  }
  cluster.gpus_per_host = entry.count("gpus_per_host");
  cluster.host_memory_bytes = entry.number("host_memory_gb", kGiga);
  cluster.source = entry.text("source");
  entry.refuse_others();
  return cluster;
}

std::vector<std::string> names_of(const Value& catalog) {
  std::vector<std::string> names;
  for (const auto& [name, value] : catalog.entries) names.push_back(name);
  return names;
}

}  // namespace

std::vector<std::string> gpu_names() {
  return names_of(gpus());
}

std::vector<std::string> cluster_names() {
  return names_of(clusters());
}

Gpu load_gpu(const std::string& name) {
  const Value catalog = gpus();
  return read_gpu(name, catalog_entry(catalog, name, "GPU"));
}

Cluster load_cluster(const std::string& name_or_file) {
  if (name_or_file.ends_with(".yaml") || name_or_file.ends_with(".yml")) {
    check_given_path("", name_or_file, "a cluster as of hardware/clusters.yaml");
    const Value map = parse_yaml(read_file(name_or_file), name_or_file);
    return read_cluster(std::filesystem::path(name_or_file).stem().string(), map);
  }
  const Value catalog = clusters();
  return read_cluster(name_or_file, catalog_entry(catalog, name_or_file, "cluster"));
}

}  // namespace viaduct
