#include <ATen/core/Tensor.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/upsample_bilinear2d.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "pipeline/huggingface_arithmetic.h"
#include "pipeline/task_answers.h"

namespace deform::pipeline {

SegmentationResult HuggingFaceSemanticAnswer(const Mask2FormerOutputs& outputs,
                                             const AnswerContext& context) {
  const at::Tensor class_logits = at::from_blob(const_cast<float*>(outputs.class_logits),
                                                {1, outputs.queries, outputs.classes + 1});
  const at::Tensor mask_logits = at::from_blob(const_cast<float*>(outputs.mask_logits),
                                               {1, outputs.queries, outputs.height, outputs.width});
  const at::Tensor class_values = at::einsum(
      "bqc, bqhw -> bchw", {at::softmax(class_logits, -1).narrow(-1, 0, outputs.classes),
                            at::sigmoid(at::upsample_bilinear2d(
                                mask_logits, {kHuggingFaceMaskSide, kHuggingFaceMaskSide},
                                /*align_corners=*/false))});

  // One class at a time: all classes of a large picture would take gigabytes.
  const PictureGeometry& geometry = context.geometry;
  const size_t pixels = static_cast<size_t>(geometry.width) * geometry.height;
  std::vector<int32_t> label_map(pixels, 0);
  std::vector<float> best(pixels, -1.0f);
  for (int32_t label_id = 0; label_id < outputs.classes; ++label_id) {
    const at::Tensor values = at::upsample_bilinear2d(class_values.narrow(1, label_id, 1),
                                                      {geometry.height, geometry.width},
                                                      /*align_corners=*/false)
                                  .contiguous();
    const float* value = values.const_data_ptr<float>();
    for (size_t i = 0; i < pixels; ++i) {
      if (value[i] > best[i]) {
        best[i] = value[i];
        label_map[i] = label_id;
      }
    }
  }
  return SemanticResult(context, std::move(label_map), best);
}

}  // namespace deform::pipeline
