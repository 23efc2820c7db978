// Router figures in bounded size, their places, and the picture of the load.

#include "report/router_figures.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/json.h"
#include "report/metrics.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::Not;

LayerRouting routing(int64_t layer, std::vector<double> load, double entropy) {
  LayerRouting r;
  r.layer = layer, r.load = std::move(load), r.entropy = entropy, r.z_loss = entropy / 2;
  return r;
}

TEST(RouterFigures, SayWhichLayerAndExpertHasTheLeastAndTheMost) {
  LayerRouting second = routing(5, {0.5, 1, 0.25, 2.25}, 2);
  second.bias_spread = 0.5, second.dropped = 0.125, second.padded = 0.375;
  const RouterFigures figures = router_figures({routing(3, {1, 1, 1.5, 0.5}, 1), second});
  ASSERT_EQ(figures.size(), 6u);  // no balancing loss
  const auto& [name, load] = figures.front();
  EXPECT_EQ(name, "load");
  EXPECT_EQ(load.least, 0.25);
  EXPECT_EQ(load.least_layer, 5);
  EXPECT_EQ(load.least_expert, 2);
  EXPECT_EQ(load.most, 2.25);
  EXPECT_EQ(load.most_expert, 3);
  EXPECT_EQ(load.mean, 1);
  StepMetrics metrics;
  metrics.routers = figures;
  const auto line = nlohmann::json::parse(json_line(metrics)).at("routers");
  EXPECT_EQ(line.at("entropy").at("max_layer"), 5);
  EXPECT_EQ(line.at("bias_spread").at("mean"), 0.5);
  EXPECT_EQ(line.at("load").at("max_expert"), 3);
  EXPECT_EQ(line.at("padded").at("max"), 0.375);  // of the layers that have it
  EXPECT_EQ(line.at("padded").at("min_layer"), 5);
  EXPECT_FALSE(line.at("entropy").contains("max_expert"));
  EXPECT_TRUE(router_figures({}).empty());
  metrics.routers.clear();
  EXPECT_THAT(json_line(metrics), Not(HasSubstr("routers")));
}

TEST(RouterFigures, AValueThatIsNoNumberIsSeen) {
  const RouterFigures figures =
      router_figures({routing(0, {1}, 1), routing(1, {1}, std::nan("")), routing(2, {1}, 1)});
  EXPECT_TRUE(std::isnan(figures[1].second.most));
  EXPECT_EQ(figures[1].second.most_layer, 1);
}

double figure_of(const LayerRouting& layer, const std::string& wanted) {
  for (const auto& [name, value] : layer_figures(layer))
    if (name == wanted) return value;
  return -1;
}

TEST(RouterFigures, ALayersOwnAreThoseThatItHas) {
  LayerRouting layer = routing(4, {0.5, 1, 0.25, 2.25}, 2);
  layer.dropped = 0.125;
  EXPECT_EQ(figure_of(layer, "load_max"), 2.25);
  EXPECT_EQ(figure_of(layer, "dropped"), 0.125);
  EXPECT_EQ(figure_of(layer, "z_loss"), 1);
  EXPECT_EQ(figure_of(layer, "balance_loss"), -1);
  layer.balance_loss = 1.5;
  EXPECT_EQ(figure_of(layer, "balance_loss"), 1.5);
  double entropy = 0;  // of shares of the choices, by the definition
  for (const double share : {0.125, 0.25, 0.0625, 0.5625}) entropy -= share * std::log(share);
  EXPECT_NEAR(figure_of(layer, "load_entropy"), entropy / std::log(4.0), 1e-12);
  EXPECT_NEAR(figure_of(routing(0, {1, 1, 1, 1}, 1), "load_entropy"), 1, 1e-12);
  EXPECT_EQ(figure_of(routing(0, {4, 0, 0, 0}, 1), "load_entropy"), 0);
  EXPECT_EQ(figure_of(routing(0, {1}, 1), "load_entropy"), 1);
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(RouterFigures, ThePictureHasACellForEachExpertUpToItsWidth) {
  const std::string picture =
      load_picture({routing(0, {1, 0, 4, 0.25}, 1), routing(7, {1, 1, 1, 1}, 1)}, 20);
  EXPECT_THAT(picture, testing::StartsWith("<svg "));
  EXPECT_THAT(picture, HasSubstr("step 20"));
  EXPECT_THAT(picture, HasSubstr(">7</text>"));
  EXPECT_EQ(occurrences(picture, "h10v10h-10z"), 8u);
  const std::string wide =
      load_picture({routing(0, std::vector<double>(3 * kMostColumns, 1), 1)}, 1);
  EXPECT_EQ(occurrences(wide, "h10v10h-10z"), static_cast<size_t>(kMostColumns));
  EXPECT_THAT(wide, HasSubstr("3 experts"));
}

}  // namespace
}  // namespace viaduct
