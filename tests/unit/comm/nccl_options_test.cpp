// The file with NCCL's options by group: what it says, and what is wrong with it.

#include "comm/nccl_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

class NcclOptionsFile : public testing::Test {
 protected:
  NcclOptions read(const std::string& text) {
    const std::string path = (folder_.path() / "groups.yaml").string();
    std::ofstream(path) << text;
    DistConfig dist;
    dist.nccl_communicator_config_path = path;
    return nccl_options(dist);
  }
  std::string problem(const std::string& text) {
    try {
      read(text);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(NcclOptionsFile, SaysWhatAGroupHas) {
  const NcclOptions options = read(
      "dp_cp: {min_ctas: 4, max_ctas: 16, cga_cluster_size: 2, net_name: IB}\n"
      "expt_dp: {max_ctas: 8}\n");
  const NcclOptions expected{
      {"dp_cp", {.min_ctas = 4, .max_ctas = 16, .cga_cluster_size = 2, .net_name = "IB"}},
      {"expert_dp", {.max_ctas = 8}}};
  EXPECT_TRUE(options == expected) << "Megatron's name is another one";
  EXPECT_TRUE(read("").empty());
}

TEST_F(NcclOptionsFile, WhatIsWrongIsSaidWithTheNearestValidValue) {
  EXPECT_THAT(problem("dp_pc: {max_ctas: 8}"),
              HasSubstr("there is no group \"dp_pc\"; did you mean dp_cp?"));
  EXPECT_THAT(problem("tp: {max_cta: 8}"),
              HasSubstr("there is no setting \"max_cta\"; did you mean max_ctas?"));
  EXPECT_THAT(problem("tp: {max_ctas: 65}"), HasSubstr("65 is not from 1 to 64; expected 64"));
  EXPECT_THAT(problem("tp: {cga_cluster_size: -1}"), HasSubstr("expected 0"));
  EXPECT_THAT(problem("tp: {max_ctas: many}"), HasSubstr("expected a whole number from 1 to 64"));
  EXPECT_THAT(problem("tp: {min_ctas: 9, max_ctas: 8}"),
              HasSubstr("min_ctas = 9 is above max_ctas = 8; expected min_ctas = 8"));
  EXPECT_THAT(problem("tp: 8"), HasSubstr("expected a map with min_ctas"));
  EXPECT_THAT(problem("[tp]"), HasSubstr("expected a map from groups"));
  EXPECT_THAT(problem("tp: {"), HasSubstr("groups.yaml"));
  DistConfig dist;
  dist.nccl_communicator_config_path = "no/such/file.yaml";
  EXPECT_THROW(nccl_options(dist), ConfigError);
}

}  // namespace
}  // namespace viaduct
