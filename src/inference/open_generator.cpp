#include "inference/open_generator.h"

#include "engine/image_rows.h"
#include "generate/pass_tokens.h"
#include "run/adapter_setup.h"
#include "run/base_model.h"

namespace viaduct {
namespace {

/// Empty for a model that reads no images.
UploadImages upload_of(const VisionConfig& vision) {
  if (!vision.any()) return {};
  return [form = image_form(vision)](Device& device, const PassTokens& tokens,
                                     const ImageBatch& images, Batch& batch) {
    HostBatch rows;
    rows.ids = tokens.ids;
    rows.token_index = tokens.index;
    rows.document_offsets = tokens.offsets;
    rows.images = images;
    BatchPlace place;
    place.images = form;
    check_images(rows, form);
    batch.encoder = upload_images(device, rows, place);
    batch.images = upload_batch_images(device, rows, place);
  };
}

}  // namespace

Generator open_generator(const RunSetup& setup, const ResolvedRun& run, int64_t positions,
                         Device& device, const OpTable& ops, std::shared_ptr<Communicator> world) {
  const GeneratorSettings settings{run.layers, run.parallelism, run.memory, positions,
                                   upload_of(setup.model.vision)};
  Generator generator(device, ops, setup.model, settings, make_groups(run, std::move(world)));
  for (const NamedAdapter& adapter : setup.adapters) generator.add_adapter(adapter.settings);
  return generator;
}

void read_weights(Generator& generator, const RunSetup& setup, Communicator& world) {
  OpContext context = generator.context();
  read_checked_weights(context, generator.store(), setup, world);
  generator.store().make_derived_weights();
  for (size_t i = 0; i < setup.adapters.size(); ++i) {
    ParameterStore* own = generator.adapter_store(static_cast<int64_t>(i) + 1);
    if (own == nullptr) continue;  // no layer of this rank
    read_adapter_weights(context, *own, setup, setup.adapters[i]);
    own->make_derived_weights();
  }
}

}  // namespace viaduct
