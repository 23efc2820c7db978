#include "model/vision_fields.h"

namespace viaduct {
namespace {

constexpr std::string_view kTrains = "other parts of the model train from here on";

}  // namespace

void add_vision_fields(FieldGroup& group, VisionFields& fields) {
  group
      .field("read_images", fields.read_images,
             "Of a model folder that takes images (LLaVA, Gemma 3), its vision tower and projector "
             "are part "
             "of the run; false: its text model alone.")
      .on_resume(resume::other_shapes)
      .idle([&fields] { return !fields.folder_takes_images; },
            "the model comes from no folder whose layers for images are implemented");
  group.idle([&fields] { return reason_if(!fields.reads, "the model reads no images"); });
  group
      .field("freeze_language_model", fields.freeze_language_model,
             "read_images: the text model keeps its weights: no gradients, masters or moments.")
      .on_resume(resume::refused(kTrains));
  group
      .field("freeze_vision_model", fields.freeze_vision_model,
             "read_images: the vision tower keeps its weights; nothing of it is kept for a "
             "backward.")
      .on_resume(resume::refused(kTrains));
  group
      .field("freeze_vision_projection", fields.freeze_vision_projection,
             "read_images: the projector from the tower to the text model keeps its weights.")
      .constraint("not together with both other parts: one of them has to train")
      .on_resume(resume::refused(kTrains));
  group.idle({});
}

void set_vision(const VisionFields& fields, VisionConfig& vision) {
  vision.freeze_text = fields.freeze_language_model;
  vision.freeze_tower = fields.freeze_vision_model;
  vision.freeze_projector = fields.freeze_vision_projection;
}

}  // namespace viaduct
