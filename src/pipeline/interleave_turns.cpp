#include "pipeline/interleave_turns.h"

#include <algorithm>

namespace viaduct {
namespace {

/// The actions that run until the other micro-batch's turn.
using Turn = ActionList;
using Turns = std::vector<Turn>;

/// The range of an action cut at the places inside of it, in ascending order.
std::vector<SegmentRange> pieces(const SegmentRange& range, const std::vector<int>& places) {
  std::vector<SegmentRange> list{range};
  for (const int place : places) {
    if (place <= list.back().begin || place >= list.back().end) continue;
    list.push_back({place, list.back().end});
    list[list.size() - 2].end = place;
  }
  return list;
}

Turns forward_turns(const Action& forward, const std::vector<int>& places) {
  Turns turns;
  for (const SegmentRange& range : pieces(forward.segments, places)) {
    Action piece = forward;
    piece.segments = range;
    piece.combined = false;
    if (!turns.empty()) piece.begins = -1;
    turns.push_back({piece});
  }
  return turns;
}

/// Both halves of a range that ends with a pending exchange: the weight half overlaps with it.
void add_in_halves(Turn& turn, Action whole, bool ends_with_head) {
  if (ends_with_head && whole.segments.end == SegmentRange::kEnd) {
    turn.push_back(whole);
    turn.back().segments = kLastSegment;
    whole.segments.end = kLastSegment.begin;
  }
  for (const ActionKind half : {ActionKind::backward_input, ActionKind::backward_weight}) {
    whole.kind = half;
    turn.push_back(whole);
  }
}

/// Of backward actions that follow each other: the halves of a chunk's head may be apart.
Turns backward_turns(const ActionList& backwards, const ChunkTurns& chunk, bool in_halves) {
  Turns turns(1);
  for (const Action& backward : backwards) {
    std::vector<SegmentRange> ranges = pieces(backward.segments, chunk.places);
    std::reverse(ranges.begin(), ranges.end());
    for (size_t i = 0; i < ranges.size(); ++i) {
      const bool last = i + 1 == ranges.size();
      Action piece = backward;
      piece.segments = ranges[i];
      if (!last) piece.last_gradient = false, piece.reduces = -1;
      if (i > 0) turns.emplace_back();
      if (in_halves && !last && piece.kind == ActionKind::backward) {
        add_in_halves(turns.back(), piece, chunk.ends_with_head);
      } else {
        turns.back().push_back(piece);
      }
    }
  }
  return turns;
}

}  // namespace

ActionList interleave_turns(const ActionList& actions, const std::vector<ChunkTurns>& turns,
                            bool delays_weights) {
  const auto chunk_of = [&](const Action& action) -> const ChunkTurns& {
    return turns[static_cast<size_t>(action.chunk)];
  };
  ActionList list;
  const auto add = [&](const Turns& all, size_t i) {
    if (i < all.size()) list.insert(list.end(), all[i].begin(), all[i].end());
  };
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    Turns forward;
    if (action.kind == ActionKind::forward && action.combined) {
      forward = forward_turns(action, chunk_of(action).places);
      ++i;
    } else if (action.kind != ActionKind::backward || !delays_weights) {
      list.push_back(action);
      continue;
    }
    ActionList backwards;
    const Action& first = actions[i];
    for (; i < actions.size() && (actions[i].kind == ActionKind::backward ||
                                  actions[i].kind == ActionKind::backward_input);
         ++i) {
      if (actions[i].micro_batch != first.micro_batch || actions[i].chunk != first.chunk) break;
      backwards.push_back(actions[i]);
    }
    --i;
    const Turns backward = backward_turns(backwards, chunk_of(first), delays_weights);
    for (size_t turn = 0; turn < std::max(forward.size(), backward.size()); ++turn)
      add(backward, turn), add(forward, turn);
  }
  return list;
}

}  // namespace viaduct
