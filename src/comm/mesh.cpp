#include "comm/mesh.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr size_t at(Axis axis) {
  return static_cast<size_t>(axis);
}

/// The axes from the fastest to the slowest.
std::vector<Axis> parse_order(std::string_view order) {
  std::vector<Axis> axes;
  for (size_t begin = 0; begin <= order.size();) {
    const size_t end = std::min(order.find('-', begin), order.size());
    const std::string_view name = order.substr(begin, end - begin);
    int axis = 0;
    while (axis < kAxes && axis_name(static_cast<Axis>(axis)) != name) ++axis;
    VIADUCT_CHECK(ConfigError, axis < kAxes,
                  "mesh order \"{}\": unknown axis \"{}\" (expected tp, cp, ep, dp, pp)", order,
                  name);
    VIADUCT_CHECK(ConfigError,
                  std::find(axes.begin(), axes.end(), static_cast<Axis>(axis)) == axes.end(),
                  "mesh order \"{}\": axis {} twice", order, name);
    axes.push_back(static_cast<Axis>(axis));
    begin = end + 1;
  }
  VIADUCT_CHECK(ConfigError, axes.size() == kAxes,
                "mesh order \"{}\": expected the five axes tp, cp, ep, dp, pp", order);
  return axes;
}

/// The two axes of the attention grid's data ranks, the one that varies faster first. In the expert
/// grid cp has one rank.
std::pair<Axis, Axis> data_axes(const std::array<int, kAxes>& strides) {
  const bool data_first = strides[at(Axis::dp)] < strides[at(Axis::cp)];
  return data_first ? std::pair(Axis::dp, Axis::cp) : std::pair(Axis::cp, Axis::dp);
}

/// Data ranks: the number of ranks over `parts`.
int data_size(const char* grid, int ranks, int64_t parts) {
  VIADUCT_CHECK(ConfigError, ranks % parts == 0,
                "mesh: {} ranks are not divisible by the {} grid's {} (tp · cp · ep · pp)", ranks,
                grid, parts);
  return static_cast<int>(ranks / parts);
}

MeshSizes dense_sizes(const std::array<int, kAxes>& sizes) {
  VIADUCT_CHECK(ConfigError, sizes[at(Axis::ep)] == 1,
                "mesh: size {} of axis ep needs an expert grid", sizes[at(Axis::ep)]);
  int64_t ranks = 1;
  for (const int size : sizes) {
    VIADUCT_CHECK(ConfigError, size >= 1 && ranks * size < (int64_t{1} << 31),
                  "mesh: sizes {} · {} · 1 · {} · {} (expected at least 1 each, and less than 2^31 "
                  "ranks)",
                  sizes[0], sizes[1], sizes[3], sizes[4]);
    ranks *= size;
  }
  return {.ranks = static_cast<int>(ranks),
          .tp = sizes[at(Axis::tp)],
          .cp = sizes[at(Axis::cp)],
          .pp = sizes[at(Axis::pp)]};
}

}  // namespace

std::string_view axis_name(Axis axis) {
  static constexpr std::string_view kNames[] = {"tp",       "cp",       "ep",       "dp",
                                                "pp",       "tp.kv",    "cp.0",     "cp.1",
                                                "dp.inner", "dp.outer", "ep.inner", "ep.outer"};
  return kNames[at(axis)];
}

Mesh Mesh::make(const MeshSizes& sizes, std::string_view order, const GroupSizes& parts) {
  const int etp = sizes.etp == 0 ? sizes.tp : sizes.etp;
  for (const int size : {sizes.ranks, sizes.tp, sizes.cp, sizes.pp, sizes.ep, etp})
    VIADUCT_CHECK(ConfigError, size >= 1, "mesh: a size of {} (expected at least 1)", size);
  const std::vector<Axis> axes = parse_order(order);
  if (sizes.front_stages > 0 && sizes.front_tp > 0 && sizes.front_tp != sizes.tp)
    return make_split(sizes, order, parts);
  const int dp = data_size("attention", sizes.ranks, int64_t{1} * sizes.tp * sizes.cp * sizes.pp);
  const int expert_dp = data_size("expert", sizes.ranks, int64_t{1} * etp * sizes.ep * sizes.pp);
  Mesh mesh;
  mesh.ranks_ = sizes.ranks;
  mesh.grids_[0].sizes = {sizes.tp, sizes.cp, 1, dp, sizes.pp};
  mesh.grids_[1].sizes = {etp, 1, sizes.ep, expert_dp, sizes.pp};
  for (GridShape& grid : mesh.grids_) {
    int stride = 1;
    for (const Axis axis : axes) {
      grid.strides[at(axis)] = stride;
      stride *= grid.sizes[at(axis)];
    }
  }
  VIADUCT_CHECK(ConfigError, axes.back() == Axis::pp || sizes.pp == 1 || dp == expert_dp,
                "mesh order \"{}\": pp is not last, so that the expert grid's dp = {} must equal "
                "the attention grid's dp = {}",
                order, expert_dp, dp);
  const auto apart = [&](int grid) { return mesh.grids_[grid].strides[at(Axis::pp)]; };
  VIADUCT_CHECK(ConfigError, sizes.pp == 1 || apart(0) == apart(1),
                "mesh order \"{}\": stages are {} ranks apart in the attention grid and {} in the "
                "expert grid",
                order, apart(0), apart(1));
  return mesh.with(parts);
}

Mesh::Mesh(const std::array<int, kAxes>& sizes, std::string_view order)
    : Mesh(make(dense_sizes(sizes), order)) {}

Mesh Mesh::make_split(const MeshSizes& sizes, std::string_view order, const GroupSizes& parts) {
  const int stages = sizes.pp - sizes.front_stages;
  VIADUCT_CHECK(
      ConfigError, stages >= 1 && parse_order(order).back() == Axis::pp,
      "mesh order \"{}\": {} of {} stages with a tensor size of their own; expected fewer, "
      "and pp last",
      order, sizes.front_stages, sizes.pp);
  const int64_t front = int64_t{1} * sizes.front_tp * sizes.front_stages,
                replica = front + int64_t{1} * sizes.tp * stages;
  const int data = data_size("attention", sizes.ranks, replica);
  MeshSizes first{.ranks = static_cast<int>(data * front),
                  .tp = sizes.front_tp,
                  .cp = sizes.cp,
                  .pp = sizes.front_stages};
  MeshSizes rest = sizes;
  rest.ranks -= first.ranks, rest.pp = stages, rest.front_stages = rest.front_tp = 0;
  auto back = std::make_shared<const Mesh>(make(rest, order));
  Mesh mesh = *back;
  mesh.ranks_ = sizes.ranks;
  mesh.front_ = std::make_shared<const Mesh>(make(first, order));
  mesh.back_ = std::move(back);
  return mesh.with(parts);
}

Mesh Mesh::with(const GroupSizes& parts) const {
  Mesh other = *this;
  other.parts_ = parts;
  if (is_split()) {
    GroupSizes side = parts;
    side.embedding_stages.clear(), side.encoder_stages.clear(), side.decoder_stages.clear();
    other.back_ = std::make_shared<const Mesh>(back_->with(side));
    side.kv_replicas = side.expert_domains = 1;
    other.front_ = std::make_shared<const Mesh>(front_->with(side));
  }
  other.check_parts();
  return other;
}

void Mesh::check_parts() const {
  const auto& levels = parts_.hierarchical_context_parallel;
  VIADUCT_CHECK(ConfigError, parts_.kv_replicas >= 1 && size(Axis::tp) % parts_.kv_replicas == 0,
                "mesh: {} tensor ranks that share key-value heads do not divide tp = {}",
                parts_.kv_replicas, size(Axis::tp));
  VIADUCT_CHECK(ConfigError,
                levels.empty() || (levels.size() == 2 && levels[0] >= 1 &&
                                   int64_t{levels[0]} * levels[1] == size(Axis::cp)),
                "mesh: two levels of context parallelism whose product is not cp = {}",
                size(Axis::cp));
  VIADUCT_CHECK(
      ConfigError,
      parts_.expert_domains >= 1 && size(Grid::expert, Axis::ep) % parts_.expert_domains == 0,
      "mesh: {} domains do not divide the {} ranks that share experts", parts_.expert_domains,
      size(Grid::expert, Axis::ep));
  for (const auto* stages :
       {&parts_.embedding_stages, &parts_.encoder_stages, &parts_.decoder_stages}) {
    const bool ascend = std::adjacent_find(stages->begin(), stages->end(),
                                           [](int a, int b) { return a >= b; }) == stages->end();
    VIADUCT_CHECK(
        ConfigError,
        ascend && (stages->empty() || (stages->front() >= 0 && stages->back() < size(Axis::pp))),
        "mesh: stages that hold one parameter: expected ascending ones of pp = {}", size(Axis::pp));
  }
  for (const Grid grid : {Grid::attention, Grid::expert}) {
    VIADUCT_CHECK(
        ConfigError,
        parts_.optimizer_instances >= 1 && data_ranks(grid) % parts_.optimizer_instances == 0,
        "mesh: {} optimizer instances do not divide the {} grid's {} data ranks",
        parts_.optimizer_instances, grid == Grid::attention ? "attention" : "expert",
        data_ranks(grid));
  }
}

int Mesh::context_inner() const {
  const auto& levels = parts_.hierarchical_context_parallel;
  return levels.empty() ? 1 : levels.front();
}

int Mesh::data_ranks(Grid grid) const {
  return shape(grid).sizes[at(Axis::cp)] * shape(grid).sizes[at(Axis::dp)];
}

int Mesh::size(Grid grid, Axis axis) const {
  if (is_split() && axis == Axis::pp) return front_->size(axis) + back_->size(axis);
  const GridShape& g = shape(grid);
  const bool attention = grid == Grid::attention;
  switch (axis) {
    case Axis::tp_kv:
      return attention ? parts_.kv_replicas : 1;
    case Axis::cp_inner:
      return attention ? context_inner() : 1;
    case Axis::cp_outer:
      return g.sizes[at(Axis::cp)] / (attention ? context_inner() : 1);
    case Axis::dp_inner:
      return data_ranks(grid) / parts_.optimizer_instances;
    case Axis::dp_outer:
      return parts_.optimizer_instances;
    case Axis::ep_inner:
      return g.sizes[at(Axis::ep)] / (attention ? 1 : parts_.expert_domains);
    case Axis::ep_outer:
      return attention ? 1 : parts_.expert_domains;
    default:
      return g.sizes[at(axis)];
  }
}

Mesh::Digits Mesh::data_digits(Grid grid, GlobalRank rank, bool inner) const {
  const GridShape& g = shape(grid);
  const auto [fast, slow] = data_axes(g.strides);
  const int width = g.sizes[at(fast)];
  const int fast_stride = g.strides[at(fast)], slow_stride = g.strides[at(slow)];
  const auto step = [&](int place) {
    return place % width * fast_stride + place / width * slow_stride;
  };
  const int run = size(grid, Axis::dp_inner);
  const int place = coordinate(grid, rank, Axis::dp_inner).value +
                    run * coordinate(grid, rank, Axis::dp_outer).value;
  Digits digits{.own = step(place)};
  if (inner) {
    for (int i = 0; i < run; ++i) digits.members.push_back(step(place / run * run + i));
  } else {
    for (int i = 0; i < parts_.optimizer_instances; ++i)
      digits.members.push_back(step(place % run + i * run));
  }
  return digits;
}

Mesh::Digits Mesh::digits(Grid grid, GlobalRank rank, Axis axis) const {
  if (axis == Axis::dp_inner || axis == Axis::dp_outer)
    return data_digits(grid, rank, axis == Axis::dp_inner);
  const Axis whole = axis == Axis::tp_kv                                ? Axis::tp
                     : axis == Axis::cp_inner || axis == Axis::cp_outer ? Axis::cp
                     : axis == Axis::ep_inner || axis == Axis::ep_outer ? Axis::ep
                                                                        : axis;
  const int count = size(grid, axis);
  // An outer part has the inner part's size as its stride.
  const int inner = axis == Axis::cp_outer   ? size(grid, Axis::cp_inner)
                    : axis == Axis::ep_outer ? size(grid, Axis::ep_inner)
                                             : 1;
  const int stride = shape(grid).strides[at(whole)] * inner;
  Digits digits{.own = coordinate(grid, rank, axis).value * stride};
  for (int i = 0; i < count; ++i) digits.members.push_back(i * stride);
  return digits;
}

AxisRank Mesh::coordinate(Grid grid, GlobalRank rank, Axis axis) const {
  if (is_split()) {
    int first = 0;
    const Mesh& side = side_of(rank, first);
    const int before = first > 0 && axis == Axis::pp ? front_->size(Axis::pp) : 0;
    return {before + side.coordinate(grid, {rank.value - first}, axis).value};
  }
  // In closed form: loops over all ranks of a large run ask for it.
  const auto whole = [&](Axis one) { return coordinate(grid, rank, one).value; };
  const auto place_among_data_ranks = [&] {
    const auto [fast, slow] = data_axes(shape(grid).strides);
    return whole(fast) + shape(grid).sizes[at(fast)] * whole(slow);
  };
  switch (axis) {
    case Axis::tp_kv:
      return {whole(Axis::tp) % size(grid, Axis::tp_kv)};
    case Axis::cp_inner:
      return {whole(Axis::cp) % size(grid, Axis::cp_inner)};
    case Axis::cp_outer:
      return {whole(Axis::cp) / size(grid, Axis::cp_inner)};
    case Axis::ep_inner:
      return {whole(Axis::ep) % size(grid, Axis::ep_inner)};
    case Axis::ep_outer:
      return {whole(Axis::ep) / size(grid, Axis::ep_inner)};
    case Axis::dp_inner:
      return {place_among_data_ranks() % size(grid, Axis::dp_inner)};
    case Axis::dp_outer:
      return {place_among_data_ranks() / size(grid, Axis::dp_inner)};
    default:
      return {rank.value / shape(grid).strides[at(axis)] % shape(grid).sizes[at(axis)]};
  }
}

std::vector<GlobalRank> Mesh::group(Grid grid, GlobalRank rank,
                                    const std::vector<Axis>& axes) const {
  VIADUCT_CHECK(CommError, rank.value >= 0 && rank.value < ranks_, "mesh: rank {} of {}",
                rank.value, ranks_);
  if (is_split()) return split_group(grid, rank, axes);
  std::vector<int> members{rank.value};
  unsigned seen = 0;
  for (const Axis axis : axes) {
    // Bits for the axes that an axis covers: tp, both levels of cp, both of ep, dp, pp.
    static constexpr unsigned kCovers[] = {1, 6, 72, 16, 32, 1, 2, 4, 22, 22, 8, 64};
    VIADUCT_CHECK(CommError, (seen & kCovers[at(axis)]) == 0,
                  "mesh: axis {} is in the group already", axis_name(axis));
    seen |= kCovers[at(axis)];
    const Digits part = digits(grid, rank, axis);
    std::vector<int> wider;
    wider.reserve(members.size() * part.members.size());
    for (const int digit : part.members) {
      for (const int member : members) wider.push_back(member - part.own + digit);
    }
    members = std::move(wider);
  }
  if (!std::is_sorted(members.begin(), members.end())) std::sort(members.begin(), members.end());
  std::vector<GlobalRank> ranks;
  ranks.reserve(members.size());
  for (const int member : members) ranks.push_back({member});
  return ranks;
}

bool Mesh::leads(Grid grid, GlobalRank rank, const std::vector<Axis>& axes) const {
  if (is_split() && std::ranges::count(axes, Axis::pp) > 0 &&
      coordinate(grid, rank, Axis::tp).value > 0)
    return false;
  return std::all_of(axes.begin(), axes.end(),
                     [&](Axis axis) { return coordinate(grid, rank, axis).value == 0; });
}

const Mesh& Mesh::side_of(GlobalRank rank, int& first) const {
  first = rank.value < front_->ranks() ? 0 : front_->ranks();
  return first == 0 ? *front_ : *back_;
}

int Mesh::rank_at(int tp, int cp, int dp, int pp) const {
  const std::array<int, kAxes>& strides = shape(Grid::attention).strides;
  return tp * strides[at(Axis::tp)] + cp * strides[at(Axis::cp)] + dp * strides[at(Axis::dp)] +
         pp * strides[at(Axis::pp)];
}

std::vector<GlobalRank> Mesh::split_group(Grid grid, GlobalRank rank,
                                          std::vector<Axis> axes) const {
  int first = 0;
  const Mesh& side = side_of(rank, first);
  std::vector<GlobalRank> ranks;
  const auto add = [&](const Mesh& mesh, int begin, int one) {
    for (const GlobalRank member : mesh.group(grid, {one}, axes))
      ranks.push_back({begin + member.value});
  };
  // Experts are on the back alone.
  if (grid == Grid::expert || std::ranges::count(axes, Axis::pp) == 0) {
    add(side, first, rank.value - first);
    return ranks;
  }
  if (std::ranges::count(axes, Axis::tp) == 0) axes.push_back(Axis::tp);
  const int cp = coordinate(rank, Axis::cp).value, dp = coordinate(rank, Axis::dp).value;
  add(*front_, 0, front_->rank_at(0, cp, dp, 0));
  add(*back_, front_->ranks(), back_->rank_at(0, cp, dp, 0));
  return ranks;
}

std::vector<GlobalRank> Mesh::places_in_stage(GlobalRank rank, int stage) const {
  const int cp = coordinate(rank, Axis::cp).value, dp = coordinate(rank, Axis::dp).value,
            tp = coordinate(rank, Axis::tp).value;
  if (!is_split()) return {{rank_at(tp, cp, dp, stage)}};
  int own_first = 0;
  const Mesh& own = side_of(rank, own_first);
  const bool in_front = stage < front_stages();
  const Mesh& other = in_front ? *front_ : *back_;
  const int first = in_front ? 0 : front_->ranks(),
            local = in_front ? stage : stage - front_stages(), own_size = own.size(Axis::tp),
            size = other.size(Axis::tp), count = std::max(1, size / own_size);
  std::vector<GlobalRank> ranks;
  for (int i = 0; i < count; ++i)
    ranks.push_back({first + other.rank_at(tp * size / own_size + i, cp, dp, local)});
  return ranks;
}

std::vector<GlobalRank> Mesh::at_each_stage(GlobalRank rank) const {
  std::vector<GlobalRank> ranks;
  for (int stage = 0; stage < size(Axis::pp); ++stage)
    ranks.push_back(places_in_stage(rank, stage).front());
  return ranks;
}

int Mesh::split_parts(GlobalRank rank) const {
  if (!is_split()) return 1;
  int first = 0;
  const int own = side_of(rank, first).size(Axis::tp),
            other = first == 0 ? back_->size(Axis::tp) : front_->size(Axis::tp);
  return std::max(1, own / other);
}

}  // namespace viaduct
