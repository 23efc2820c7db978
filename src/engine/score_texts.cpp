#include "engine/score_texts.h"

#include <algorithm>

#include "base/error.h"
#include "engine/evaluation.h"
#include "engine/score_tokens.h"
#include "engine/text_batches.h"

namespace viaduct {
namespace {

bool begins(const std::vector<int32_t>& text, const std::vector<int32_t>& with) {
  return with.size() <= text.size() && std::equal(with.begin(), with.end(), text.begin());
}

/// What a rank found of a request.
struct PartialScore {
  double log_likelihood = 0, not_greedy = 0;
};

/// The sums over the ranks.
std::vector<TextLikelihood> merged(HostGroup& host, const std::vector<PartialScore>& mine) {
  constexpr size_t kAtOnce = 2048;  // figures of a message
  std::vector<TextLikelihood> scores(mine.size());
  for (size_t begin = 0; begin < mine.size(); begin += kAtOnce) {
    const size_t count = std::min(kAtOnce, mine.size() - begin);
    std::vector<HostFigure> figures;
    for (size_t i = 0; i < count; ++i) {
      figures.push_back({mine[begin + i].log_likelihood});
      figures.push_back({mine[begin + i].not_greedy});
    }
    const std::vector<FigureOfRanks> all = host.post(figures).wait();
    for (size_t i = 0; i < count; ++i) {
      scores[begin + i].log_likelihood = all[2 * i].sum;
      scores[begin + i].is_greedy = all[2 * i + 1].sum == 0;
    }
  }
  return scores;
}

}  // namespace

std::vector<TextToScore> join_texts(std::vector<TextToScore> texts) {
  std::stable_sort(texts.begin(), texts.end(), [](const TextToScore& a, const TextToScore& b) {
    return std::lexicographical_compare(a.ids.begin(), a.ids.end(), b.ids.begin(), b.ids.end());
  });
  // Texts that begin a text come before it, and each of them begins the next.
  std::vector<TextToScore> joined;
  for (auto text = texts.rbegin(); text != texts.rend(); ++text) {
    if (joined.empty() || !begins(joined.back().ids, text->ids)) {
      joined.push_back(std::move(*text));
      continue;
    }
    auto& targets = joined.back().targets;
    targets.insert(targets.end(), text->targets.begin(), text->targets.end());
  }
  std::stable_sort(joined.begin(), joined.end(), [](const TextToScore& a, const TextToScore& b) {
    return a.ids.size() > b.ids.size();
  });
  return joined;
}

std::optional<std::vector<TextLikelihood>> score_texts(Engine& engine,
                                                       const std::vector<TextToScore>& texts,
                                                       const ScoringSettings& settings,
                                                       const ScoringHooks& hooks) {
  const ParallelGroups& groups = engine.groups();
  const BatchPlace place = engine.batch_place();
  const TextBatches batches(
      texts,
      {.tokens = settings.micro_batch_tokens, .longest = engine.run().positions, .cp = place.cp});
  const int64_t ranks = groups.dp().size(), rank = groups.dp().rank();
  const int64_t count = (batches.count() + ranks - 1) / ranks;
  const int64_t at_once = evaluated_at_once(groups.stages());
  // Every tensor rank has the same logits.
  const bool counts = groups.tp().rank() == 0;
  std::vector<PartialScore> mine(settings.requests);
  for (int64_t begin = 0; begin < count; begin += at_once) {
    if (hooks.stop && hooks.stop()) return std::nullopt;
    const int64_t end = std::min(count, begin + at_once);
    const auto number = [&](int64_t i) { return (begin + i) * ranks + rank; };
    int64_t next = 0;
    const auto head = [&](const HeadSegment& segment, const Tensor& stream) {
      const int64_t batch = number(next++);
      const auto found = score_tokens(
          engine, segment, stream, batches.batch(batch).document_offsets, batches.targets(batch));
      for (const TokenScore& token : found) {
        if (!counts) continue;
        PartialScore& score = mine.at(token.request);
        score.log_likelihood += token.log_probability;
        score.not_greedy += token.is_greedy ? 0 : 1;
      }
    };
    engine.forward_all(
        end - begin, [&](int64_t i) { return batches.batch(number(i)); }, head);
    if (hooks.progress) hooks.progress(end, count);
  }
  return merged(groups.world().host(), mine);
}

}  // namespace viaduct
