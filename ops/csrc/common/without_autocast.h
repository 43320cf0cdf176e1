// Keeps a function's own tensor operations in the types that it gives them.
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace deform::ops {

// While one lives, this thread's tensor operations aren't cast by autocast, on any device.
class WithoutAutocast {
 private:
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::autocast_dispatch_keyset};
};

}  // namespace deform::ops
