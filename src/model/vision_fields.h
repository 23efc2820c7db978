#pragma once
// The fields of section `model` about images: whether a folder's layers for them are part of the
// run, and which parts train.

#include "config/field.h"
#include "model/model_config.h"

namespace viaduct {

struct VisionFields {
  bool read_images = true;
  bool freeze_language_model = false;
  bool freeze_vision_model = false;
  bool freeze_vision_projection = false;
  /// Whether the folder that the architecture comes from takes images, and whether they are read;
  /// no fields.
  bool folder_takes_images = false, reads = false;

  ImageLayers layers() const { return read_images ? ImageLayers::read : ImageLayers::left_out; }
};

void add_vision_fields(FieldGroup& group, VisionFields& fields);

/// Which parts of a model that reads images train.
void set_vision(const VisionFields& fields, VisionConfig& vision);

}  // namespace viaduct
