#include "comm/mesh.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {

std::string_view axis_name(Axis axis) {
  static constexpr std::string_view kNames[kAxes] = {"tp", "cp", "ep", "dp", "pp"};
  return kNames[static_cast<size_t>(axis)];
}

Mesh::Mesh(std::array<int, kAxes> sizes, std::string_view order) : sizes_(sizes) {
  int stride = 1, seen = 0;
  for (size_t at = 0; at <= order.size();) {
    const size_t end = std::min(order.find('-', at), order.size());
    const std::string_view name = order.substr(at, end - at);
    int axis = 0;
    while (axis < kAxes && axis_name(static_cast<Axis>(axis)) != name) ++axis;
    VIADUCT_CHECK(ConfigError, axis < kAxes,
                  "mesh order \"{}\": unknown axis \"{}\" (expected tp, cp, ep, dp, pp)", order,
                  name);
    VIADUCT_CHECK(ConfigError, strides_[static_cast<size_t>(axis)] == 0,
                  "mesh order \"{}\": axis {} twice", order, name);
    VIADUCT_CHECK(ConfigError, sizes[static_cast<size_t>(axis)] >= 1,
                  "mesh: size {} of axis {} (expected at least 1)",
                  sizes[static_cast<size_t>(axis)], name);
    strides_[static_cast<size_t>(axis)] = stride;
    stride *= sizes[static_cast<size_t>(axis)];
    ++seen;
    at = end + 1;
  }
  VIADUCT_CHECK(ConfigError, seen == kAxes,
                "mesh order \"{}\": expected the five axes tp, cp, ep, dp, pp", order);
}

int Mesh::ranks() const {
  int product = 1;
  for (int size : sizes_) product *= size;
  return product;
}

AxisRank Mesh::coordinate(GlobalRank rank, Axis axis) const {
  return {rank.value / strides_[static_cast<size_t>(axis)] % size(axis)};
}

std::vector<GlobalRank> Mesh::group(GlobalRank rank, const std::vector<Axis>& axes) const {
  std::vector<GlobalRank> members{rank};
  for (Axis axis : axes) {
    const int stride = strides_[static_cast<size_t>(axis)];
    std::vector<GlobalRank> wider;
    for (const GlobalRank member : members) {
      const int origin = member.value - coordinate(member, axis).value * stride;
      for (int i = 0; i < size(axis); ++i) wider.push_back({origin + i * stride});
    }
    members = std::move(wider);
  }
  std::sort(members.begin(), members.end(),
            [](GlobalRank a, GlobalRank b) { return a.value < b.value; });
  return members;
}

}  // namespace viaduct
