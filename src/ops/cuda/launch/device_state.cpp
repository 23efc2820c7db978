// State that launches keep from call to call is in the device.

#include "device/cuda/cuda_device.h"
#include "ops/cuda/launch/attention_library.h"
#include "ops/cuda/launch/product_library.h"

namespace viaduct::cuda {

ProductLibrary& product_library(OpContext& context) {
  return dynamic_cast<CudaDevice&>(context.device).state<ProductLibrary>();
}

AttentionLibrary& attention_library(OpContext& context) {
  return dynamic_cast<CudaDevice&>(context.device).state<AttentionLibrary>();
}

}  // namespace viaduct::cuda
