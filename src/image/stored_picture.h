#pragma once
// What the readers of files give: a picture as it is stored, and its EXIF data.

#include <string>

#include "image/picture.h"

namespace viaduct {

struct StoredPicture {
  Picture picture;   // not turned yet
  std::string exif;  // as stored; "" without any
};

}  // namespace viaduct
