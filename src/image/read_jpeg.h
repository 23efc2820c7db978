#pragma once
// JPEG by libjpeg (ITU-T T.81), baseline and progressive.

#include <string>
#include <string_view>

#include "image/stored_picture.h"

namespace viaduct {

/// The picture in RGB, of a grey one too, with libjpeg's exact integer transform and its smooth
/// widening of colours, as PIL. IoError that begins with `name`, for CMYK and YCCK by their names,
/// and for data that are damaged, which libjpeg itself would fill with grey.
StoredPicture read_jpeg(std::string_view bytes, const std::string& name,
                        const PictureLimits& limits);

}  // namespace viaduct
