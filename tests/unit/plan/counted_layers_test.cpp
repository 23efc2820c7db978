// Runs of one and two layers that stand for all layers of a model whose layers differ.

#include "plan/counted_layers.h"

#include <gtest/gtest.h>

#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

/// The model of `layers` layers that bounds are made of.
ModelConfig reduced(const Overrides& settings, int64_t layers) {
  RunSetup setup = setup_of(tiny_run("llama") + settings);
  const CountedLayers counted(setup);
  EXPECT_EQ(counted.count(), setup.model.layers);
  counted.reduce(setup, layers);
  check_model_config(setup.model);
  return setup.model;
}

TEST(CountedLayers, HaveNoRotaryPositionsIfSomeHaveNone) {
  const ModelConfig model = reduced({"model.num_layers=4", "model.no_rope_freq=[0, 0, 0, 1]"}, 2);
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.no_rope, (std::vector<int64_t>{1, 1}));
}

TEST(CountedLayers, KeepRotaryPositionsThatAllHave) {
  const ModelConfig model = reduced({"model.num_layers=4", "model.no_rope_freq=[0, 0, 0, 0]",
                                     "model.attention_temperature_scale=0.1"},
                                    2);
  EXPECT_EQ(model.no_rope, (std::vector<int64_t>{0, 0}));
}

TEST(CountedLayers, AttendInChunksIfSomeDo) {
  const ModelConfig model = reduced({"model.num_layers=4", "model.attention_chunk_size=8",
                                     "model.attention_chunk_layers=[0, 0, 0, 1]"},
                                    1);
  EXPECT_EQ(model.chunks, std::vector<int64_t>{8});
}

}  // namespace
}  // namespace viaduct
