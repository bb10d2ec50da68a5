#include "worker/worker_timeline.hpp"

#include <algorithm>

namespace rubato::worker {

void WorkerTimeline::look_for_reply(Instant now, const proto::Message& message,
                                    const WorkerCore& core) {
  const auto* parameters = std::get_if<proto::Parameters>(&message.body);
  if (!parameters || !core.id()) return;
  const proto::Progress& progress = core.progress();
  if (!first_reply_) first_reply_ = now;
  if (progress.commits > replied_) {
    const TraceArgs commit{.worker = core.id()->index, .sequence = parameters->sequence};
    commits_->span(Span::Communicate, commit_began_, now, commit);
    // A gate releases a commit just before its reply leaves: the wait ended when the reply came.
    const Instant released = std::max(*first_reply_, commit_began_);
    const Duration waited = progress.wait - waited_;
    if (waited > Duration{})
      commits_->span(Span::Wait, std::max(commit_began_, released - waited), released, commit);
  }
  replied_ = progress.commits;  // back to 0 in a new life
  waited_ = progress.wait;
}

}  // namespace rubato::worker
