#include <vector>

#include "inference/grpc_service.grpc.pb.h"
#include "unit/rpc/rpc_fixture.h"

namespace deform::rpc {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;

class InferenceCallTest : public RpcFixture {
 protected:
  void StartInference() {
    Server::Options options;
    options.version = "1.2.3";
    ASSERT_NO_FATAL_FAILURE(Start({}, options));
    inference_ = inference::GRPCInferenceService::NewStub(channel_);
  }

  // `rows` pictures for "shapes" as raw contents.
  static ModelInferRequest TensorRequest(int rows) {
    ModelInferRequest request;
    request.set_model_name("shapes");
    request.set_id("17");
    auto& input = *request.add_inputs();
    input.set_name("pixel_values");
    input.set_datatype("FP32");
    for (const int64_t size : {rows, 3, 8, 8}) input.add_shape(size);
    request.add_raw_input_contents(std::string(rows * 3 * 8 * 8 * sizeof(float), '\0'));
    return request;
  }

  grpc::Status Infer(const ModelInferRequest& request, ModelInferResponse* response = nullptr) {
    grpc::ClientContext context;
    ModelInferResponse own;
    return inference_->ModelInfer(&context, request, response != nullptr ? response : &own);
  }

  bool ModelIsReady(const std::string& name, const std::string& version) {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(name);
    request.set_version(version);
    inference::ModelReadyResponse response;
    EXPECT_TRUE(inference_->ModelReady(&context, request, &response).ok());
    return response.ready();
  }

  bool ServerIsReady() {
    grpc::ClientContext context;
    inference::ServerReadyResponse response;
    EXPECT_TRUE(inference_->ServerReady(&context, {}, &response).ok());
    return response.ready();
  }

  std::unique_ptr<inference::GRPCInferenceService::Stub> inference_;
};

TEST_F(InferenceCallTest, TheServerIsLiveBeforeItIsReady) {
  ASSERT_NO_FATAL_FAILURE(StartInference());
  grpc::ClientContext context;
  inference::ServerLiveResponse live;
  ASSERT_TRUE(inference_->ServerLive(&context, {}, &live).ok());
  EXPECT_TRUE(live.live());
  EXPECT_FALSE(ServerIsReady());
  server_->SetReady(true);
  EXPECT_TRUE(ServerIsReady());
  server_->StartDraining();
  EXPECT_FALSE(ServerIsReady());
}

TEST_F(InferenceCallTest, AModelIsReadyInTheVersionItHas) {
  ASSERT_NO_FATAL_FAILURE(StartInference());
  EXPECT_TRUE(ModelIsReady("shapes", ""));
  EXPECT_TRUE(ModelIsReady("shapes", "3"));
  EXPECT_FALSE(ModelIsReady("shapes", "2"));
  EXPECT_FALSE(ModelIsReady("shades", ""));
  server_->StartDraining();
  EXPECT_FALSE(ModelIsReady("shapes", ""));
}

TEST_F(InferenceCallTest, AVersionThatIsNoNumberIsRefused) {
  ASSERT_NO_FATAL_FAILURE(StartInference());
  grpc::ClientContext context;
  inference::ModelReadyRequest request;
  request.set_name("shapes");
  request.set_version("latest");
  inference::ModelReadyResponse response;
  const grpc::Status status = inference_->ModelReady(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReceivedDetails(status).field(), "version");
}

TEST_F(InferenceCallTest, MetadataTellsTheServer) {
  ASSERT_NO_FATAL_FAILURE(StartInference());
  grpc::ClientContext context;
  inference::ServerMetadataResponse metadata;
  ASSERT_TRUE(inference_->ServerMetadata(&context, {}, &metadata).ok());
  EXPECT_EQ(metadata.name(), "deform-server");
  EXPECT_EQ(metadata.version(), "1.2.3");
}

TEST_F(InferenceCallTest, MetadataTellsTheNetworksTensorsWithTheBatch) {
  ASSERT_NO_FATAL_FAILURE(StartInference());
  grpc::ClientContext context;
  inference::ModelMetadataRequest request;
  request.set_name("shapes");
  inference::ModelMetadataResponse metadata;
  ASSERT_TRUE(inference_->ModelMetadata(&context, request, &metadata).ok());
  ASSERT_EQ(metadata.versions_size(), 1);
  EXPECT_EQ(metadata.versions(0), "3");
  ASSERT_EQ(metadata.inputs_size(), 1);
  EXPECT_EQ(metadata.inputs(0).name(), "pixel_values");
  EXPECT_EQ(metadata.inputs(0).datatype(), "FP32");
  EXPECT_EQ(
      std::vector<int64_t>(metadata.inputs(0).shape().begin(), metadata.inputs(0).shape().end()),
      (std::vector<int64_t>{-1, 3, 8, 8}));
  ASSERT_EQ(metadata.outputs_size(), 2);
  EXPECT_EQ(metadata.outputs(0).name(), "class_queries_logits");

  grpc::ClientContext unknown_context;
  request.set_name("shades");
  EXPECT_EQ(inference_->ModelMetadata(&unknown_context, request, &metadata).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(InferenceCallTest, InferReturnsEveryOutputRaw) {
  ASSERT_NO_FATAL_FAILURE(StartInference());
  ModelInferResponse response;
  const grpc::Status status = Infer(TensorRequest(2), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.id(), "17");
  EXPECT_EQ(response.model_name(), "shapes");
  EXPECT_EQ(response.model_version(), "3");
  ASSERT_EQ(response.outputs_size(), 2);
  ASSERT_EQ(response.raw_output_contents_size(), 2);
  EXPECT_EQ(response.outputs(0).name(), "class_queries_logits");
  EXPECT_EQ(response.outputs(1).shape(0), 2);
  EXPECT_EQ(response.outputs(1).shape(3), 4);
  EXPECT_FALSE(response.outputs(0).has_contents());
  const engine::Tensor input = engine::Tensor::Allocate(engine::DType::kFloat32, {2, 3, 8, 8});
  const auto expected = testing::FindDiskOnTheLeft({&input, 1});
  for (int i = 0; i < 2; ++i) {
    const engine::Tensor& tensor = (*expected)[i];
    EXPECT_EQ(response.raw_output_contents(i),
              std::string(static_cast<const char*>(tensor.data()), tensor.bytes()));
  }
}

TEST_F(InferenceCallTest, InferReturnsTheOutputsAskedForInTheirOrder) {
  ASSERT_NO_FATAL_FAILURE(StartInference());
  ModelInferRequest request = TensorRequest(1);
  request.add_outputs()->set_name("masks_queries_logits");
  request.add_outputs()->set_name("class_queries_logits");
  ModelInferResponse response;
  ASSERT_TRUE(Infer(request, &response).ok());
  ASSERT_EQ(response.outputs_size(), 2);
  EXPECT_EQ(response.outputs(0).name(), "masks_queries_logits");
  EXPECT_EQ(response.raw_output_contents(0).size(), 2 * 4 * 4 * sizeof(float));
  EXPECT_EQ(response.raw_output_contents(1).size(), 2 * 3 * sizeof(float));
}

TEST_F(InferenceCallTest, OutputsThatTheModelLacksAreRefusedBeforeItRuns) {
  ASSERT_NO_FATAL_FAILURE(StartInference());
  loader_.network("shapes")->ForgetBatches();
  ModelInferRequest request = TensorRequest(1);
  request.add_outputs()->set_name("boxes");
  const grpc::Status status = Infer(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReceivedDetails(status).field(), "outputs[0].name");
  EXPECT_TRUE(loader_.network("shapes")->batches().empty());
}

TEST_F(InferenceCallTest, TensorsThatTheNetworkDoesNotTakeNeverReachIt) {
  ASSERT_NO_FATAL_FAILURE(StartInference());
  loader_.network("shapes")->ForgetBatches();
  std::vector<ModelInferRequest> requests;
  requests.push_back(TensorRequest(0));
  requests.push_back(TensorRequest(9));  // of at most 8
  requests.push_back(TensorRequest(1));  // one byte short
  requests.back().mutable_raw_input_contents(0)->pop_back();
  requests.push_back(TensorRequest(1));  // one byte long
  requests.back().mutable_raw_input_contents(0)->push_back('\0');
  requests.push_back(TensorRequest(1));  // another height, of the right size
  requests.back().mutable_inputs(0)->set_shape(2, 4);
  requests.back().mutable_inputs(0)->set_shape(3, 16);
  requests.push_back(TensorRequest(1));  // rank 3, of the right size
  requests.back().mutable_inputs(0)->clear_shape();
  for (const int64_t size : {3, 8, 8}) requests.back().mutable_inputs(0)->add_shape(size);
  requests.push_back(TensorRequest(1));  // INT32 is as long as FP32
  requests.back().mutable_inputs(0)->set_datatype("INT32");
  requests.push_back(TensorRequest(1));
  requests.back().mutable_inputs(0)->set_name("pixels");
  requests.push_back(TensorRequest(1));
  requests.back().clear_inputs();
  requests.back().clear_raw_input_contents();
  requests.push_back(TensorRequest(1));  // the same input twice
  *requests.back().add_inputs() = requests.back().inputs(0);
  requests.back().add_raw_input_contents(requests.back().raw_input_contents(0));
  for (size_t i = 0; i < requests.size(); ++i) {
    const grpc::Status status = Infer(requests[i]);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << i;
    EXPECT_NE(ReceivedDetails(status).field(), "") << i;
  }
  EXPECT_TRUE(loader_.network("shapes")->batches().empty());
  EXPECT_TRUE(Infer(TensorRequest(8)).ok());
}

TEST_F(InferenceCallTest, AnUnknownModelIsNotFound) {
  ASSERT_NO_FATAL_FAILURE(StartInference());
  ModelInferRequest request = TensorRequest(1);
  request.set_model_name("shades");
  const grpc::Status status = Infer(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReceivedDetails(status).info.reason(), "MODEL_NOT_FOUND");
}

}  // namespace
}  // namespace deform::rpc
