// The catalog of GPUs and clusters, and files of users.

#include "hardware/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Catalog, EveryEntryIsRead) {
  EXPECT_GE(gpu_names().size(), 12u);
  for (const std::string& name : gpu_names()) {
    const Gpu gpu = load_gpu(name);
    EXPECT_EQ(gpu.name, name);
    for (const auto& [format, rate] : gpu.sparse_flops)
      EXPECT_GT(rate, gpu.dense_flops.at(format)) << name << " " << format;
  }
  for (const std::string& name : cluster_names()) {
    const Cluster cluster = load_cluster(name);
    EXPECT_EQ(cluster.domain % cluster.gpus_per_host, 0) << name;
  }
}

TEST(Catalog, NoTwoGpusHaveOneReportedName) {
  std::set<std::string> names;
  for (const std::string& gpu : gpu_names())
    for (const std::string& name : load_gpu(gpu).reported_names)
      EXPECT_TRUE(names.insert(name).second) << name;
  EXPECT_TRUE(names.contains("NVIDIA H200"));
}

TEST(Catalog, TheDensePeakOfAnH100IsNotTheOneWithSparsity) {
  const Gpu gpu = load_gpu("h100-sxm");
  EXPECT_DOUBLE_EQ(gpu.dense_flops.at("bf16"), 989.4e12);
  EXPECT_EQ(gpu.architecture, CudaTarget::sm_90a);
  EXPECT_DOUBLE_EQ(load_cluster("dgx-h100").nic_bytes_per_second, 50e9);
}

TEST(Catalog, UnknownNamesGetTheNearest) {
  EXPECT_THAT([] { load_gpu("h100-sxn"); }, ThrowsMessage<ConfigError>(HasSubstr("h100-sxm?")));
  EXPECT_THAT([] { load_cluster("dgx-h10"); }, ThrowsMessage<ConfigError>(HasSubstr("dgx-h100")));
}

class ClusterFile : public testing::Test {
 protected:
  Cluster load(const std::string& text) {
    const auto path = folder_.path() / "mine.yaml";
    std::ofstream(path) << text;
    return load_cluster(path.string());
  }
  test::TemporaryFolder folder_;
  const std::string rest_ =
      "nic_gb_per_second: 12.5\noversubscription: 2\ngpus_per_host: 4\nhost_memory_gb: 500\n"
      "source: ours\n";
};

TEST_F(ClusterFile, OfAUserNamesAGpuOrDescribesOne) {
  const Cluster named = load("gpu: a100-80gb-sxm\ndomain: 4\n" + rest_);
  EXPECT_EQ(named.name, "mine");
  EXPECT_EQ(named.gpu.name, "a100-80gb-sxm");
  EXPECT_EQ(named.oversubscription, 2);
  EXPECT_FALSE(named.switch_reduction.has_value()) << "not said";
  EXPECT_EQ(
      load("gpu: a100-80gb-sxm\ndomain: 4\nswitch_reduction: true\n" + rest_).switch_reduction,
      true);
  const Cluster own = load(
      "gpu: {dense_tflops: {bf16: 100}, memory_gb: 24, memory_tb_per_second: 1, "
      "pcie_gb_per_second: 32, power_watts: 300, source: ours}\ndomain: 4\n" +
      rest_);
  EXPECT_DOUBLE_EQ(own.gpu.dense_flops.at("bf16"), 100e12);
  EXPECT_DOUBLE_EQ(own.gpu.link_bytes_per_second, 32e9);  // no fast links: PCIe
  EXPECT_FALSE(own.gpu.architecture.has_value());
}

TEST_F(ClusterFile, WithMistakesIsRefused) {
  const auto refused = [&](const std::string& text, const auto& matcher) {
    EXPECT_THAT([&] { load(text); }, ThrowsMessage<ConfigError>(matcher)) << text;
  };
  refused("domain: 4\n" + rest_, HasSubstr("gpu is missing"));
  refused("gpu: h200\ndomain: 0\n" + rest_, HasSubstr("at least 1"));
  refused("gpu: h200\ndomain: 8\nnics: 3\n" + rest_, HasSubstr("unknown field nics"));
  refused("gpu: h200\ndomian: 8\n" + rest_, HasSubstr("domain is missing"));
  refused("gpu: {reported_names: ours}\ndomain: 4\n" + rest_,
          HasSubstr("reported_names: expected a list of names"));
  refused(
      "gpu: {dense_tflops: {bf16: 100}, measured_tflops: {bf16: 150}, memory_gb: 24, "
      "memory_tb_per_second: 1, pcie_gb_per_second: 32, power_watts: 300, source: x}\ndomain: 4\n" +
          rest_,
      AllOf(HasSubstr("150"), HasSubstr("100"), HasSubstr("sparsity")));
  refused(
      "gpu: {dense_tflops: {bf16: 100}, measured_tflops: {bf16: 80}, steady_tflops: {bf16: 90}, "
      "memory_gb: 24, memory_tb_per_second: 1, pcie_gb_per_second: 32, power_watts: 300, "
      "source: x}\ndomain: 4\n" +
          rest_,
      AllOf(HasSubstr("steady_tflops.bf16: 90"), HasSubstr("80")));
  refused(
      "gpu: {dense_tflops: {bf16: 100}, cudnn_attention_tflops: {bf16: 90}, memory_gb: 24, "
      "memory_tb_per_second: 1, pcie_gb_per_second: 32, power_watts: 300, source: x}\ndomain: 4\n" +
          rest_,
      HasSubstr("cudnn_attention_tflops.bf16: 90"));
}

}  // namespace
}  // namespace viaduct
