#include "server/commit_assembly.hpp"

namespace rubato::server {

void CommitAssembly::begin(Sequence sequence, std::uint64_t total) {
  sequence_ = sequence;
  refused_.reset();
  chunks_.begin(total);
  kept_.clear();
}

CommitAssembly::Added CommitAssembly::note(const proto::Commit& commit) {
  const Added added = chunks_.add(commit.offset, commit.count);
  if (added == Added::Fresh && commit.discard) taint(proto::RefusedFor::NotFinite);
  return added;
}

void CommitAssembly::keep(const proto::Commit& chunk, proto::Payload payload) {
  kept_.push_back({chunk, std::move(payload)});
}

}  // namespace rubato::server
