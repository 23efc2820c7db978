#include "generate/generate.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

// Enough for the GEMMs' full speed; larger passes would only take memory.
constexpr int64_t kPassTokens = 2048;

using Ids = std::vector<int32_t>;

class PromptBatch {
 public:
  PromptBatch(Generator& generator, std::span<const Prompt> prompts, const GenerateOptions& options,
              TakeToken take)
      : generator_(generator), options_(options), take_(take), feeds_(prompts.size()) {
    const int64_t vocabulary = generator.model().config().vocabulary;
    for (const Prompt& prompt : prompts) sequences_.emplace_back(prompt, vocabulary);
  }

  /// Feeds the tokens of feeds_ and picks the next tokens, which are fed next.
  void step() {
    std::vector<size_t> fed;
    for (size_t i = 0; i < feeds_.size(); ++i) {
      if (!feeds_[i].empty()) fed.push_back(i);
    }
    const Ids chosen = generator_.step(feeds_, [&](int64_t i, std::span<const float> logits) {
      return sequences_[static_cast<size_t>(i)].choose(options_, logits);
    });
    for (size_t n = 0; n < fed.size(); ++n) {
      feeds_[fed[n]].clear();
      const size_t i = fed[n];
      const auto take = [&](int32_t id) { return take_(i, id); };
      if (sequences_[i].accept(options_, chosen[n], take)) feeds_[i] = {chosen[n]};
    }
  }

  void run(const std::vector<PromptPass>& passes) {
    std::vector<Ids> after(
        feeds_.size());  // first tokens, held until the other prompts have theirs
    for (const PromptPass& pass : passes) {
      for (size_t i = pass.begin; i < pass.end; ++i) {
        if (!sequences_[i].done()) feeds_[i] = sequences_[i].prompt().ids;
      }
      if (!waiting()) continue;
      step();
      for (size_t i = pass.begin; i < pass.end; ++i) after[i].swap(feeds_[i]);
    }
    feeds_.swap(after);
    while (waiting()) step();
  }

  std::vector<Generated> results() const {
    std::vector<Generated> all;
    for (const PromptSequence& sequence : sequences_) all.push_back(sequence.result());
    return all;
  }

 private:
  bool waiting() const {
    return std::any_of(feeds_.begin(), feeds_.end(), [](const Ids& ids) { return !ids.empty(); });
  }

  Generator& generator_;
  const GenerateOptions& options_;
  TakeToken take_;
  std::vector<PromptSequence> sequences_;
  std::vector<Ids> feeds_;  // the next input of each sequence; empty: it waits or is done
};

/// Drops what the generator has, for the sequences of these prompts.
void start(Generator& generator, std::span<const Prompt> prompts) {
  generator.use(prompts.front().adapter);
  if (!generator.model().config().encoder.any()) {
    generator.start(static_cast<int64_t>(prompts.size()));
    for (size_t i = 0; i < prompts.size(); ++i)
      generator.show(static_cast<int64_t>(i), prompts[i].images);
    return;
  }
  std::vector<Ids> inputs;
  for (const Prompt& prompt : prompts) inputs.push_back(prompt.input);
  generator.start_with(inputs);
}

}  // namespace

void check_prompts(const Generator& generator, std::span<const Prompt> prompts) {
  VIADUCT_CHECK(ConfigError, !prompts.empty(), "generate: no prompts");
  const bool encodes = generator.model().config().encoder.any();
  for (const Prompt& prompt : prompts) {
    VIADUCT_CHECK(ConfigError, prompt.input.empty() != encodes,
                  "generate: prompt {} has {} tokens for an encoder, and the model has {}",
                  prompt.number, prompt.input.size(), encodes ? "one" : "none");
    VIADUCT_CHECK(ConfigError, !prompt.ids.empty(), "generate: prompt {} has no tokens",
                  prompt.number);
    VIADUCT_CHECK(ConfigError,
                  prompt.max_new_tokens >= 0 &&
                      prompt.prompt_tokens() <= generator.positions() - prompt.max_new_tokens,
                  "generate: prompt {} of {} tokens and {} new ones do not fit into {} positions",
                  prompt.number, prompt.prompt_tokens(), prompt.max_new_tokens,
                  generator.positions());
    VIADUCT_CHECK(ConfigError, prompt.adapter == prompts.front().adapter,
                  "generate: prompts {} and {} of one batch have different adapters",
                  prompts.front().number, prompt.number);
  }
}

std::vector<PromptPass> prompt_passes(std::span<const Prompt> prompts) {
  std::vector<PromptPass> passes;
  int64_t tokens = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (passes.empty() || tokens + prompts[i].all_tokens() > kPassTokens) {
      passes.push_back({i, i});
      tokens = 0;
    }
    tokens += prompts[i].all_tokens();
    passes.back().end = i + 1;
  }
  return passes;
}

std::vector<Generated> generate(Generator& generator, std::span<const Prompt> prompts,
                                const GenerateOptions& options, TakeToken take) {
  check(options.sampling);
  check_prompts(generator, prompts);
  start(generator, prompts);
  PromptBatch batch(generator, prompts, options, take);
  batch.run(prompt_passes(prompts));
  return batch.results();
}

void rehearse(Generator& generator, std::span<const Prompt> prompts) {
  check_prompts(generator, prompts);
  start(generator, prompts);
  const auto nothing = [](int64_t, std::span<const float>) { return int32_t{0}; };
  std::vector<Ids> feeds(prompts.size());
  int64_t longest = 0;
  for (const PromptPass& pass : prompt_passes(prompts)) {
    bool any = false;
    for (size_t i = pass.begin; i < pass.end; ++i) {
      if (prompts[i].max_new_tokens == 0) continue;
      feeds[i] = prompts[i].ids;
      any = true;
    }
    if (any) generator.step(feeds, nothing);
    for (size_t i = pass.begin; i < pass.end; ++i) feeds[i].clear();
  }
  // The last token is chosen and not fed. No sequence stops before that.
  for (const Prompt& prompt : prompts)
    longest = std::max(longest, prompt.prompt_tokens() + prompt.max_new_tokens - 1);
  bool goes_on = false;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].max_new_tokens < 2) continue;
    feeds[i] = {0};
    goes_on = true;
  }
  if (!goes_on) return;
  generator.skip_to(longest - 1);
  generator.step(feeds, nothing);
}

}  // namespace viaduct
