#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "conv/conv.h"

namespace deform::ops {

template <c10::DeviceType device>
at::Tensor conv_autocast(const at::Tensor& value, const at::Tensor& offset,
                         const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, const ConvGeometry& geometry) {
  using Signature =
      at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                 const at::Tensor&, const std::optional<at::Tensor>&, int64_t, int64_t, int64_t,
                 int64_t, int64_t, int64_t, int64_t, int64_t);
  constexpr c10::DispatchKey kKey = device == c10::DeviceType::CPU ? c10::DispatchKey::AutocastCPU
                                                                   : c10::DispatchKey::AutocastCUDA;
  const c10::impl::ExcludeDispatchKeyGuard below_autocast{c10::DispatchKeySet(kKey)};
  const at::ScalarType type = at::autocast::get_autocast_dtype(device);
  const auto cast = [&](const at::Tensor& tensor) {
    return at::autocast::cached_cast(type, tensor, device);
  };
  const auto cast_if = [&](const std::optional<at::Tensor>& tensor) {
    return tensor ? std::optional<at::Tensor>(cast(*tensor)) : std::nullopt;
  };
  static const auto conv =
      c10::Dispatcher::singleton().findSchemaOrThrow("deform::conv", "").typed<Signature>();
  const ConvGeometry& g = geometry;
  return conv.call(cast(value), offset, cast_if(mask), cast(weight), cast_if(bias), g.stride_h,
                   g.stride_w, g.pad_h, g.pad_w, g.dilation_h, g.dilation_w, g.groups,
                   g.offset_groups);
}

template at::Tensor conv_autocast<c10::DeviceType::CPU>(const at::Tensor&, const at::Tensor&,
                                                        const std::optional<at::Tensor>&,
                                                        const at::Tensor&,
                                                        const std::optional<at::Tensor>&,
                                                        const ConvGeometry&);
template at::Tensor conv_autocast<c10::DeviceType::CUDA>(const at::Tensor&, const at::Tensor&,
                                                         const std::optional<at::Tensor>&,
                                                         const at::Tensor&,
                                                         const std::optional<at::Tensor>&,
                                                         const ConvGeometry&);

}  // namespace deform::ops
