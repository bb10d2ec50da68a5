#include "proto/messages.hpp"

#include <fmt/format.h>
#include <xxhash.h>

namespace rubato::proto {

std::string to_string(NodeId node) {
  switch (node.role) {
    case Role::Scheduler:
      return "scheduler";
    case Role::Server:
      return fmt::format("server {}", node.index);
    case Role::Worker:
      return fmt::format("worker {}", node.index);
    case Role::Evaluator:
      return fmt::format("evaluator {}", node.index);
  }
  return fmt::format("role {} index {}", static_cast<int>(node.role), node.index);
}

std::uint64_t cluster_id(const std::string& name) {
  return XXH3_64bits(name.data(), name.size());
}

namespace {

struct BodyName {
  const char* operator()(const Hello&) const { return "Hello"; }
  const char* operator()(const Welcome&) const { return "Welcome"; }
  const char* operator()(const Refusal&) const { return "Refusal"; }
  const char* operator()(const Start&) const { return "Start"; }
  const char* operator()(const Leave&) const { return "Leave"; }
  const char* operator()(const Stop&) const { return "Stop"; }
  const char* operator()(const Members&) const { return "Members"; }
  const char* operator()(const MembersAck&) const { return "MembersAck"; }
  const char* operator()(const Pull&) const { return "Pull"; }
  const char* operator()(const Commit&) const { return "Commit"; }
  const char* operator()(const Parameters&) const { return "Parameters"; }
  const char* operator()(const Probe&) const { return "Probe"; }
  const char* operator()(const ProbeReply&) const { return "ProbeReply"; }
  const char* operator()(const Progress&) const { return "Progress"; }
  const char* operator()(const Heartbeat&) const { return "Heartbeat"; }
  const char* operator()(const Directive&) const { return "Directive"; }
  const char* operator()(const Evaluation&) const { return "Evaluation"; }
  const char* operator()(const Save&) const { return "Save"; }
  const char* operator()(const Notice&) const { return "Notice"; }
  const char* operator()(const Describe&) const { return "Describe"; }
  const char* operator()(const Described&) const { return "Described"; }
  const char* operator()(const Schema&) const { return "Schema"; }
  const char* operator()(const AskStatus&) const { return "AskStatus"; }
  const char* operator()(const Status&) const { return "Status"; }
};

}  // namespace

const char* body_name(const Body& body) {
  return std::visit(BodyName{}, body);
}

}  // namespace rubato::proto
