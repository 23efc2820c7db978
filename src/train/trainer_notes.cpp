// What a run says at its start about its data and its schedule.

#include <algorithm>

#include "base/log.h"
#include "base/units.h"
#include "checkpoint/model_folder.h"
#include "data/tokenizer/llama_pipeline.h"
#include "data/tokenizer/qwen2_pipeline.h"
#include "train/trainer.h"

namespace viaduct {

void Trainer::note_data() {
  const std::vector<DataUse> uses = data_->use();
  const int64_t row_tokens = config_.model.seq_length.value();
  if (const std::string text = data_use_text(uses, row_tokens); !text.empty()) log_->note(text);
  if (const std::string text = data_use_warning(uses, row_tokens); !text.empty())
    log_->note("warning: " + text);
  if (!leads()) return;
  for (const std::string& text : data_->conversation_texts()) log_->note(text);
  if (setup_.tokenizer) {
    const bool colours = hooks_.display_colours;
    const std::string text = data_->row_text(state_.consumed_samples, *setup_.tokenizer, colours);
    if (!text.empty()) {
      log_->note(fmt::format("the first row, what is scored in {}: {}",
                             colours ? "green" : "brackets", text));
    }
  }
  for (const std::string& text : data_->separator_warnings()) log_->note("warning: " + text);
  for (const std::string& text : data_->template_warnings(setup_.tokenizer_folder))
    log_->note("warning: " + text);
  if (!setup_.tokenizer_folder.empty()) {
    const TokenizerFiles files = open_tokenizer_files(setup_.tokenizer_folder);
    for (const std::string& text :
         {setup_.model.family == "qwen2" ? qwen2_pipeline_warning(files) : std::string(),
          llama_pipeline_warning(files)})
      if (!text.empty()) log_->note("warning: " + text);
  }
}

void Trainer::note_end_of_schedule() const {
  const LearningRateSchedule& rate = schedules_.learning_rate;
  if (!leads() || state_.step == 0 || state_.step >= total_steps_ || config_.train.skip_train ||
      rate.style == DecayStyle::constant)
    return;
  const int64_t left = batches_.samples_after(total_steps_ - state_.step, state_.consumed_samples) -
                       state_.consumed_samples;
  const int64_t end = state_.schedule_samples + left;
  const auto& scheduler = config_.scheduler;
  const auto decay = static_cast<int64_t>(rate.decay_samples);
  // A decay that follows the run's length counts rows in today's batches.
  if (decay < end && scheduler.lr_decay_iters == config_.train.train_iters) {
    log_warning(
        "the learning rate is optimizer.min_lr = {:.4g} for the last {} rows: its decay takes {}, "
        "and the run ends after {}; scheduler.lr_decay_samples={} ends both together",
        rate.minimum_rate, end - std::max(decay, state_.schedule_samples), counted(decay, "row"),
        end, end);
    return;
  }
  const double last = rate.rate(end);
  if (last - rate.minimum_rate <= 0.01 * (rate.maximum_rate - rate.minimum_rate)) return;
  log_warning(
      "the run ends at a learning rate of {:.4g}, not at optimizer.min_lr = {:.4g}: its decay "
      "takes {}, and the run ends after {} (scheduler.lr_decay_iters, scheduler.lr_decay_samples)",
      last, rate.minimum_rate, counted(decay, "row"), end);
}

}  // namespace viaduct
