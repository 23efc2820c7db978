#include "plan/score/published_cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"
#include "plan/score/published_text.h"

namespace viaduct {
namespace {

// Names of GPUs as tables of published runs have them, and the clusters of hardware/clusters.yaml.
constexpr std::pair<std::string_view, std::string_view> kClusters[] = {
    {"a100-40gb-sxm", "a100-40gb-1600gb"},
    {"a100-80gb-sxm", "dgx-a100"},
    {"a800", "hgx-a800"},
    {"a800-80gb", "hgx-a800"},
    {"h100-sxm", "dgx-h100"},
    {"h100-96gb-hbm2e-500w", "grand-teton-h100"},
    {"h200", "dgx-h200"},
    {"h800", "hgx-h800"},
    {"h800-sxm", "hgx-h800"},
    {"b200", "dgx-b200"},
    {"b300", "dgx-b300"},
    {"gb200", "gb200-nvl72"},
    {"gb300", "gb300-nvl72"}};

/// GPUs of the catalog without kernels have other spellings in tables: "RTX4090", "rtx-4090".
std::string without_dashes(std::string text) {
  std::erase(text, '-');
  return lower_case(text);
}

[[noreturn]] void refuse(const std::string& hardware) {
  if (hardware.empty()) throw UnsupportedRow("the source does not state hardware");
  for (const std::string& gpu : gpu_names()) {
    if (without_dashes(gpu) == without_dashes(hardware))
      throw UnsupportedRow(fmt::format("hardware {}: {}", hardware,
                                       load_gpu(gpu).has_kernels()
                                           ? "no cluster of the catalog has this GPU"
                                           : "there are no kernels for this GPU"));
  }
  std::vector<std::string> names;
  for (const auto& [name, cluster] : kClusters) names.emplace_back(name);
  const auto nearest = nearest_name(lower_case(hardware), names);
  throw UnsupportedRow(fmt::format(
      "hardware {}: not in the catalog; {}", hardware,
      nearest ? "nearest: " + *nearest : fmt::format("known: {}", fmt::join(names, ", "))));
}

/// A job on racks of 72 GPUs whose number is one of 64s takes 64 of each rack, so that its groups
/// do not lie across two.
int used_domain(int domain, int64_t gpus) {
  constexpr int kUsed = 64;
  const bool cut = gpus > domain && gpus % domain != 0 && gpus % kUsed == 0;
  return domain > kUsed && cut ? kUsed : domain;
}

}  // namespace

Cluster published_cluster(const PublishedRow& row) {
  const std::string hardware = row.text("hardware");
  const auto* found = std::find_if(std::begin(kClusters), std::end(kClusters), [&](const auto& of) {
    return of.first == lower_case(hardware);
  });
  if (found == std::end(kClusters)) refuse(hardware);
  Cluster cluster = load_cluster(std::string(found->second));
  // InternEvo's page: four NICs of 100 Gb/s for the eight GPUs of a host.
  if (row.text("framework").starts_with("InternEvo")) cluster.nic_bytes_per_second = 6.25e9;
  if (const auto gpus = row.number("n_gpus"))
    cluster.domain = used_domain(cluster.domain, static_cast<int64_t>(*gpus));
  return cluster;
}

}  // namespace viaduct
