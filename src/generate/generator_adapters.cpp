// Several adapters beside the model of a generator.

#include "base/error.h"
#include "generate/generator.h"

namespace viaduct {

int64_t Generator::add_adapter(const AdapterSettings& adapters) {
  VIADUCT_CHECK(ShapeError, store_ != nullptr,
                "generate: a borrowed model has no adapters beside it");
  VIADUCT_CHECK(ConfigError, !together_,
                "--adapter: several adapters, of which prompts name one, and replicas of the model "
                "that share experts (model.expert_model_parallel_size, "
                "model.expert_tensor_parallel_size): rows of one adapter would meet another's; "
                "expected one replica, or experts whole in each");
  adapted_.push_back(
      std::make_unique<AdaptedModel>(context(), model_->config(), adapters,
                                     AdaptedModel::Beside{.model = *model_,
                                                          .store = *store_,
                                                          .layers = settings_.layers,
                                                          .parallelism = settings_.parallelism,
                                                          .memory = settings_.memory,
                                                          .groups = groups_,
                                                          .positions = settings_.positions}));
  return this->adapters();
}

AdaptedModel& Generator::adapted(int64_t number) {
  VIADUCT_CHECK(ShapeError, number > 0 && number <= adapters(),
                "generate: adapter {} of {}, which begin with 1", number, adapters());
  return *adapted_[static_cast<size_t>(number - 1)];
}

bool Generator::use(int64_t number) {
  if (number == in_use_) return false;
  if (number != 0) (void)adapted(number);
  in_use_ = number;
  start(sequences());
  return true;
}

const Model& Generator::model_in_use() const {
  return in_use_ == 0 ? *model_ : adapted_[static_cast<size_t>(in_use_ - 1)]->model();
}

RankContext Generator::pass_context() {
  RankContext context = borrowed_ ? borrowed_->context
                                  : RankContext{.ops = this->context(),
                                                .weights = *store_,
                                                .groups = groups_,
                                                .settings = settings_.layers};
  if (!borrowed_) {
    factors_.begin(store_->generation());
    context.magnitude_factors = &factors_;
  }
  context.cache = cache_.get();
  context.cross_cache = cross_.get();
  if (in_use_ == 0) return context;
  AdaptedModel& model = adapted(in_use_);
  RankContext of_adapter{.ops = context.ops,
                         .weights = model.weights(),
                         .groups = groups_,
                         .settings = model.layers(),
                         .cache = context.cache,
                         .magnitude_factors = &model.factors()};
  return of_adapter;
}

}  // namespace viaduct
