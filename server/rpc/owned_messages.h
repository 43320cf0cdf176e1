#pragma once

#include "grpcpp/server_context.h"
#include "grpcpp/support/message_allocator.h"

namespace deform::rpc {

// The messages of one call, owned so that a handler may move a picture or a tensor of many
// megabytes out of its request instead of copying it: gRPC itself hands requests out as const.
template <typename Request, typename Response>
class OwnedMessages final : public grpc::MessageHolder<Request, Response> {
 public:
  OwnedMessages() {
    this->set_request(&request_);
    this->set_response(&response_);
  }
  void Release() override { delete this; }

 private:
  Request request_;
  Response response_;
};

// Give one to a service's SetMessageAllocatorFor_…; it outlives the server.
template <typename Request, typename Response>
class OwnedMessagesAllocator final : public grpc::MessageAllocator<Request, Response> {
 public:
  grpc::MessageHolder<Request, Response>* AllocateMessages() override {
    return new OwnedMessages<Request, Response>();
  }
};

// The request of a call whose method has such an allocator. Valid until the call ends.
template <typename Request, typename Response>
Request& MutableRequest(grpc::CallbackServerContext* context) {
  return *static_cast<OwnedMessages<Request, Response>*>(context->GetRpcAllocatorState())
              ->request();
}

}  // namespace deform::rpc
