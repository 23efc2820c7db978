// Stages of a search whose layers do not divide among them.

#include "plan/uneven_stages.h"

#include <gtest/gtest.h>

#include "pipeline/stage_layout.h"

namespace viaduct {
namespace {

Layout stages_of(int layers, int prediction, int pp, int vpp) {
  Layout layout;
  layout.pp = pp, layout.vpp = vpp;
  layout.uneven_layers = layers, layout.prediction_layers = prediction;
  return layout;
}

TEST(UnevenStages, EndsTakeThePlaceOfALayer) {
  EXPECT_EQ(uneven_stages(stages_of(126, 0, 16, 1)), "Et*7|(t*8|)*14t*7L");
  EXPECT_EQ(uneven_stages(stages_of(126, 0, 16, 4)), "Et|(tt|)*62tL");
  EXPECT_EQ(uneven_stages(stages_of(61, 1, 8, 2)), "Ettt|(t*4|)*14ttmL");
  EXPECT_EQ(uneven_stages(stages_of(5, 0, 2, 1)), "Ett|tttL");
  EXPECT_EQ(uneven_stages(stages_of(27, 0, 4, 1)), "Et*6|t*8|t*7|t*6L");
}

TEST(UnevenStages, AllLayersAreInAChunk) {
  for (const int layers : {5, 27, 61, 93, 126}) {
    for (const int prediction : {0, 1}) {
      for (const int chunks : {2, 3, 4, 8, 16, 32, 64}) {
        if (!can_cut_unevenly(layers, prediction, chunks)) continue;
        const Layout layout = stages_of(layers, prediction, chunks, 1);
        Problems problems;
        const auto read = parse_stage_layout(OneOrList<std::string>(uneven_stages(layout)), layers,
                                             chunks, problems, prediction);
        EXPECT_TRUE(problems.empty());
        EXPECT_EQ(read.size(), static_cast<size_t>(chunks));
        int sum = 0;
        for (int chunk = 0; chunk < chunks; ++chunk) {
          EXPECT_GE(uneven_layers_of(layout, chunk), 1) << layers << " " << chunks;
          sum += uneven_layers_of(layout, chunk);
        }
        EXPECT_EQ(sum, layers);
      }
    }
  }
}

}  // namespace
}  // namespace viaduct
