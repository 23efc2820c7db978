#include "sharding/parameter_index.h"

#include <gtest/gtest.h>

#include "nn/parameter.h"

namespace viaduct {
namespace {

TEST(ParameterIndex, NumbersParametersInTheOrderInWhichTheyAreAdded) {
  const std::vector<Parameter> parameters(700), others(700);
  ParameterIndex index;
  EXPECT_EQ(index.find(&parameters[0]), std::nullopt);
  using Added = std::pair<size_t, bool>;
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(index.add(&parameters[i]), Added(i, true));
    EXPECT_EQ(index.add(&parameters[i / 2]), Added(i / 2, false));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(index.find(&parameters[i]), i);
    EXPECT_EQ(index.find(&others[i]), std::nullopt) << "a parameter of another store";
  }
}

}  // namespace
}  // namespace viaduct
