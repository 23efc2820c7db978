#include "engine/document_sharing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>

#include "base/error.h"

namespace viaduct {
namespace {

int ranks_for(int64_t length, const SharingSettings& settings) {
  int64_t ranks = 1;
  while (ranks * settings.tokens_per_rank < length) ranks *= 2;
  VIADUCT_CHECK(ShapeError, ranks <= settings.ranks,
                "hybrid context parallel: a document of {} tokens does not fit {} data and context "
                "ranks of {} tokens each (model.max_seqlen_per_dp_cp_rank)",
                length, settings.ranks, settings.tokens_per_rank);
  return static_cast<int>(ranks);
}

/// A micro-batch before it has ranks.
struct Work {
  std::vector<int64_t> documents;
  double cost = 0;
};

/// Packs documents of one rank each, longest first: each goes into the fullest pack with room for
/// it.
std::vector<Work> packed(const std::vector<int64_t>& documents, std::span<const int64_t> lengths,
                         const SharingSettings& settings) {
  std::vector<Work> packs;
  std::multimap<int64_t, size_t> room;  // of each pack
  for (const int64_t document : documents) {
    const int64_t length = lengths[static_cast<size_t>(document)];
    auto place = room.lower_bound(length);
    if (place == room.end()) {
      packs.emplace_back();
      place = room.emplace(settings.tokens_per_rank, packs.size() - 1);
    }
    const auto [left, pack] = *place;
    room.erase(place);
    room.emplace(left - length, pack);
    packs[pack].documents.push_back(document);
    packs[pack].cost += settings.cost(length);
  }
  return packs;
}

/// Assigns each micro-batch of `size` ranks to the least loaded range of ranks.
void give_out(std::vector<Work> work, int size, std::vector<double>& load,
              std::vector<SharedDocuments>& shared) {
  std::stable_sort(work.begin(), work.end(),
                   [](const Work& a, const Work& b) { return a.cost > b.cost; });
  using Run = std::pair<double, int>;  // time until which its ranks are busy, and its first rank
  std::priority_queue<Run, std::vector<Run>, std::greater<>> runs;
  for (size_t first = 0; first < load.size(); first += static_cast<size_t>(size)) {
    const auto begin = load.begin() + static_cast<std::ptrdiff_t>(first);
    runs.emplace(*std::max_element(begin, begin + size), static_cast<int>(first));
  }
  for (Work& one : work) {
    const auto [busy, first] = runs.top();
    runs.pop();
    const double until = busy + one.cost / size;
    std::fill_n(load.begin() + first, size, until);
    runs.emplace(until, first);
    shared.push_back({first, size, std::move(one.documents)});
  }
}

}  // namespace

std::vector<SharedDocuments> share_documents(std::span<const int64_t> lengths,
                                             const SharingSettings& settings) {
  std::vector<int64_t> longest_first(lengths.size());
  std::iota(longest_first.begin(), longest_first.end(), 0);
  std::stable_sort(longest_first.begin(), longest_first.end(), [&](int64_t a, int64_t b) {
    return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)];
  });
  std::map<int, std::vector<int64_t>, std::greater<>> by_ranks;
  for (const int64_t document : longest_first) {
    const int64_t length = lengths[static_cast<size_t>(document)];
    if (length > 0) by_ranks[ranks_for(length, settings)].push_back(document);
  }
  std::vector<SharedDocuments> shared;
  std::vector<double> load(static_cast<size_t>(settings.ranks));
  for (const auto& [size, documents] : by_ranks) {
    std::vector<Work> work;
    if (size == 1) {
      work = packed(documents, lengths, settings);
    } else {
      for (const int64_t document : documents)
        work.push_back({{document}, settings.cost(lengths[static_cast<size_t>(document)])});
    }
    give_out(std::move(work), size, load, shared);
  }
  for (int rank = 0; rank < settings.ranks; ++rank) {
    if (load[static_cast<size_t>(rank)] == 0) shared.push_back({rank, 1, {}});
  }
  return shared;
}

}  // namespace viaduct
