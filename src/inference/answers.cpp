#include "inference/answers.h"

#include "base/clock.h"
#include "generate/kept_sequence.h"
#include "generate/stop_text.h"
#include "inference/open_generator.h"
#include "run/resolved_run.h"
#include "run/same_settings.h"

namespace viaduct {
namespace {

/// Closes the relay however rank 0 ends, so that nobody waits for it.
class ClosesRelay {
 public:
  explicit ClosesRelay(PromptRelay& relay) : relay_(relay) {}
  ~ClosesRelay() { relay_.close(); }
  ClosesRelay(const ClosesRelay&) = delete;
  ClosesRelay& operator=(const ClosesRelay&) = delete;

 private:
  PromptRelay& relay_;
};

/// All ranks of the model make the same call: each decodes the text, and finds the same end.
Answer answer(KeptSequence& kept, const Tokenizer& tokenizer, const AnswerWork& work,
              const Prompt& prompt, FunctionRef<void(const std::string&)> piece) {
  Answer answer;
  StopText stream(tokenizer, work.stops);
  const auto add = [&](const std::string& more) {
    answer.text += more;
    if (!more.empty()) piece(more);
  };
  const double begin = steady_seconds();
  bool first = true;
  answer.generated = kept.answer(prompt, work.options, [&](int32_t id) {
    if (std::exchange(first, false)) answer.prompt_seconds = steady_seconds() - begin;
    add(stream.push(id));
    return !stream.stopped_by();
  });
  add(stream.finish());
  answer.seconds = steady_seconds() - begin;
  if (first) answer.prompt_seconds = answer.seconds;
  answer.reused_tokens = kept.reused();
  answer.stop_string = stream.stopped_by();
  if (answer.stop_string) answer.generated.reason = StopReason::stop_string;
  return answer;
}

}  // namespace

void PromptRelay::publish(const Prompt& prompt) {
  const std::lock_guard lock(mutex_);
  prompt_ = prompt;
  ++published_;
  changed_.notify_all();
}

void PromptRelay::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::optional<Prompt> PromptRelay::next(int64_t seen) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return published_ > seen || closed_; });
  if (published_ == seen) return std::nullopt;
  return prompt_;
}

void run_answers(const RunSetup& setup, const AnswerWork& work, Device& device, const OpTable& ops,
                 std::shared_ptr<Communicator> world, PromptRelay& relay,
                 FunctionRef<void(AnswerPrompt)> lead) {
  world->record_on(&device);
  check_same_settings(world->host(), setup.config);
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  Generator generator = open_generator(setup, run, setup.model.max_positions, device, ops, world);
  read_weights(generator, setup, *world);
  KeptSequence kept(generator);
  // Behind this, a rank that fails does so in an operation that others are in, or ends the relay.
  world->barrier();
  if (world->rank() == 0) {
    const ClosesRelay closes(relay);
    lead([&](const Prompt& prompt, FunctionRef<void(const std::string&)> piece) {
      relay.publish(prompt);
      return answer(kept, *setup.tokenizer, work, prompt, piece);
    });
    return;
  }
  const auto nobody = [](const std::string&) {};
  int64_t seen = 0;
  while (const auto prompt = relay.next(seen++))
    answer(kept, *setup.tokenizer, work, *prompt, nobody);
}

}  // namespace viaduct
