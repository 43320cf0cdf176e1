#pragma once

#include <functional>
#include <string>

#include "inference/grpc_service.grpc.pb.h"
#include "rpc/call.h"
#include "rpc/owned_messages.h"

namespace deform::rpc {

// inference.GRPCInferenceService: the six calls that the Open Inference Protocol, version 2,
// requires, on the network's own tensors. No call blocks a thread of gRPC's.
class InferenceService final : public inference::GRPCInferenceService::CallbackService {
 public:
  // `serving` tells whether the server as a whole is ready; `draining`, whether it is about to go,
  // so that no model is ready any more. Both thread-safe.
  InferenceService(CallEnvironment environment, std::string server_version,
                   std::function<bool()> serving, std::function<bool()> draining);

  grpc::ServerUnaryReactor* ServerLive(grpc::CallbackServerContext* context,
                                       const inference::ServerLiveRequest* request,
                                       inference::ServerLiveResponse* response) override;
  grpc::ServerUnaryReactor* ServerReady(grpc::CallbackServerContext* context,
                                        const inference::ServerReadyRequest* request,
                                        inference::ServerReadyResponse* response) override;
  // False for models that don't exist, as other servers of the protocol answer.
  grpc::ServerUnaryReactor* ModelReady(grpc::CallbackServerContext* context,
                                       const inference::ModelReadyRequest* request,
                                       inference::ModelReadyResponse* response) override;
  grpc::ServerUnaryReactor* ServerMetadata(grpc::CallbackServerContext* context,
                                           const inference::ServerMetadataRequest* request,
                                           inference::ServerMetadataResponse* response) override;
  grpc::ServerUnaryReactor* ModelMetadata(grpc::CallbackServerContext* context,
                                          const inference::ModelMetadataRequest* request,
                                          inference::ModelMetadataResponse* response) override;
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const inference::ModelInferRequest* request,
                                       inference::ModelInferResponse* response) override;

 private:
  const CallEnvironment environment_;
  const std::string server_version_;
  const std::function<bool()> serving_;
  const std::function<bool()> draining_;
  OwnedMessagesAllocator<inference::ModelInferRequest, inference::ModelInferResponse>
      infer_messages_;
};

}  // namespace deform::rpc
