#include "report/router_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace viaduct {
namespace {

/// Collects values one by one.
class Figure {
 public:
  explicit Figure(std::string name) : name_(std::move(name)) {}

  void take(double value, int64_t layer, int64_t expert = -1) {
    sum_ += value;
    // A NaN becomes both minimum and maximum, so that it is visible.
    if (count_ == 0 || value < figure_.least || std::isnan(value))
      figure_.least = value, figure_.least_layer = layer, figure_.least_expert = expert;
    if (count_ == 0 || value > figure_.most || std::isnan(value))
      figure_.most = value, figure_.most_layer = layer, figure_.most_expert = expert;
    ++count_;
  }
  void append_to(RouterFigures& figures) {
    if (count_ == 0) return;
    figure_.mean = sum_ / static_cast<double>(count_);
    figures.emplace_back(name_, figure_);
  }

 private:
  std::string name_;
  RouterFigure figure_;
  double sum_ = 0;
  int64_t count_ = 0;
};

/// Colors from empty (dark blue) over an equal share (white) to four times that (red).
constexpr int kLevels = 17;

int level_of(double load) {
  // Powers of two: 1/4 and less is level 0, 1 the middle, 4 and more the last.
  const double place = load <= 0 ? 0 : (std::log2(load) + 2) / 4 * (kLevels - 1);
  return static_cast<int>(std::clamp(std::round(place), 0.0, double{kLevels - 1}));
}

std::string color_of(int level) {
  const double x = (static_cast<double>(level) - (kLevels - 1) / 2.0) / ((kLevels - 1) / 2.0);
  const auto mix = [](double from, double to, double share) {
    return static_cast<int>(std::lround(from + (to - from) * share));
  };
  const double share = std::abs(x);
  if (x < 0)
    return fmt::format("#{:02x}{:02x}{:02x}", mix(255, 20, share), mix(255, 60, share),
                       mix(255, 140, share));
  return fmt::format("#{:02x}{:02x}{:02x}", mix(255, 190, share), mix(255, 20, share),
                     mix(255, 30, share));
}

}  // namespace

RouterFigures router_figures(const std::vector<LayerRouting>& layers) {
  Figure load("load"), entropy("entropy"), dropped("dropped"), padded("padded"),
      balance("balance_loss"), z("z_loss"), spread("bias_spread");
  for (const LayerRouting& layer : layers) {
    for (size_t e = 0; e < layer.load.size(); ++e)
      load.take(layer.load[e], layer.layer, static_cast<int64_t>(e));
    entropy.take(layer.entropy, layer.layer);
    dropped.take(layer.dropped, layer.layer);
    if (layer.padded) padded.take(*layer.padded, layer.layer);
    if (layer.balance_loss) balance.take(*layer.balance_loss, layer.layer);
    z.take(layer.z_loss, layer.layer);
    if (layer.bias_spread) spread.take(*layer.bias_spread, layer.layer);
  }
  RouterFigures figures;
  for (Figure* figure : {&load, &entropy, &dropped, &padded, &balance, &z, &spread})
    figure->append_to(figures);
  return figures;
}

std::vector<std::pair<std::string, double>> layer_figures(const LayerRouting& layer) {
  const auto experts = static_cast<double>(layer.load.size());
  double most = 0, entropy = 0;
  for (const double load : layer.load) {
    most = std::max(most, load);
    if (load > 0) entropy -= load / experts * std::log(load / experts);
  }
  std::vector<std::pair<std::string, double>> figures{
      {"load_max", most},
      {"load_entropy", layer.load.size() > 1 ? entropy / std::log(experts) : 1},
      {"entropy", layer.entropy},
      {"dropped", layer.dropped},
      {"z_loss", layer.z_loss}};
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) figures.emplace_back(name, *value);
  };
  add("padded", layer.padded);
  add("balance_loss", layer.balance_loss);
  add("bias_spread", layer.bias_spread);
  return figures;
}

std::string load_picture(const std::vector<LayerRouting>& layers, int64_t step) {
  constexpr int64_t kCell = 10, kLeft = 60, kTop = 50;
  int64_t experts = 1;
  for (const LayerRouting& layer : layers)
    experts = std::max(experts, static_cast<int64_t>(layer.load.size()));
  const int64_t share = (experts + kMostColumns - 1) / kMostColumns;
  const int64_t columns = (experts + share - 1) / share;
  std::array<std::string, kLevels> cells;
  std::string names;
  for (size_t row = 0; row < layers.size(); ++row) {
    const int64_t y = kTop + static_cast<int64_t>(row) * kCell;
    std::vector<double> most(static_cast<size_t>(columns), 0);
    for (size_t e = 0; e < layers[row].load.size(); ++e) {
      double& cell = most[e / static_cast<size_t>(share)];
      cell = std::max(cell, layers[row].load[e]);
    }
    for (size_t c = 0; c < most.size(); ++c) {
      cells[static_cast<size_t>(level_of(most[c]))] +=
          fmt::format("M{} {}h10v10h-10z", kLeft + static_cast<int64_t>(c) * kCell, y);
    }
    names += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 6,
                         y + 8, layers[row].layer);
  }
  const int64_t width = std::max<int64_t>(kLeft + columns * kCell + 20, 480);
  const int64_t height = kTop + static_cast<int64_t>(layers.size()) * kCell + 50;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"9\">\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"#ffffff\"/>\n<text x=\"10\" y=\"18\" font-size=\"13\">Load of experts in step "
      "{2}</text>\n<text x=\"10\" y=\"36\">A row for each layer, a column for each {3}; white: an "
      "equal share, blue: less, red: more</text>\n",
      width, height, step,
      share == 1 ? "expert" : fmt::format("{} experts (the most loaded)", share));
  for (int level = 0; level < kLevels; ++level) {
    if (cells[static_cast<size_t>(level)].empty()) continue;
    svg += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", color_of(level),
                       cells[static_cast<size_t>(level)]);
  }
  svg += names;
  const int64_t below = height - 36;
  for (int level = 0; level < kLevels; ++level) {
    svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
                       kLeft + level * kCell, below, color_of(level));
  }
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\">1/4</text>\n<text x=\"{}\" y=\"{}\">1</text>\n"
      "<text x=\"{}\" y=\"{}\">4 equal shares</text>\n</svg>\n",
      kLeft, below + 22, kLeft + 8 * kCell + 2, below + 22, kLeft + 16 * kCell, below + 22);
  return svg;
}

}  // namespace viaduct
