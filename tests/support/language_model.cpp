#include "support/language_model.h"

#include <algorithm>
#include <mutex>

#include "base/file.h"
#include "data/tokenizer/train_bpe.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/instruction_set.h"
#include "support/paths.h"

namespace viaduct::test {

LanguageModel::LanguageModel(const std::string& golden) {
  const auto source = test_data("golden") / golden / "model";
  for (const auto& file : std::filesystem::directory_iterator(source))
    std::filesystem::copy_file(file.path(), folder_ / file.path().filename());
  BpeTrainer trainer;
  trainer.add_text("the cat and the hat and the rat");
  write_tokenizer(trainer.train(262), folder_.path());
}

RunSetup LanguageModel::generation(std::vector<std::string> overrides) const {
  overrides.push_back("dist.threads_per_rank=1");
  overrides.push_back("dist.distributed_timeout_minutes=1");
  for (const std::string& isa : instruction_set_override()) overrides.push_back(isa);
  return prepare_inference({.model = path(), .overrides = overrides, .few_tokens = true});
}

std::vector<GeneratedText> generate_texts(
    const RunSetup& setup, const GenerationWork& work,
    const std::function<void(int rank, Device& device)>& started,
    const std::function<void(int rank, Device& device)>& done) {
  std::vector<GeneratedText> texts;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const int number = world->rank();
    const RankDevice rank = make_rank_device(setup.config.dist);
    GenerationHooks hooks;
    if (started) hooks.started = [&] { started(number, *rank.device); };
    hooks.finished = [&](const GeneratedText& text) { texts.push_back(text); };
    run_generation(setup, work, *rank.device, rank.ops, std::move(world), hooks);
    if (done) done(number, *rank.device);
  });
  std::sort(texts.begin(), texts.end(),
            [](const GeneratedText& a, const GeneratedText& b) { return a.number < b.number; });
  return texts;
}

}  // namespace viaduct::test
