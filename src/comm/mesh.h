#pragma once
// `Mesh`: an immutable value of two named grids over the ranks of a run, built once from sizes and
// an order string. Dense weights and activations live on the attention grid tp × cp × dp × pp,
// experts on the expert grid tp × ep × dp × pp, whose tp and dp are its own. "Axis" means an axis
// of the mesh, "dim" a dim of a tensor. Groups are computed from strides, not enumerated: a mesh of
// many thousand ranks costs nothing. Rules: Megatron-Core's rank order. The first stages may have a
// tensor size of their own: then they are a mesh in front of the others' mesh, with the same cp and
// dp, and a group along pp has all tensor ranks of its stages.

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace viaduct {

enum class Grid { attention, expert };

/// The axes of an order string, then their declared parts. tp.kv: contiguous tensor ranks that hold
/// the same key-value heads. cp.0 and cp.1: contiguous context ranks (all-to-all), and across them
/// (ring). dp.inner and dp.outer: the data ranks (attention grid: dp · cp, expert grid: dp) of one
/// instance of the distributed optimizer, a contiguous run of them, and the ranks at the same place
/// in all instances. ep.inner and ep.outer (expert grid): the expert ranks of one fast domain, a
/// contiguous run of them, and the ranks at the same place in all domains.
enum class Axis {
  tp,
  cp,
  ep,
  dp,
  pp,
  tp_kv,
  cp_inner,
  cp_outer,
  dp_inner,
  dp_outer,
  ep_inner,
  ep_outer
};
inline constexpr int kAxes = 5;  // of an order string
std::string_view axis_name(Axis axis);

/// A rank of the whole run, of the node, and along one axis: different types, so that they cannot
/// be confused.
struct GlobalRank {
  int value = 0;
  bool operator==(const GlobalRank&) const = default;
};
struct LocalRank {
  int value = 0;
};
struct AxisRank {
  int value = 0;
};

struct MeshSizes {
  int ranks = 1;
  int tp = 1, cp = 1, pp = 1;
  int ep = 1;
  int etp = 0;  // tp of the expert grid; 0: tp
  /// How many of the pp stages are in front of the others, and their tp; 0: that of the others.
  int front_stages = 0, front_tp = 0;
};

/// Sizes of the declared parts of axes.
struct GroupSizes {
  int optimizer_instances = 1;
  /// {inner, outer} with inner · outer = cp; empty: {1, cp}.
  std::vector<int> hierarchical_context_parallel;
  /// Tensor ranks that share a key-value head: max(1, tp / kv heads).
  int kv_replicas = 1;
  /// Data and context ranks also form groups of 2, 4, 8, … ranks that can share a document. Their
  /// number must be a power of two.
  bool document_groups = false;
  /// Number of fast domains that the ranks which exchange tokens span, where they send by domain
  /// first.
  int expert_domains = 1;
  /// Stages, ascending, that hold one token table; empty: the first and the last.
  std::vector<int> embedding_stages = {};
  /// Stages that hold one table of relative positions, that of an encoder's blocks and that of the
  /// decoder's; empty: there is none.
  std::vector<int> encoder_stages = {}, decoder_stages = {};
};

class Mesh {
 public:
  /// dp of each grid is the number of ranks divided by the other sizes. `order` names every axis
  /// once,
  /// leftmost varies fastest ("tp-cp-ep-dp-pp"). ConfigError with the numbers if a name is unknown,
  /// missing or repeated, sizes do not divide the ranks, parts do not divide their axes, or the
  /// grids disagree about the pipeline's groups (pp not last and dp different).
  static Mesh make(const MeshSizes& sizes, std::string_view order = "tp-cp-ep-dp-pp",
                   const GroupSizes& parts = {});
  /// Without experts: sizes of tp, cp, ep (1), dp, pp.
  explicit Mesh(const std::array<int, kAxes>& sizes, std::string_view order = "tp-cp-ep-dp-pp");
  /// The same mesh with other parts.
  Mesh with(const GroupSizes& parts) const;

  /// Whether the first stages have another tensor size than the rest, of which `size` tells.
  bool is_split() const { return front_ != nullptr; }
  /// Stages in front of the others, and their tensor size; of a split mesh.
  int front_stages() const { return front_->size(Axis::pp); }
  int front_tp() const { return front_->size(Axis::tp); }
  /// The rank at the place of `rank` in each stage. Where n tensor ranks of one stage have the
  /// place of one of another: the first of them.
  std::vector<GlobalRank> at_each_stage(GlobalRank rank) const;
  /// The ranks of a stage that have the place of `rank`: one, or n.
  std::vector<GlobalRank> places_in_stage(GlobalRank rank, int stage) const;
  /// How many tensor ranks of the rank's stages have the place of one rank at the other side of the
  /// split; 1: no others, or the mesh is not split.
  int split_parts(GlobalRank rank) const;

  int ranks() const { return ranks_; }
  const GroupSizes& parts() const { return parts_; }
  int size(Axis axis) const { return size(Grid::attention, axis); }
  int size(Grid grid, Axis axis) const;
  AxisRank coordinate(GlobalRank rank, Axis axis) const {
    return coordinate(Grid::attention, rank, axis);
  }
  AxisRank coordinate(Grid grid, GlobalRank rank, Axis axis) const;

  /// The ranks that differ from `rank` only along `axes`, ascending, `rank` included. CommError if
  /// an axis appears twice, by itself or in a part.
  std::vector<GlobalRank> group(GlobalRank rank, const std::vector<Axis>& axes) const {
    return group(Grid::attention, rank, axes);
  }
  std::vector<GlobalRank> group(Grid grid, GlobalRank rank, const std::vector<Axis>& axes) const;
  /// Whether `rank` is the lowest of that group.
  bool leads(Grid grid, GlobalRank rank, const std::vector<Axis>& axes) const;

 private:
  struct GridShape {
    std::array<int, kAxes> sizes{}, strides{};
  };
  /// A part of an axis or of several axes, as seen from one rank: the members' and this rank's
  /// contributions to a rank's number.
  struct Digits {
    std::vector<int> members;
    int own = 0;
  };

  Mesh() = default;
  const GridShape& shape(Grid grid) const { return grids_[static_cast<size_t>(grid)]; }
  Digits digits(Grid grid, GlobalRank rank, Axis axis) const;
  Digits data_digits(Grid grid, GlobalRank rank, bool inner) const;
  int context_inner() const;
  /// Of a split mesh: the side that has the rank, and the number of its first rank.
  const Mesh& side_of(GlobalRank rank, int& first) const;
  /// Of a mesh that is not split: the rank with tensor rank `tp` in stage `pp` at this place.
  int rank_at(int tp, int cp, int dp, int pp) const;
  static Mesh make_split(const MeshSizes& sizes, std::string_view order, const GroupSizes& parts);
  std::vector<GlobalRank> split_group(Grid grid, GlobalRank rank, std::vector<Axis> axes) const;
  int data_ranks(Grid grid) const;
  void check_parts() const;

  int ranks_ = 1;
  std::array<GridShape, 2> grids_;
  GroupSizes parts_;
  /// Of a split mesh; `grids_` are those of the back.
  std::shared_ptr<const Mesh> front_, back_;
};

}  // namespace viaduct
