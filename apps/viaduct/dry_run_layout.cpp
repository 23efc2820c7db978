#include "dry_run_layout.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/units.h"
#include "comm/group_kinds.h"
#include "pipeline/layer_map.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kAllGroupsUpTo = 64;  // ranks of a run whose groups are all shown

/// Whether experts are cut otherwise than the rest.
bool cuts_experts(const Mesh& mesh) {
  return mesh.size(Grid::expert, Axis::ep) > 1 ||
         mesh.size(Grid::expert, Axis::tp) != mesh.size(Axis::tp);
}

/// Kinds that the run has: those of experts where there are experts.
std::vector<GroupKind> shown_kinds(const Mesh& mesh) {
  const bool experts = cuts_experts(mesh);
  std::vector<GroupKind> kinds;
  for (int i = 0; i < kGroupKinds; ++i) {
    const auto kind = static_cast<GroupKind>(i);
    const std::string_view name = group_kind_name(kind);
    if (!experts && (name.starts_with("expert") || kind == GroupKind::ep)) continue;
    if (kind == GroupKind::tp_split && !mesh.is_split()) continue;
    if (kind == GroupKind::encoder_positions && mesh.parts().encoder_stages.empty()) continue;
    if (kind == GroupKind::decoder_positions && mesh.parts().decoder_stages.empty()) continue;
    kinds.push_back(kind);
  }
  return kinds;
}

/// "{0, 1}", "{0, 4, … 60}", and with domains "{0, 1} in 0", "{6, 7, 8} in 0 to 1".
std::string group_text(const std::vector<GlobalRank>& group, std::optional<int> domain) {
  constexpr size_t kMost = 8;
  std::string text = "{";
  for (size_t i = 0; i < group.size(); ++i) {
    if (group.size() > kMost && i == 2) {
      text += "… ";
      i = group.size() - 1;
    }
    text += fmt::format("{}{}", group[i].value, i + 1 < group.size() ? ", " : "");
  }
  text += "}";
  if (domain) {
    const int first = group.front().value / *domain, last = group.back().value / *domain;
    text += first == last ? fmt::format(" in {}", first) : fmt::format(" in {} to {}", first, last);
  }
  return text;
}

std::string chunk_text(const ChunkLayers& chunk) {
  std::vector<std::string> parts;
  const EncoderChunk& encoder = chunk.encoder;
  const bool tower = encoder.of_images;
  if (encoder.embedding)
    parts.emplace_back(tower ? "patches of the vision tower" : "embedding of the encoder");
  if (encoder.blocks == 1) parts.push_back(fmt::format("its block {}", encoder.first_block));
  if (encoder.blocks > 1) {
    parts.push_back(fmt::format("its blocks {} to {}", encoder.first_block,
                                encoder.first_block + encoder.blocks - 1));
  }
  if (encoder.norm) parts.emplace_back(tower ? "its projector" : "its norm");
  if (chunk.embedding) parts.emplace_back("embedding");
  if (chunk.blocks == 1) parts.push_back(fmt::format("block {}", chunk.first_block));
  if (chunk.blocks > 1) {
    parts.push_back(
        fmt::format("blocks {} to {}", chunk.first_block, chunk.first_block + chunk.blocks - 1));
  }
  if (chunk.head) parts.emplace_back("head");
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string mesh_text(const Mesh& mesh) {
  std::string text = fmt::format("tp {}, cp {}, dp {}, pp {}", mesh.size(Axis::tp),
                                 mesh.size(Axis::cp), mesh.size(Axis::dp), mesh.size(Axis::pp));
  if (mesh.is_split())
    text += fmt::format(" of which {} {} tp {}", mesh.front_stages(),
                        mesh.front_stages() == 1 ? "has" : "have", mesh.front_tp());
  if (cuts_experts(mesh)) {
    text += fmt::format(", ep {}, tp of experts {}", mesh.size(Grid::expert, Axis::ep),
                        mesh.size(Grid::expert, Axis::tp));
  }
  return text;
}

void print_groups(const Mesh& mesh, const DistConfig& dist) {
  fmt::print("groups of {}, order {}: {}{}\n", counted(mesh.ranks(), "rank"), dist.mesh_order(),
             mesh_text(mesh),
             dist.nvlink_domain_size ? fmt::format("; `in` is the domain of {}",
                                                   counted(*dist.nvlink_domain_size, "rank"))
                                     : "");
  std::vector<std::string_view> alone;
  for (const GroupKind kind : shown_kinds(mesh)) {
    const auto groups = all_groups(mesh, kind);
    const auto largest =
        std::max_element(groups.begin(), groups.end(),
                         [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (largest->size() == 1) {
      alone.push_back(group_kind_name(kind));
      continue;
    }
    fmt::print("  {:<18} {:>5} of {:<5}", group_kind_name(kind), groups.size(), largest->size());
    const size_t shown = mesh.ranks() <= kAllGroupsUpTo ? groups.size() : 1;
    for (size_t i = 0; i < shown; ++i)
      fmt::print(" {}", group_text(groups[i], dist.nvlink_domain_size));
    fmt::print("{}\n", shown < groups.size() ? " …" : "");
  }
  fmt::print("  each rank alone: {}\n", fmt::join(alone, ", "));
}

void print_layers(const Parallelism& parallelism) {
  const StageOrder order = parallelism.stage_order();
  const ScheduleSettings& schedule = parallelism.schedule;
  fmt::print("layer map of {} with {} each{}:\n", counted(order.pp, "stage"),
             counted(schedule.virtual_stages, "chunk"),
             schedule.has_front()
                 ? fmt::format(", but for {} in front, of an encoder, with one", order.front)
                 : "");
  for (int stage = 0; stage < order.pp; ++stage) {
    std::vector<std::string> chunks;
    for (const ChunkLayers& chunk : chunks_of_stage(parallelism.layer_map, order, stage))
      chunks.push_back(chunk_text(chunk));
    fmt::print("  stage {}: {}\n", stage, fmt::join(chunks, " | "));
  }
}

Json groups_json(const Mesh& mesh) {
  Json list = Json::array();
  for (const GroupKind kind : shown_kinds(mesh)) {
    const auto groups = all_groups(mesh, kind);
    Json ranks = Json::array();
    size_t largest = 0;
    for (const auto& group : groups) {
      largest = std::max(largest, group.size());
      if (mesh.ranks() > kAllGroupsUpTo && !ranks.empty()) continue;
      Json members = Json::array();
      for (const GlobalRank rank : group) members.push_back(rank.value);
      ranks.push_back(std::move(members));
    }
    list.push_back({{"kind", group_kind_name(kind)},
                    {"count", groups.size()},
                    {"size", largest},
                    {"complete", ranks.size() == groups.size()},
                    {"ranks", std::move(ranks)}});
  }
  return list;
}

Json layers_json(const Parallelism& parallelism) {
  Json list = Json::array();
  const StageOrder order = parallelism.stage_order();
  for (size_t i = 0; i < parallelism.layer_map.size(); ++i) {
    const ChunkLayers& chunk = parallelism.layer_map[i];
    const auto number = static_cast<int64_t>(i);
    list.push_back({{"stage", order.rank_of(number)},
                    {"chunk", order.chunk_of(number)},
                    {"embedding", chunk.embedding},
                    {"first", chunk.first_block},
                    {"count", chunk.blocks},
                    {"head", chunk.head}});
    if (const EncoderChunk& encoder = chunk.encoder; encoder.any()) {
      const bool tower = encoder.of_images;
      list.back()[tower ? "vision_tower" : "encoder"] = {
          {tower ? "patches" : "embedding", encoder.embedding},
          {"first", encoder.first_block},
          {"count", encoder.blocks},
          {tower ? "projector" : "norm", encoder.norm}};
    }
  }
  return list;
}

}  // namespace viaduct::cli
