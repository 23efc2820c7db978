// Measurements of quantized operands: over ranks, in the file, and as a table.

#include "report/quantization_metrics.h"

#include <gmock/gmock.h>

#include "base/json.h"
#include "report/metrics.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::Not;

QuantizationLog::Tensors measured() {
  QuantizationLog::Tensors tensors;
  tensors["blocks.0.mlp.up x"].all = {.elements = 100,
                                      .nonzero = 80,
                                      .underflows = 20,
                                      .overflows = 3,
                                      .square = 100,
                                      .error_square = 1,
                                      .amax = 2.5,
                                      .least_scale = 0.125,
                                      .most_scale = 0.5};
  tensors["blocks.1.mlp.up dy"].all = {.elements = 10, .square = 1, .error_square = 0.25};
  tensors["blocks.2.mlp.down w"] = {.all = {.elements = 10, .not_finite = 1},
                                    .worst_expert = 3,
                                    .worst = {.elements = 5, .not_finite = 1}};
  return tensors;
}

TEST(QuantizationMetrics, GoThroughTheRanksAsTheyAre) {
  const auto host = make_stated_host_group(0, 1);
  EXPECT_EQ(quantization_of_ranks(*host, measured()), measured());
}

TEST(QuantizationMetrics, InTheLineOfAStep) {
  StepMetrics metrics;
  EXPECT_THAT(json_line(metrics), Not(HasSubstr("quantization")));
  metrics.quantization = measured();
  const auto line = nlohmann::json::parse(json_line(metrics));
  const auto& x = line["quantization"]["blocks.0.mlp.up x"];
  EXPECT_EQ(x["amax"], 2.5);
  EXPECT_EQ(x["underflow_share"], 0.25);
  EXPECT_EQ(x["overflow_count"], 3);
  EXPECT_EQ(x["not_finite_count"], 0);
  EXPECT_EQ(x["relative_error"], 0.1);
  EXPECT_EQ(x["least_scale"], 0.125);
  EXPECT_EQ(x["most_scale"], 0.5);
  EXPECT_FALSE(x.contains("worst_expert"));
  const auto& experts = line["quantization"]["blocks.2.mlp.down w"];
  EXPECT_EQ(experts["worst_expert"], 3);
  EXPECT_EQ(experts["worst_not_finite_count"], 1);
}

TEST(QuantizationMetrics, TheTableBeginsWithTheTensorThatBreaksFirst) {
  const std::string table = quantization_table(measured(), 2);
  const size_t broken = table.find("blocks.2.mlp.down w"), worst = table.find("blocks.1.mlp.up dy");
  ASSERT_NE(broken, std::string::npos);
  ASSERT_NE(worst, std::string::npos);
  EXPECT_LT(broken, worst);
  EXPECT_THAT(table, HasSubstr("50.00%"));
  EXPECT_THAT(table, Not(HasSubstr("blocks.0"))) << "two rows were asked for";
}

}  // namespace
}  // namespace viaduct
