#pragma once
// `Mesh`: an immutable value of named axes over the ranks of a run, built once from sizes and an
// order string. Axis is of the mesh, dim is of a tensor. Groups are computed, not enumerated
// (rules: Megatron-Core's rank order).

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace viaduct {

enum class Axis { tp, cp, ep, dp, pp };
inline constexpr int kAxes = 5;
std::string_view axis_name(Axis axis);

/// A rank of the whole run, of the node, and along one axis: different types, so that none is taken
/// for another.
struct GlobalRank {
  int value = 0;
};
struct LocalRank {
  int value = 0;
};
struct AxisRank {
  int value = 0;
};

class Mesh {
 public:
  /// `order` names every axis once, leftmost varies fastest ("tp-cp-ep-dp-pp"). ConfigError if a
  /// name is unknown, missing or double.
  Mesh(std::array<int, kAxes> sizes, std::string_view order = "tp-cp-ep-dp-pp");

  int size(Axis axis) const { return sizes_[static_cast<size_t>(axis)]; }
  int ranks() const;
  AxisRank coordinate(GlobalRank rank, Axis axis) const;
  /// The ranks that differ from `rank` only along `axes`, ascending, `rank` included.
  std::vector<GlobalRank> group(GlobalRank rank, const std::vector<Axis>& axes) const;

 private:
  std::array<int, kAxes> sizes_;
  std::array<int, kAxes> strides_{};
};

}  // namespace viaduct
