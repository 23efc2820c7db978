#pragma once
// Figures of routers in a logged step: in a size that does not grow with layers and experts, and
// layer by layer.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace viaduct {

/// How a step's tokens were routed in one layer, over all ranks.
struct LayerRouting {
  int64_t layer = 0;
  std::vector<double> load;      // choices of each expert divided by their mean
  double entropy = 0;            // mean over tokens, in nats, of the probabilities over all experts
  double dropped = 0;            // share of the choices that had no place (capacity)
  std::optional<double> padded;  // share of the experts' rows that fill them up to a multiple
  std::optional<double> balance_loss;  // mean over tokens, without its coefficient: 1 is even load
  double z_loss = 0;                   // mean over tokens of logsumexp², without its coefficient
  std::optional<double> bias_spread;   // largest minus smallest load bias
};

/// Smallest, mean and largest value of a figure, and the layers (and experts) that have them.
struct RouterFigure {
  double least = 0, mean = 0, most = 0;
  int64_t least_layer = 0, most_layer = 0;
  int64_t least_expert = -1, most_expert = -1;  // −1: the figure is of a layer
};

/// Figures by name (load, entropy, dropped, padded, balance_loss, z_loss, bias_spread), those that
/// some layer has; empty without layers.
using RouterFigures = std::vector<std::pair<std::string, RouterFigure>>;
RouterFigures router_figures(const std::vector<LayerRouting>& layers);

/// The figures of one layer by name, those that it has: load_max, load_entropy (of the choices over
/// experts, divided by log E: 1 is equal load, 0 one expert), entropy, dropped, padded,
/// balance_loss, z_loss, bias_spread.
std::vector<std::pair<std::string, double>> layer_figures(const LayerRouting& layer);

/// A picture of the load, a row for each layer and a column for each expert: an SVG document. More
/// than `kMostColumns` experts share columns, which show the largest load of theirs.
inline constexpr int64_t kMostColumns = 512;
std::string load_picture(const std::vector<LayerRouting>& layers, int64_t step);

}  // namespace viaduct
